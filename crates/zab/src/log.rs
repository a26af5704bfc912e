//! The log in memory: the part of the history that can still be sent as a difference.
//!
//! In: entries, contiguous. Out: slices of them. Holds: everything before `base` is committed and durable
//! elsewhere (in a snapshot); zxids are contiguous within an epoch and ascend over epochs.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use pole_election::Zxid;

use crate::{Entry, Epochs};

/// A window on the end of the history.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Log {
    /// The position before the first entry held.
    base: Zxid,
    /// In order.
    entries: VecDeque<Entry>,
    /// The shape of the history, also of what is no longer held.
    epochs: Epochs,
    /// What `entries` cost.
    bytes: usize,
}

impl Log {
    /// A log whose history before `base` is held elsewhere.
    #[must_use]
    pub fn starting_at(base: Zxid) -> Self {
        Self::after_snapshot(base, Epochs::starting_at(base))
    }

    /// A log that continues a snapshot with this history.
    #[must_use]
    pub fn after_snapshot(base: Zxid, epochs: Epochs) -> Self {
        Self { base, entries: VecDeque::new(), epochs, bytes: 0 }
    }

    /// The position before the first entry held.
    #[must_use]
    pub fn base(&self) -> Zxid {
        self.base
    }

    /// The last position.
    #[must_use]
    pub fn last(&self) -> Zxid {
        self.entries.back().map_or(self.base, |e| e.zxid)
    }

    /// The shape of the history.
    #[must_use]
    pub fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// What the entries cost in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many entries are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no entry is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether `zxid` can follow the last position: the next counter, or the first of a later epoch.
    #[must_use]
    pub fn continues_with(&self, zxid: Zxid) -> bool {
        follows(self.last(), zxid)
    }

    /// Puts an entry at the end.
    ///
    /// # Panics
    /// If it does not continue the log: whoever calls has checked what came from outside.
    pub fn push(&mut self, entry: Entry) {
        assert!(self.continues_with(entry.zxid), "{} does not follow {}", entry.zxid, self.last());
        self.bytes += entry.cost_bytes();
        self.epochs.push(entry.zxid);
        self.entries.push_back(entry);
    }

    /// Drops every entry above `to`, which must be a position of the window.
    ///
    /// # Panics
    /// If `to` is below the window.
    pub fn truncate(&mut self, to: Zxid) {
        assert!(to >= self.base, "truncation to {to}, below the log's base {}", self.base);
        while self.last() > to {
            let entry = self.entries.pop_back().expect("above the base there are entries");
            self.bytes -= entry.cost_bytes();
        }
        self.epochs.truncate(to);
    }

    /// Whether the window holds `position`, or starts right after it.
    #[must_use]
    pub fn reaches(&self, position: Zxid) -> bool {
        position == self.base || self.entries.binary_search_by_key(&position, |e| e.zxid).is_ok()
    }

    /// The entries above `after` up to `through`.
    pub fn between(&self, after: Zxid, through: Zxid) -> impl Iterator<Item = &Entry> {
        let from = self.entries.partition_point(|e| e.zxid <= after);
        let to = self.entries.partition_point(|e| e.zxid <= through).max(from);
        self.entries.range(from..to)
    }

    /// The first entries above `after`: about `bytes_max`, and at least one if there is one.
    #[must_use]
    pub fn piece(&self, after: Zxid, bytes_max: usize) -> Vec<Entry> {
        let mut bytes = 0;
        let more = |entry: &&Entry| {
            let has_room = bytes < bytes_max;
            bytes += entry.cost_bytes();
            has_room
        };
        self.between(after, self.last()).take_while(more).cloned().collect()
    }

    /// Lets the oldest entries go, none above `limit`, until what is held costs at most `bytes_max`.
    pub fn trim(&mut self, limit: Zxid, bytes_max: usize) {
        while self.bytes > bytes_max && self.entries.front().is_some_and(|e| e.zxid <= limit) {
            let entry = self.entries.pop_front().expect("there is a front");
            self.bytes -= entry.cost_bytes();
            self.base = entry.zxid;
        }
    }
}

/// Whether `next` may stand right after `last` in a history.
pub(crate) fn follows(last: Zxid, next: Zxid) -> bool {
    if next.epoch() == last.epoch() {
        next.counter().checked_sub(1) == Some(last.counter())
    } else {
        next.epoch() > last.epoch() && next.counter() == 1
    }
}

/// Whether the entries continue one another, the first of them `prev`.
pub(crate) fn is_contiguous(prev: Zxid, entries: &[Entry]) -> bool {
    let positions = || entries.iter().map(|e| e.zxid);
    core::iter::once(prev).chain(positions()).zip(positions()).all(|(last, next)| follows(last, next))
}
