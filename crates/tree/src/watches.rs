//! The watches of the connections of this server.
//!
//! In: registrations and what changed. Out: events, each for one connection.
//! Why by connection and not by session: a connection that ends takes its watches with it, and the client sets them again
//! where it goes.
//! Holds: a connection gets at most one event for one change of one path, however many of its watches see it; a one-shot
//! watch is gone once it has fired; a recursive watch tells of no node that its connection may not read; the table by path and the one by connection hold the same pairs.
//! Not here: replicated state. Each server has its own.
//! Source: Apache's `WatchManager`, with the modes side by side as since 3.9.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashTable;
use pole_jute::{EventType, KeeperState, Perms, WatcherEvent};

use crate::access::may;
use crate::node::hash;
use crate::{Caller, Change, Changes, Rules, path};

/// A connection, by the number that the server gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Watcher(pub u64);

/// The watches of one server.
#[derive(Clone, Debug, Default)]
pub struct Watches {
    by_path: HashTable<Watched>,
    by_watcher: BTreeMap<Watcher, Connection>,
    /// How many watches see below their path. While there are none, nobody looks up there.
    recursive: usize,
    /// See [`Self::count`].
    count: usize,
    /// See [`Self::refused`].
    refused: u64,
    /// Connections that have ended, with the paths where they are still found.
    ended: BTreeMap<Watcher, BTreeSet<Arc<str>>>,
}

/// What a connection watches.
#[derive(Clone, Debug)]
struct Connection {
    /// Who it was when it last set a watch or was identified.
    caller: Caller,
    paths: BTreeSet<Arc<str>>,
}

#[derive(Clone, Debug)]
struct Watched {
    path: Arc<str>,
    /// Sorted by connection.
    by: Vec<(Watcher, Modes)>,
}

/// How a connection watches a path: any of the four, side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Modes(u8);

/// What wchs tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchesSummary {
    /// Connections with a watch.
    pub connections: usize,
    /// Paths with a watch.
    pub paths: usize,
    /// Pairs of the two: a data and a child watch of one connection on one path are one.
    pub watches: usize,
}

impl Watches {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells everyone who watches what changed, in order, and takes the one-shot watches away that fired.
    pub fn fire(&mut self, changes: &Changes, out: &mut Vec<(Watcher, WatcherEvent)>) {
        self.sweep(SWEPT_BESIDE);
        if self.by_watcher.is_empty() {
            return;
        }
        changes.iter().for_each(|change| self.fire_one(changes.rules, change, out));
    }

    fn fire_one(&mut self, rules: Rules, change: &Change, out: &mut Vec<(Watcher, WatcherEvent)>) {
        let seen = Modes::that_see(change.kind);
        let mut told = Vec::new();
        self.edit(&change.path, |watcher, modes| {
            if modes.intersects(seen) {
                told.push(watcher);
            }
            modes.without(seen.intersection(Modes::ONE_SHOT))
        });
        if self.recursive > 0 && seen.intersects(Modes::RECURSIVE) {
            self.find_above(rules, change, &mut told);
            told.sort_unstable();
            told.dedup();
        }
        if !self.ended.is_empty() {
            told.retain(|watcher| !self.ended.contains_key(watcher));
        }
        let event =
            |path: &str| WatcherEvent { kind: change.kind, state: KeeperState::SyncConnected, path: path.into() };
        out.extend(told.into_iter().map(|watcher| (watcher, event(&change.path))));
    }

    /// Adds those who watch the node from above. They have not named it, so they may not be allowed to know of it.
    fn find_above(&self, rules: Rules, change: &Change, told: &mut Vec<Watcher>) {
        let may_know = |watcher: &Watcher| {
            self.by_watcher
                .get(watcher)
                .is_some_and(|connection| may(rules, &change.acl, Perms::READ, &connection.caller))
        };
        for above in path::upwards(&change.path).skip(1) {
            let Some(watched) = self.by_path.find(hash(above), |watched| &*watched.path == above) else { continue };
            let recursive = watched.by.iter().filter(|(_, modes)| modes.intersects(Modes::RECURSIVE));
            told.extend(recursive.map(|(watcher, _)| *watcher).filter(may_know));
        }
    }

