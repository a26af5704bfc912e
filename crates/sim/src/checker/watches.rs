//! Checks the watches of one client, as its library keeps them.
//!
//! Every change that a watch matches is delivered exactly once, in order, and before any answer that shows it. A watch
//! that fired is gone unless it is persistent. Watches that are set again on a new connection deliver what was missed,
//! and nothing else.

use std::sync::Arc;

use pole_jute::{EventType, SetWatches2, WatcherEvent};
use pole_types::Zxid;

use super::CheckResult;
use super::service::{NodeEvent, Service};

/// The watches of one client.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientWatches {
    watches: Vec<Watch>,
    mode: Mode,
}

#[derive(Clone, Debug)]
struct Watch {
    kind: WatchKind,
    path: Arc<str>,
    /// The index of the first event that it may deliver.
    next: usize,
}

/// The kinds of watches, as in a client library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchKind {
    Data,
    Exist,
    Child,
    Persistent,
    Recursive,
}

/// Whether a server holds the watches.
#[derive(Clone, Debug, Default)]
enum Mode {
    /// The connected server holds them.
    #[default]
    Set,
    /// The connection is lost, and no server holds them.
    Lost,
    /// The client has asked to set these watches again relative to `since`, and has received these events meanwhile.
    Restoring { watches: Vec<Watch>, since: Zxid, delivered: Vec<(EventType, String)> },
}

impl ClientWatches {
    /// Adds a watch that an answer at `zxid` has set.
    pub(crate) fn set(&mut self, kind: WatchKind, path: &str, zxid: Zxid, events: &[NodeEvent]) {
        if self.watches.iter().all(|watch| (watch.kind, &*watch.path) != (kind, path)) {
            self.watches.push(Watch { kind, path: path.into(), next: after(events, zxid) });
        }
    }

    /// The connection is lost, and with it the watches on the server.
    pub(crate) fn connection_lost(&mut self) {
        self.mode = Mode::Lost;
    }

    pub(crate) fn len(&self) -> usize {
        self.watches.len()
    }

    /// The request that sets the watches again on a new connection; none if there are no watches.
    pub(crate) fn set_watches_request(&mut self, since: Zxid) -> Option<SetWatches2> {
        if self.watches.is_empty() {
            self.mode = Mode::Set;
            return None;
        }
        self.mode = Mode::Restoring { watches: self.watches.clone(), since, delivered: Vec::new() };
        let of = |kind| self.watches.iter().filter(move |w| w.kind == kind).map(|w| w.path.to_string()).collect();
        Some(SetWatches2 {
            relative_zxid: since.0.cast_signed(),
            data_watches: of(WatchKind::Data),
            exist_watches: of(WatchKind::Exist),
            child_watches: of(WatchKind::Child),
            persistent_watches: of(WatchKind::Persistent),
            persistent_recursive_watches: of(WatchKind::Recursive),
        })
    }

    /// The watches are set again: checks that exactly the missed events have been delivered.
    pub(crate) fn watches_set_again(&mut self, zxid: Zxid, service: &Service) -> CheckResult {
        let Mode::Restoring { watches, since, delivered } = std::mem::take(&mut self.mode) else {
            return Err("watches are set again that nobody asked for".to_owned());
        };
        let missed_of = |kind| {
            let of_kind = watches.iter().filter(move |watch| watch.kind == kind);
            of_kind.filter_map(|watch| Some((missed(watch, since, zxid, service)?, watch.path.to_string())))
        };
        let missed: Vec<_> =
            [WatchKind::Data, WatchKind::Exist, WatchKind::Child].into_iter().flat_map(missed_of).collect();
        if missed != delivered {
            return Err(format!(
                "a client that had seen {since} missed {missed:?} until {zxid}, and is told {delivered:?}"
            ));
        }
        let next = after(&service.node_events, zxid);
        self.watches.iter_mut().for_each(|watch| watch.next = next);
        Ok(())
    }

