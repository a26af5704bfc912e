//! setWatches, setWatches2, addWatch, checkWatches, removeWatches.
//!
//! A client that reconnects sends its watches and the last zxid that it has seen. For a watch whose node has changed
//! since then it gets the event that it missed; the other watches are set again. A removal is confirmed by the reply
//! alone: the client library creates the event for the application itself.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::DerefMut;

use pole_jute::{
    AddWatchMode, AddWatchRequest, CheckWatchesRequest, ErrorCode, ErrorResponse, EventType, KeeperState, Record,
    RemoveWatchesRequest, SetWatches, SetWatches2, WatcherEvent, WatcherType, Writer,
};

use crate::Watches;
use crate::node::Node;
use crate::read::ReadContext;
use crate::watches::Modes;

pub(crate) fn set_watches<W: DerefMut<Target = Watches>>(
    context: &ReadContext,
    watches: impl FnOnce() -> W,
    request: &SetWatches,
    events: &mut Vec<WatcherEvent>,
) -> Result<(), ErrorCode> {
    let mut watches = watches();
    let one_shot = [&request.data_watches, &request.exist_watches, &request.child_watches];
    context.check_room(&mut watches, one_shot.into_iter().flatten().map(String::as_str))?;
    let mut restorer = WatchRestorer { context, watches: &mut watches, since: request.relative_zxid, events };
    restorer.restore_one_shot(&request.data_watches, &request.exist_watches, &request.child_watches);
    Ok(())
}

pub(crate) fn set_watches2<W: DerefMut<Target = Watches>>(
    context: &ReadContext,
    watches: impl FnOnce() -> W,
    request: &SetWatches2,
    events: &mut Vec<WatcherEvent>,
) -> Result<(), ErrorCode> {
    let mut watches = watches();
    let one_shot = [&request.data_watches, &request.exist_watches, &request.child_watches];
    let persistent = [&request.persistent_watches, &request.persistent_recursive_watches];
    context.check_room(&mut watches, one_shot.into_iter().chain(persistent).flatten().map(String::as_str))?;
    let mut restorer = WatchRestorer { context, watches: &mut watches, since: request.relative_zxid, events };
    restorer.restore_one_shot(&request.data_watches, &request.exist_watches, &request.child_watches);
    let mut add = |path: &String, mode| watches.add(path, context.watcher, context.caller, mode);
    request.persistent_watches.iter().for_each(|path| add(path, Modes::PERSISTENT));
    request.persistent_recursive_watches.iter().for_each(|path| add(path, Modes::RECURSIVE));
    Ok(())
}

/// Sets the watches of a reconnected client again.
struct WatchRestorer<'a, 'c> {
    context: &'a ReadContext<'c>,
    watches: &'a mut Watches,
    /// The last zxid that the client has seen.
    since: i64,
    events: &'a mut Vec<WatcherEvent>,
}

impl WatchRestorer<'_, '_> {
    fn restore_one_shot(&mut self, data: &[String], exist: &[String], child: &[String]) {
        for path in data {
            let missed = |node: &Node, since| (node.stat.mzxid > since).then_some(EventType::NodeDataChanged);
            self.restore_or_fire(path, Modes::DATA, missed);
        }
        for path in exist {
            match self.context.find(path) {
                Some(_) => self.push_event(path, EventType::NodeCreated),
                None => self.watches.add(path, self.context.watcher, self.context.caller, Modes::DATA),
            }
        }
        for path in child {
            let missed = |node: &Node, since| (node.stat.pzxid > since).then_some(EventType::NodeChildrenChanged);
            self.restore_or_fire(path, Modes::CHILD, missed);
        }
    }

    fn restore_or_fire(&mut self, path: &str, mode: Modes, missed: impl Fn(&Node, i64) -> Option<EventType>) {
        let event = self.context.find(path).map_or(Some(EventType::NodeDeleted), |node| missed(node, self.since));
        match event {
            Some(event) => self.push_event(path, event),
            None => self.watches.add(path, self.context.watcher, self.context.caller, mode),
        }
    }

    fn push_event(&mut self, path: &str, kind: EventType) {
        self.events.push(WatcherEvent { kind, state: KeeperState::SyncConnected, path: path.into() });
    }
}

/// Adds a persistent watch. The node need not exist.
pub(crate) fn add<W: DerefMut<Target = Watches>>(
    context: &ReadContext,
    watches: impl FnOnce() -> W,
    request: &AddWatchRequest,
    reply: &mut Writer,
) -> Result<(), ErrorCode> {
    let mode = match request.mode {
        AddWatchMode::Persistent => Modes::PERSISTENT,
        AddWatchMode::PersistentRecursive => Modes::RECURSIVE,
    };
    context.watch(watches, true, &request.path, mode)?;
    ErrorResponse { err: ErrorCode::Ok }.write(reply);
    Ok(())
}

pub(crate) fn check<W: DerefMut<Target = Watches>>(
    context: &ReadContext,
    watches: impl FnOnce() -> W,
    request: &CheckWatchesRequest,
) -> Result<(), ErrorCode> {
    let set = watches().modes(&request.path, context.watcher);
    if set.intersects(modes_of(request.kind)) { Ok(()) } else { Err(ErrorCode::NoWatcher) }
}

pub(crate) fn remove<W: DerefMut<Target = Watches>>(
    context: &ReadContext,
    watches: impl FnOnce() -> W,
    request: &RemoveWatchesRequest,
) -> Result<(), ErrorCode> {
    let removed = watches().remove(&request.path, context.watcher, modes_of(request.kind));
    if removed { Ok(()) } else { Err(ErrorCode::NoWatcher) }
}

fn modes_of(kind: WatcherType) -> Modes {
    match kind {
        WatcherType::Children => Modes::CHILD,
        WatcherType::Data => Modes::DATA,
        WatcherType::Any => Modes::ALL,
        WatcherType::Persistent => Modes::PERSISTENT,
        WatcherType::PersistentRecursive => Modes::RECURSIVE,
    }
}