    /// The connection has ended. A few of its watches are removed at once; [`Self::sweep`] removes the rest.
    pub fn forget(&mut self, watcher: Watcher) {
        if let Some(mut connection) = self.by_watcher.remove(&watcher) {
            self.ended.entry(watcher).or_default().append(&mut connection.paths);
        }
        self.sweep(SWEPT_BESIDE);
    }

    /// Removes at most this many watches of connections that have ended; false if none are left.
    ///
    /// A connection can have so many that removing them at once would hold the lock for too long.
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

    /// As mntr counts: those on data and those on children, and persistent ones in both.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many requests would have exceeded [`crate::Rules::watches_max`].
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// As wchs counts.
    #[must_use]
    pub fn summary(&self) -> WatchesSummary {
        WatchesSummary {
            connections: self.by_watcher.len(),
            paths: self.by_path.len(),
            watches: self.by_watcher.values().map(|connection| connection.paths.len()).sum(),
        }
    }

    /// Who watches what, for wchc.
    pub fn by_watcher(&self) -> impl Iterator<Item = (Watcher, impl Iterator<Item = &str>)> {
        self.by_watcher.iter().map(|(watcher, connection)| (*watcher, connection.paths.iter().map(|path| &**path)))
    }

    /// What is watched by whom, for wchp; in no order.
    pub fn by_path(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = Watcher>)> {
        self.by_path.iter().map(|watched| (&*watched.path, watched.by.iter().map(|(watcher, _)| *watcher)))
    }

    /// The connection has proved to be somebody else too: what its watches may tell it changes.
    pub fn identify(&mut self, watcher: Watcher, caller: &Caller) {
        if let Some(connection) = self.by_watcher.get_mut(&watcher)
            && connection.caller != *caller
        {
            connection.caller = caller.clone();
        }
    }

    /// Whether the connection may watch this many paths more. If not, that is counted.
    pub(crate) fn has_room(&mut self, watcher: Watcher, more: usize, most: usize) -> bool {
        let has = self.by_watcher.get(&watcher).map_or(0, |connection| connection.paths.len());
        let room = has + more <= most;
        self.refused += u64::from(!room);
        room
    }

    /// Adds to what the connection watches on the path.
    pub(crate) fn add(&mut self, path: &str, watcher: Watcher, caller: &Caller, modes: Modes) {
        let hash_of = |watched: &Watched| hash(&watched.path);
        let entry = self.by_path.entry(hash(path), |watched| &*watched.path == path, hash_of);
        let mut entry = entry.or_insert_with(|| Watched { path: path.into(), by: Vec::new() });
        let watched = entry.get_mut();
        let before = match watched.by.binary_search_by_key(&watcher, |(watcher, _)| *watcher) {
            Ok(at) => {
                let before = watched.by[at].1;
                watched.by[at].1 = before.with(modes);
                before
            }
            Err(at) => {
                watched.by.insert(at, (watcher, modes));
                let fresh = || Connection { caller: caller.clone(), paths: BTreeSet::new() };
                self.by_watcher.entry(watcher).or_insert_with(fresh).paths.insert(Arc::clone(&watched.path));
                Modes::NONE
            }
        };
        self.account(before, before.with(modes));
        self.identify(watcher, caller);
    }

    /// What the connection watches on the path.
    pub(crate) fn modes(&self, path: &str, watcher: Watcher) -> Modes {
        let watched = self.by_path.find(hash(path), |watched| &*watched.path == path);
        let at =
            watched.and_then(|w| w.by.binary_search_by_key(&watcher, |(watcher, _)| *watcher).ok().map(|at| w.by[at]));
        at.map_or(Modes::NONE, |(_, modes)| modes)
    }