    /// Checks an event that the client receives.
    pub(crate) fn event_received(&mut self, zxid: Zxid, event: &WatcherEvent, events: &[NodeEvent]) -> CheckResult {
        let matches_event = |watch: &Watch| watch.matches_event(event.kind, &event.path);
        if let Mode::Restoring { delivered, .. } = &mut self.mode {
            delivered.push((event.kind, event.path.clone()));
            self.watches.retain(|watch| !(watch.kind.is_one_shot() && matches_event(watch)));
            return Ok(());
        }
        if !self.watches.iter().any(matches_event) {
            return Err(format!("a client is told {event:?} of {zxid}, and has no such watch"));
        }
        for watch in self.watches.iter_mut().filter(|watch| matches_event(watch)) {
            watch.skip(events, Zxid(u64::MAX));
            let next = events.get(watch.next);
            let is_next = |next: &NodeEvent| (next.zxid, next.kind, &*next.path) == (zxid, event.kind, &*event.path);
            if !next.is_some_and(is_next) {
                return Err(format!("a client is told {event:?} of {zxid}, but {watch:?} has {next:?} next"));
            }
            watch.next += 1;
        }
        self.watches.retain(|watch| !(watch.kind.is_one_shot() && matches_event(watch)));
        Ok(())
    }

    /// Checks an answer with the state at `zxid`: all events up to there must have been delivered before.
    pub(crate) fn answer_received(&mut self, zxid: Zxid, events: &[NodeEvent]) -> CheckResult {
        if !matches!(self.mode, Mode::Set) {
            return Ok(());
        }
        for watch in &mut self.watches {
            watch.skip(events, zxid);
            if let Some(missing) = events.get(watch.next).filter(|event| event.zxid <= zxid) {
                return Err(format!("a client is answered at {zxid}, but {watch:?} was not told {missing:?}"));
            }
        }
        Ok(())
    }
}

impl Watch {
    /// Skips events up to `through` that the watch does not match.
    fn skip(&mut self, events: &[NodeEvent], through: Zxid) {
        let matches_event = |event: &NodeEvent| self.matches_event(event.kind, &event.path);
        let passed =
            events[self.next..].iter().take_while(|event| event.zxid <= through && !matches_event(event)).count();
        self.next += passed;
    }

    fn matches_event(&self, kind: EventType, path: &str) -> bool {
        let below = || path.strip_prefix(&*self.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let is_child = kind == EventType::NodeChildrenChanged;
        match self.kind {
            WatchKind::Data | WatchKind::Exist => !is_child && path == &*self.path,
            WatchKind::Child => (is_child || kind == EventType::NodeDeleted) && path == &*self.path,
            WatchKind::Persistent => path == &*self.path,
            WatchKind::Recursive => !is_child && below(),
        }
    }
}

impl WatchKind {
    fn is_one_shot(self) -> bool {
        matches!(self, Self::Data | Self::Exist | Self::Child)
    }
}

/// The event that a watch missed between two states, as far as the later one shows it.
fn missed(watch: &Watch, since: Zxid, zxid: Zxid, service: &Service) -> Option<EventType> {
    let stat = service.node_at(&watch.path, zxid).map(|node| node.stat);
    let is_new = |at: i64| at > since.0.cast_signed();
    match (watch.kind, stat) {
        (WatchKind::Data | WatchKind::Child, None) => Some(EventType::NodeDeleted),
        (WatchKind::Data, Some(stat)) => is_new(stat.mzxid).then_some(EventType::NodeDataChanged),
        (WatchKind::Child, Some(stat)) => is_new(stat.pzxid).then_some(EventType::NodeChildrenChanged),
        (WatchKind::Exist, stat) => stat.map(|_| EventType::NodeCreated),
        (WatchKind::Persistent | WatchKind::Recursive, _) => None,
    }
}

/// The index of the first event after `zxid`.
fn after(events: &[NodeEvent], zxid: Zxid) -> usize {
    events.partition_point(|event| event.zxid <= zxid)
}
