//! The watches of this server's connections.
//!
//! Registrations and changes go in; events come out, each for one connection.
//!
//! Watches belong to connections, not sessions: they end with the connection, and the client sets them again after it
//! reconnects. They are not replicated; each server has its own.
//!
//! Invariants:
//!
//! - a connection gets at most one event for one change of one path, however many of its watches match;
//! - a one-shot watch is removed when it fires;
//! - a recursive watch reports no node that its connection may not read;
//! - the table by path and the table by connection hold the same pairs.
//!
//! The model is Apache's `WatchManager`; a connection can watch a path in several modes at once, as since 3.9.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use hashbrown::HashTable;
use pole_jute::{EventType, KeeperState, Perms, WatcherEvent};

use crate::access::Permissions;
use crate::node::hash;
use crate::{Caller, Change, Changes, Rules, path};

/// A connection, by the number that the server assigned to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Watcher(pub u64);

/// The watches of one server.
#[derive(Clone, Debug, Default)]
pub struct Watches {
    by_path: HashTable<Watched>,
    by_watcher: BTreeMap<Watcher, Connection>,
    /// The number of recursive watches. While it is 0, ancestors of a changed path need not be searched.
    recursive: usize,
    /// See [`Self::count`].
    count: usize,
    /// See [`Self::refused`].
    refused: u64,
    /// Closed connections, with the paths where they are still registered.
    ended: BTreeMap<Watcher, BTreeSet<Arc<str>>>,
}

#[derive(Clone, Debug)]
struct Connection {
    /// The identities when the connection last set a watch or authenticated.
    caller: Caller,
    paths: BTreeSet<Arc<str>>,
    /// The sum of [`weight`] over the paths.
    weight: usize,
}

#[derive(Clone, Debug)]
struct Watched {
    path: Arc<str>,
    /// Sorted by connection.
    watchers: Vec<(Watcher, Modes)>,
}

/// How a connection watches a path: any combination of the four modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Modes(u8);

/// The totals that `wchs` reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchesSummary {
    /// Connections with a watch.
    pub connections: usize,
    /// Paths with a watch.
    pub paths: usize,
    /// Pairs of connection and path: a data and a child watch of one connection on one path count as one.
    pub watches: usize,
}

impl Watches {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends the events for these changes, in order, each to all connections that get it, and removes the one-shot watches
    /// that fired.
    pub fn fire(&mut self, changes: &Changes, mut send: impl FnMut(WatcherEvent, Vec<Watcher>)) {
        self.sweep(SWEEP_STEP);
        if self.by_watcher.is_empty() {
            return;
        }
        for change in changes.iter() {
            let recipients = self.fire_one(changes.rules, change);
            if !recipients.is_empty() {
                let path = String::from(&*change.path);
                send(WatcherEvent { kind: change.kind, state: KeeperState::SyncConnected, path }, recipients);
            }
        }
    }

    /// Returns the connections that get an event.
    fn fire_one(&mut self, rules: Rules, change: &Change) -> Vec<Watcher> {
        let triggered = Modes::triggered_by(change.kind);
        let mut recipients = Vec::new();
        self.edit(&change.path, |watcher, modes| {
            if modes.intersects(triggered) {
                recipients.push(watcher);
            }
            modes.without(triggered.intersection(Modes::ONE_SHOT))
        });
        if self.recursive > 0 && triggered.intersects(Modes::RECURSIVE) {
            self.add_recursive_watchers(rules, change, &mut recipients);
            recipients.sort_unstable();
            recipients.dedup();
        }
        if !self.ended.is_empty() {
            recipients.retain(|watcher| !self.ended.contains_key(watcher));
        }
        recipients
    }

    /// Adds the connections with a recursive watch on an ancestor, if they may read the node.
    fn add_recursive_watchers(&self, rules: Rules, change: &Change, recipients: &mut Vec<Watcher>) {
        let may_read = |watcher: &Watcher| {
            self.by_watcher
                .get(watcher)
                .is_some_and(|connection| Permissions::new(rules, &connection.caller).permit(&change.acl, Perms::READ))
        };
        for (hash, above) in path::ancestors_and_self_hashed(&change.path).filter(|(_, above)| *above != &*change.path)
        {
            let Some(watched) = self.by_path.find(hash, |watched| &*watched.path == above) else { continue };
            let recursive = watched.watchers.iter().filter(|(_, modes)| modes.intersects(Modes::RECURSIVE));
            recipients.extend(recursive.map(|(watcher, _)| *watcher).filter(may_read));
        }
    }