    /// Takes these away; false if there were none.
    pub(crate) fn remove(&mut self, path: &str, watcher: Watcher, modes: Modes) -> bool {
        let Ok(mut entry) = self.by_path.find_entry(hash(path), |watched| &*watched.path == path) else { return false };
        let by = &mut entry.get_mut().by;
        let Ok(at) = by.binary_search_by_key(&watcher, |(watcher, _)| *watcher) else { return false };
        let before = by[at].1;
        let after = before.without(modes);
        by[at].1 = after;
        if after == Modes::NONE {
            by.remove(at);
            if by.is_empty() {
                entry.remove();
                self.shrink();
            }
            self.let_go(watcher, path);
        }
        self.account(before, after);
        before.intersects(modes)
    }

    /// Changes how each connection watches a path. Who does not watch it any more is forgotten there.
    fn edit(&mut self, path: &str, mut how: impl FnMut(Watcher, Modes) -> Modes) {
        let Ok(mut entry) = self.by_path.find_entry(hash(path), |watched| &*watched.path == path) else { return };
        let mut steps = Vec::new();
        entry.get_mut().by.retain_mut(|(watcher, modes)| {
            let (before, after) = (*modes, how(*watcher, *modes));
            *modes = after;
            if before != after {
                steps.push((*watcher, before, after));
            }
            after != Modes::NONE
        });
        if entry.get().by.is_empty() {
            entry.remove();
            self.shrink();
        }
        for (watcher, before, after) in steps {
            self.account(before, after);
            if after == Modes::NONE {
                self.let_go(watcher, path);
            }
        }
    }

    /// Gives memory back when most of the table is unused: after many watches there may never be so many again.
    fn shrink(&mut self) {
        let used = self.by_path.len();
        if self.by_path.capacity() > SHRINK_ABOVE.max(8 * used) {
            self.by_path.shrink_to(2 * used, |watched| hash(&watched.path));
        }
    }

    fn let_go(&mut self, watcher: Watcher, path: &str) {
        if let Some(connection) = self.by_watcher.get_mut(&watcher) {
            connection.paths.remove(path);
            if connection.paths.is_empty() {
                self.by_watcher.remove(&watcher);
            }
        }
    }

    fn account(&mut self, before: Modes, after: Modes) {
        let recursive = |modes: Modes| usize::from(modes.intersects(Modes::RECURSIVE));
        self.recursive = self.recursive + recursive(after) - recursive(before);
        self.count = self.count + after.tables() - before.tables();
    }
}

/// Watches of ended connections that are removed beside other work: tens of microseconds.
const SWEPT_BESIDE: usize = 100;
/// A table with room for this many paths or fewer is never made smaller.
const SHRINK_ABOVE: usize = 1024;

impl Modes {
    pub(crate) const NONE: Self = Self(0);
    /// One-shot, by getData and exists.
    pub(crate) const DATA: Self = Self(1);
    /// One-shot, by getChildren.
    pub(crate) const CHILD: Self = Self(1 << 1);
    /// The node and its list of children, for good.
    pub(crate) const PERSISTENT: Self = Self(1 << 2);
    /// The node and all below, for good.
    pub(crate) const RECURSIVE: Self = Self(1 << 3);
    pub(crate) const ALL: Self = Self(0xf);
    const ONE_SHOT: Self = Self(Self::DATA.0 | Self::CHILD.0);

    /// Which of them see such an event on their own path.
    fn that_see(kind: EventType) -> Self {
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

    /// In how many of Apache's two tables it would stand.
    fn tables(self) -> usize {
        let lasting = self.intersects(Self::PERSISTENT.with(Self::RECURSIVE));
        usize::from(lasting || self.intersects(Self::DATA)) + usize::from(lasting || self.intersects(Self::CHILD))
    }
}
