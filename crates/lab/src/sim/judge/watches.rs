//! Watches: what one client watches, as its library knows it, and what it must therefore be told.
//!
//! Every change that a watch sees is told exactly once, in order, and before any answer that shows it. A watch that fired
//! is gone unless it is persistent. What is set again on a new connection tells what was missed, and nothing else.
//! In: what was set, what is heard, the news of the history. Out: nothing, or a sentence with both values.

use std::sync::Arc;

use pole_election::Zxid;
use pole_jute::{EventType, SetWatches2, WatcherEvent};

use super::Verdict;
use super::service::{News, Service};

/// What a client watches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    watches: Vec<Watch>,
    mode: Mode,
}

#[derive(Clone, Debug)]
struct Watch {
    kind: Kind,
    path: Arc<str>,
    /// The first of the news that it may be told.
    next: usize,
}

/// The kinds of watches, as a client's library keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Data,
    Exist,
    Child,
    Persistent,
    Recursive,
}

/// Where the watches are.
#[derive(Clone, Debug, Default)]
enum Mode {
    /// At the server that the client is connected to.
    #[default]
    Set,
    /// Nowhere: the connection is lost.
    Lost,
    /// The client asked to set them again, as they were and from where; it was told these meanwhile.
    SetAgain { watches: Vec<Watch>, since: Zxid, told: Vec<(EventType, String)> },
}

impl Watched {
    /// An answer at `zxid` says that the watch is set.
    pub(crate) fn set(&mut self, kind: Kind, path: &str, zxid: Zxid, news: &[News]) {
        if self.watches.iter().all(|watch| (watch.kind, &*watch.path) != (kind, path)) {
            self.watches.push(Watch { kind, path: path.into(), next: after(news, zxid) });
        }
    }

    /// The connection is lost, and the watches on it.
    pub(crate) fn lose(&mut self) {
        self.mode = Mode::Lost;
    }

    pub(crate) fn len(&self) -> usize {
        self.watches.len()
    }

    /// What to ask on a new connection; none if there is nothing to set.
    pub(crate) fn again(&mut self, since: Zxid) -> Option<SetWatches2> {
        if self.watches.is_empty() {
            self.mode = Mode::Set;
            return None;
        }
        self.mode = Mode::SetAgain { watches: self.watches.clone(), since, told: Vec::new() };
        let of = |kind| self.watches.iter().filter(move |w| w.kind == kind).map(|w| w.path.to_string()).collect();
        Some(SetWatches2 {
            relative_zxid: since.0.cast_signed(),
            data_watches: of(Kind::Data),
            exist_watches: of(Kind::Exist),
            child_watches: of(Kind::Child),
            persistent_watches: of(Kind::Persistent),
            persistent_recursive_watches: of(Kind::Recursive),
        })
    }

    /// They are set again: what was missed has been told, no more and no less.
    pub(crate) fn set_again(&mut self, zxid: Zxid, service: &Service) -> Verdict {
        let Mode::SetAgain { watches, since, told } = std::mem::take(&mut self.mode) else {
            return Err("watches are set again that nobody asked for".to_owned());
        };
        let missed_of = |kind| {
            let of_kind = watches.iter().filter(move |watch| watch.kind == kind);
            of_kind.filter_map(|watch| Some((missed(watch, since, zxid, service)?, watch.path.to_string())))
        };
        let missed: Vec<_> = [Kind::Data, Kind::Exist, Kind::Child].into_iter().flat_map(missed_of).collect();
        if missed != told {
            return Err(format!("a client that had seen {since} missed {missed:?} until {zxid}, and is told {told:?}"));
        }
        let next = after(&service.news, zxid);
        self.watches.iter_mut().for_each(|watch| watch.next = next);
        Ok(())
    }

    /// An event is heard.
    pub(crate) fn event(&mut self, zxid: Zxid, event: &WatcherEvent, news: &[News]) -> Verdict {
        let sees = |watch: &Watch| watch.sees(event.kind, &event.path);
        if let Mode::SetAgain { told, .. } = &mut self.mode {
            told.push((event.kind, event.path.clone()));
            self.watches.retain(|watch| !(watch.kind.is_one_shot() && sees(watch)));
            return Ok(());
        }
        if !self.watches.iter().any(sees) {
            return Err(format!("a client is told {event:?} of {zxid}, and has no such watch"));
        }
        for watch in self.watches.iter_mut().filter(|watch| sees(watch)) {
            watch.skip(news, Zxid(u64::MAX));
            let next = news.get(watch.next);
            let is_next = |news: &News| (news.zxid, news.kind, &*news.path) == (zxid, event.kind, &*event.path);
            if !next.is_some_and(is_next) {
                return Err(format!("a client is told {event:?} of {zxid}, but {watch:?} has {next:?} next"));
            }
            watch.next += 1;
        }
        self.watches.retain(|watch| !(watch.kind.is_one_shot() && sees(watch)));
        Ok(())
    }

    /// An answer of the state at `zxid` is heard: whatever a watch saw up to there has been told.
    pub(crate) fn answer(&mut self, zxid: Zxid, news: &[News]) -> Verdict {
        if !matches!(self.mode, Mode::Set) {
            return Ok(());
        }
        for watch in &mut self.watches {
            watch.skip(news, zxid);
            if let Some(missing) = news.get(watch.next).filter(|news| news.zxid <= zxid) {
                return Err(format!("a client is answered at {zxid}, but {watch:?} was not told {missing:?}"));
            }
        }
        Ok(())
    }
}

impl Watch {
    /// Passes over what it does not see.
    fn skip(&mut self, news: &[News], through: Zxid) {
        let sees = |news: &News| self.sees(news.kind, &news.path);
        let passed = news[self.next..].iter().take_while(|news| news.zxid <= through && !sees(news)).count();
        self.next += passed;
    }

    fn sees(&self, kind: EventType, path: &str) -> bool {
        let below = || path.strip_prefix(&*self.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let is_child = kind == EventType::NodeChildrenChanged;
        match self.kind {
            Kind::Data | Kind::Exist => !is_child && path == &*self.path,
            Kind::Child => (is_child || kind == EventType::NodeDeleted) && path == &*self.path,
            Kind::Persistent => path == &*self.path,
            Kind::Recursive => !is_child && below(),
        }
    }
}

impl Kind {
    fn is_one_shot(self) -> bool {
        matches!(self, Self::Data | Self::Exist | Self::Child)
    }
}

/// What a watch missed between two states, as far as the later one shows.
fn missed(watch: &Watch, since: Zxid, zxid: Zxid, service: &Service) -> Option<EventType> {
    let stat = service.node_at(&watch.path, zxid).map(|node| node.stat);
    let is_new = |at: i64| at > since.0.cast_signed();
    match (watch.kind, stat) {
        (Kind::Data | Kind::Child, None) => Some(EventType::NodeDeleted),
        (Kind::Data, Some(stat)) => is_new(stat.mzxid).then_some(EventType::NodeDataChanged),
        (Kind::Child, Some(stat)) => is_new(stat.pzxid).then_some(EventType::NodeChildrenChanged),
        (Kind::Exist, stat) => stat.map(|_| EventType::NodeCreated),
        (Kind::Persistent | Kind::Recursive, _) => None,
    }
}

/// The first of the news after `zxid`.
fn after(news: &[News], zxid: Zxid) -> usize {
    news.partition_point(|news| news.zxid <= zxid)
}