    /// Removes a closed connection. A few of its watches are removed at once; [`Self::sweep`] removes the rest.
    pub fn forget(&mut self, watcher: Watcher) {
        if let Some(mut connection) = self.by_watcher.remove(&watcher) {
            self.ended.entry(watcher).or_default().append(&mut connection.paths);
        }
        self.sweep(SWEEP_STEP);
    }

    /// Removes at most `most` watches of closed connections; returns false if none are left.
    ///
    /// A connection can have so many watches that removing them at once would hold the lock for too long.
    pub fn sweep(&mut self, most: usize) -> bool {
        for _ in 0..most {
            let Some(mut connection) = self.ended.first_entry() else { return false };
            let watcher = *connection.key();
            match connection.get_mut().pop_first() {
                Some(path) => drop(self.remove(&path, watcher, Modes::ALL)),
                None => drop(connection.remove()),
            }
        }
        !self.ended.is_empty()
    }

    /// The number of watches as `mntr` counts them: data plus child watches, with persistent ones counted in both.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The number of requests rejected because of [`crate::Rules::watches_max`].
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    #[must_use]
    pub fn summary(&self) -> WatchesSummary {
        WatchesSummary {
            connections: self.by_watcher.len(),
            paths: self.by_path.len(),
            watches: self.by_watcher.values().map(|connection| connection.paths.len()).sum(),
        }
    }

    /// The first of the watches behind this one, by connection and path. A list of all is read in parts, between which the
    /// watches may change.
    #[must_use]
    pub fn after(&self, last: Option<(Watcher, &str)>, most: usize) -> Vec<(Watcher, Arc<str>)> {
        let (from, above) = match last {
            Some((watcher, path)) => (watcher, Bound::Excluded(path)),
            None => (Watcher(0), Bound::Unbounded),
        };
        let watches = self.by_watcher.range(from..).flat_map(|(watcher, connection)| {
            let above = if *watcher == from { above } else { Bound::Unbounded };
            let paths = connection.paths.range::<str, _>((above, Bound::Unbounded));
            paths.map(|path| (*watcher, Arc::clone(path)))
        });
        watches.take(most).collect()
    }

    /// Updates the identities of a connection. They determine which events its recursive watches may report.
    pub fn identify(&mut self, watcher: Watcher, caller: &Caller) {
        if let Some(connection) = self.by_watcher.get_mut(&watcher)
            && connection.caller != *caller
        {
            connection.caller = caller.clone();
        }
    }

