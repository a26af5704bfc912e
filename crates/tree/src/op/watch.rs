//! setWatches, setWatches2, addWatch, checkWatches, removeWatches.
//!
//! A client that reconnects brings its watches along, and the last zxid that it has seen. What changed since then is an
//! event that it missed; the rest is set again. Removals are reported by the reply alone: the client's library makes the
//! event for its user itself.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::DerefMut;

use pole_jute::{
    AddWatchMode, AddWatchRequest, CheckWatchesRequest, ErrorCode, ErrorResponse, EventType, KeeperState, Record,
    RemoveWatchesRequest, SetWatches, SetWatches2, WatcherEvent, WatcherType, Writer,
};

use crate::Watches;
use crate::node::Node;
use crate::read::Reading;
use crate::watches::Modes;

pub(crate) fn set_again<W: DerefMut<Target = Watches>>(
    desk: &Reading,
    watches: impl FnOnce() -> W,
    request: &SetWatches,
    events: &mut Vec<WatcherEvent>,
) -> Result<(), ErrorCode> {
    let mut watches = watches();
    let all = request.data_watches.len() + request.exist_watches.len() + request.child_watches.len();
    desk.check_room(&mut watches, all)?;
    let mut again = Again { desk, watches: &mut watches, since: request.relative_zxid, events };
    again.one_shot(&request.data_watches, &request.exist_watches, &request.child_watches);
    Ok(())
}

pub(crate) fn set_all_again<W: DerefMut<Target = Watches>>(
    desk: &Reading,
    watches: impl FnOnce() -> W,
    request: &SetWatches2,
    events: &mut Vec<WatcherEvent>,
) -> Result<(), ErrorCode> {
    let mut watches = watches();
    let one_shot = request.data_watches.len() + request.exist_watches.len() + request.child_watches.len();
    let persistent = request.persistent_watches.len() + request.persistent_recursive_watches.len();
    desk.check_room(&mut watches, one_shot + persistent)?;
    let mut again = Again { desk, watches: &mut watches, since: request.relative_zxid, events };
    again.one_shot(&request.data_watches, &request.exist_watches, &request.child_watches);
    let mut add = |path: &String, mode| watches.add(path, desk.watcher, desk.caller, mode);
    request.persistent_watches.iter().for_each(|path| add(path, Modes::PERSISTENT));
    request.persistent_recursive_watches.iter().for_each(|path| add(path, Modes::RECURSIVE));
    Ok(())
}

/// Watches that are set again.
struct Again<'a> {
    desk: &'a Reading<'a>,
    watches: &'a mut Watches,
    /// The last zxid that the client has seen.
    since: i64,
    events: &'a mut Vec<WatcherEvent>,
}

impl Again<'_> {
    fn one_shot(&mut self, data: &[String], exist: &[String], child: &[String]) {
        for path in data {
            let missed = |node: &Node, since| (node.stat.mzxid > since).then_some(EventType::NodeDataChanged);
            self.expect_node(path, Modes::DATA, missed);
        }
        for path in exist {
            match self.desk.find(path) {
                Some(_) => self.tell(path, EventType::NodeCreated),
                None => self.watches.add(path, self.desk.watcher, self.desk.caller, Modes::DATA),
            }
        }
        for path in child {
            let missed = |node: &Node, since| (node.stat.pzxid > since).then_some(EventType::NodeChildrenChanged);
            self.expect_node(path, Modes::CHILD, missed);
        }
    }

    fn expect_node(&mut self, path: &str, mode: Modes, missed: impl Fn(&Node, i64) -> Option<EventType>) {
        let event = self.desk.find(path).map_or(Some(EventType::NodeDeleted), |node| missed(node, self.since));
        match event {
            Some(event) => self.tell(path, event),
            None => self.watches.add(path, self.desk.watcher, self.desk.caller, mode),
        }
    }

    fn tell(&mut self, path: &str, kind: EventType) {
        self.events.push(WatcherEvent { kind, state: KeeperState::SyncConnected, path: path.into() });
    }
}

/// The node need not exist.
pub(crate) fn add<W: DerefMut<Target = Watches>>(
    desk: &Reading,
    watches: impl FnOnce() -> W,
    request: &AddWatchRequest,
    reply: &mut Writer,
) -> Result<(), ErrorCode> {
    let mode = match request.mode {
        AddWatchMode::Persistent => Modes::PERSISTENT,
        AddWatchMode::PersistentRecursive => Modes::RECURSIVE,
    };
    desk.watch(watches, true, &request.path, mode)?;
    ErrorResponse { err: ErrorCode::Ok }.write(reply);
    Ok(())
}

pub(crate) fn check<W: DerefMut<Target = Watches>>(
    desk: &Reading,
    watches: impl FnOnce() -> W,
    request: &CheckWatchesRequest,
) -> Result<(), ErrorCode> {
    let set = watches().modes(&request.path, desk.watcher);
    if set.intersects(meant(request.kind)) { Ok(()) } else { Err(ErrorCode::NoWatcher) }
}

pub(crate) fn remove<W: DerefMut<Target = Watches>>(
    desk: &Reading,
    watches: impl FnOnce() -> W,
    request: &RemoveWatchesRequest,
) -> Result<(), ErrorCode> {
    let removed = watches().remove(&request.path, desk.watcher, meant(request.kind));
    if removed { Ok(()) } else { Err(ErrorCode::NoWatcher) }
}

fn meant(kind: WatcherType) -> Modes {
    match kind {
        WatcherType::Children => Modes::CHILD,
        WatcherType::Data => Modes::DATA,
        WatcherType::Any => Modes::ALL,
        WatcherType::Persistent => Modes::PERSISTENT,
        WatcherType::PersistentRecursive => Modes::RECURSIVE,
    }
}
