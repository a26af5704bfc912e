//! The log in memory: the end of the history, which can still be sent as a difference.
//!
//! Invariants:
//! - Everything up to `base` is committed and durable on disk.
//! - Zxids are contiguous within an epoch and ascend from epoch to epoch.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use pole_types::{Epoch, Zxid};

use crate::{Entry, Epochs};

/// The last entries of the history.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Log {
    /// The position before the first entry in memory.
    base: Zxid,
    /// In order, contiguous.
    entries: VecDeque<Entry>,
    /// The shape of the history, including the part that is no longer in memory.
    epochs: Epochs,
    /// The memory use of `entries`.
    bytes: usize,
}

impl Log {
    /// A log whose history up to `base` is not in memory.
    #[must_use]
    pub fn starting_at(base: Zxid) -> Self {
        Self::after_snapshot(base, Epochs::starting_at(base))
    }

    /// A log that continues a snapshot at `base` with this history.
    #[must_use]
    pub fn after_snapshot(base: Zxid, epochs: Epochs) -> Self {
        Self { base, entries: VecDeque::new(), epochs, bytes: 0 }
    }

    /// The position before the first entry in memory.
    #[must_use]
    pub fn base(&self) -> Zxid {
        self.base
    }

    /// The last position.
    #[must_use]
    pub fn last(&self) -> Zxid {
        self.entries.back().map_or(self.base, |e| e.zxid)
    }

    /// The position of the next entry, which a leader of `epoch` appends.
    #[must_use]
    pub fn next_zxid(&self, epoch: Epoch) -> Zxid {
        let last = self.last();
        if last.epoch() < epoch { Zxid::new(epoch, 1) } else { Zxid::new(last.epoch(), last.counter() + 1) }
    }

    /// The shape of the history.
    #[must_use]
    pub fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// The memory use of the entries in bytes, approximately.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of entries in memory.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no entry is in memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether `zxid` can follow the last position: the next counter, or the first of a later epoch.
    #[must_use]
    pub fn continues_with(&self, zxid: Zxid) -> bool {
        follows(self.last(), zxid)
    }

    /// Appends an entry.
    ///
    /// # Panics
    /// If it does not continue the log. Callers must have checked entries received from peers.
    pub fn push(&mut self, entry: Entry) {
        assert!(self.continues_with(entry.zxid), "{} does not follow {}", entry.zxid, self.last());
        self.bytes += entry.cost_bytes();
        self.epochs.push(entry.zxid);
        self.entries.push_back(entry);
    }

    /// Removes every entry above `to`, which must be a position of the log in memory.
    ///
    /// # Panics
    /// If `to` is below the base.
    pub fn truncate(&mut self, to: Zxid) {
        assert!(to >= self.base, "truncation to {to}, below the log's base {}", self.base);
        while self.last() > to {
            let entry = self.entries.pop_back().expect("above the base there are entries");
            self.bytes -= entry.cost_bytes();
        }
        self.epochs.truncate(to);
    }

    /// Whether everything after `position` is in memory and `position` is part of the history.
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

    /// The first entries above `after`: about `bytes_max` bytes, and at least one entry if there is one.
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

    /// Drops the oldest entries up to `limit` until at most `bytes_max` bytes are in memory.
    pub fn trim(&mut self, limit: Zxid, bytes_max: usize) {
        while self.bytes > bytes_max && self.entries.front().is_some_and(|e| e.zxid <= limit) {
            let entry = self.entries.pop_front().expect("there is a front");
            self.bytes -= entry.cost_bytes();
            self.base = entry.zxid;
        }
    }
}

/// Whether `next` may directly follow `last` in a history.
pub(crate) fn follows(last: Zxid, next: Zxid) -> bool {
    if next.epoch() == last.epoch() {
        next.counter().checked_sub(1) == Some(last.counter())
    } else {
        next.epoch() > last.epoch() && next.counter() == 1
    }
}

/// Whether the entries are contiguous and the first of them follows `prev`.
pub(crate) fn is_contiguous(prev: Zxid, entries: &[Entry]) -> bool {
    let positions = || entries.iter().map(|e| e.zxid);
    core::iter::once(prev).chain(positions()).zip(positions()).all(|(last, next)| follows(last, next))
}