    /// Whether the connection may watch these paths too. Long paths count as several. A refusal is counted.
    pub(crate) fn has_room<'a>(
        &mut self,
        watcher: Watcher,
        more: impl IntoIterator<Item = &'a str>,
        most: usize,
    ) -> bool {
        let has = self.by_watcher.get(&watcher).map_or(0, |connection| connection.weight);
        let room = has + more.into_iter().map(weight).sum::<usize>() <= most;
        self.refused += u64::from(!room);
        room
    }

    /// Adds modes in which the connection watches the path.
    pub(crate) fn add(&mut self, path: &str, watcher: Watcher, caller: &Caller, modes: Modes) {
        let hash_of = |watched: &Watched| hash(&watched.path);
        let entry = self.by_path.entry(hash(path), |watched| &*watched.path == path, hash_of);
        let mut entry = entry.or_insert_with(|| Watched { path: path.into(), watchers: Vec::new() });
        let watched = entry.get_mut();
        let before = match watched.watchers.binary_search_by_key(&watcher, |(watcher, _)| *watcher) {
            Ok(at) => {
                let before = watched.watchers[at].1;
                watched.watchers[at].1 = before.with(modes);
                before
            }
            Err(at) => {
                watched.watchers.insert(at, (watcher, modes));
                let fresh = || Connection { caller: caller.clone(), paths: BTreeSet::new(), weight: 0 };
                let connection = self.by_watcher.entry(watcher).or_insert_with(fresh);
                connection.paths.insert(Arc::clone(&watched.path));
                connection.weight += weight(path);
                Modes::NONE
            }
        };
        self.update_counts(before, before.with(modes));
        self.identify(watcher, caller);
    }

    /// The modes in which the connection watches the path.
    pub(crate) fn modes(&self, path: &str, watcher: Watcher) -> Modes {
        let watched = self.by_path.find(hash(path), |watched| &*watched.path == path);
        let at = watched.and_then(|w| {
            w.watchers.binary_search_by_key(&watcher, |(watcher, _)| *watcher).ok().map(|at| w.watchers[at])
        });
        at.map_or(Modes::NONE, |(_, modes)| modes)
    }

    /// Removes these modes; returns false if none of them was set.
    pub(crate) fn remove(&mut self, path: &str, watcher: Watcher, modes: Modes) -> bool {
        let Ok(mut entry) = self.by_path.find_entry(hash(path), |watched| &*watched.path == path) else { return false };
        let watchers = &mut entry.get_mut().watchers;
        let Ok(at) = watchers.binary_search_by_key(&watcher, |(watcher, _)| *watcher) else { return false };
        let before = watchers[at].1;
        let after = before.without(modes);
        watchers[at].1 = after;
        if after == Modes::NONE {
            watchers.remove(at);
            if watchers.is_empty() {
                entry.remove();
                self.shrink();
            }
            self.unlink(watcher, path);
        }
        self.update_counts(before, after);
        before.intersects(modes)
    }

    /// Changes the modes of each connection that watches a path, and unregisters connections left without one.
    fn edit(&mut self, path: &str, mut how: impl FnMut(Watcher, Modes) -> Modes) {
        let Ok(mut entry) = self.by_path.find_entry(hash(path), |watched| &*watched.path == path) else { return };
        let mut edits = Vec::new();
        entry.get_mut().watchers.retain_mut(|(watcher, modes)| {
            let (before, after) = (*modes, how(*watcher, *modes));
            *modes = after;
            if before != after {
                edits.push((*watcher, before, after));
            }
            after != Modes::NONE
        });
        if entry.get().watchers.is_empty() {
            entry.remove();
            self.shrink();
        }
        for (watcher, before, after) in edits {
            self.update_counts(before, after);
            if after == Modes::NONE {
                self.unlink(watcher, path);
            }
        }
    }

    /// Shrinks the table when most of it is unused, because the peak number of watches may never return.
    fn shrink(&mut self) {
        let used = self.by_path.len();
        if self.by_path.capacity() > SHRINK_ABOVE.max(8 * used) {
            self.by_path.shrink_to(2 * used, |watched| hash(&watched.path));
        }
    }

    fn unlink(&mut self, watcher: Watcher, path: &str) {
        if let Some(connection) = self.by_watcher.get_mut(&watcher) {
            connection.weight -= usize::from(connection.paths.remove(path)) * weight(path);
            if connection.paths.is_empty() {
                self.by_watcher.remove(&watcher);
            }
        }
    }

    fn update_counts(&mut self, before: Modes, after: Modes) {
        let recursive = |modes: Modes| usize::from(modes.intersects(Modes::RECURSIVE));
        self.recursive = self.recursive + recursive(after) - recursive(before);
        self.count = self.count + after.tables() - before.tables();
    }
}

/// How many watches a path counts for: the memory for its text is bounded, too.
fn weight(path: &str) -> usize {
    1 + path.len() / PATH_BYTES_OF_A_WATCH
}

const PATH_BYTES_OF_A_WATCH: usize = 256;

/// Watches of closed connections that are removed along with other work. Takes tens of microseconds.
const SWEEP_STEP: usize = 100;
/// A table with capacity for this many paths or fewer is never shrunk.
const SHRINK_ABOVE: usize = 1024;

impl Modes {
    pub(crate) const NONE: Self = Self(0);
    /// One-shot, set by getData and exists.
    pub(crate) const DATA: Self = Self(1);
    /// One-shot, set by getChildren.
    pub(crate) const CHILD: Self = Self(1 << 1);
    /// The node and its list of children; does not expire.
    pub(crate) const PERSISTENT: Self = Self(1 << 2);
    /// The node and all its descendants; does not expire.
    pub(crate) const RECURSIVE: Self = Self(1 << 3);
    pub(crate) const ALL: Self = Self(0xf);
    const ONE_SHOT: Self = Self(Self::DATA.0 | Self::CHILD.0);

    /// The modes that such an event on the watched path triggers.
    fn triggered_by(kind: EventType) -> Self {
        match kind {
            EventType::NodeCreated | EventType::NodeDataChanged => {
                Self::DATA.with(Self::PERSISTENT).with(Self::RECURSIVE)
            }
            EventType::NodeDeleted => Self::ALL,
            EventType::NodeChildrenChanged => Self::CHILD.with(Self::PERSISTENT),
            EventType::None
            | EventType::DataWatchRemoved
            | EventType::ChildWatchRemoved
            | EventType::PersistentWatchRemoved => Self::NONE,
        }
    }

    pub(crate) fn intersects(self, other: Self) -> bool {
        self.intersection(other) != Self::NONE
    }

    fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// In how many of Apache's two watch tables it would be registered.
    fn tables(self) -> usize {
        let persistent = self.intersects(Self::PERSISTENT.with(Self::RECURSIVE));
        usize::from(persistent || self.intersects(Self::DATA)) + usize::from(persistent || self.intersects(Self::CHILD))
    }
}
