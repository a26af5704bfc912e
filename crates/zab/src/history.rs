//! The shape of a history: the epochs that it contains and how far each of them goes.
//!
//! Two servers find the last position that they share by comparing lists of a few pairs instead of logs. This works
//! because a leader proposes the counters of its epoch in order and every server appends them in order: two histories
//! that both hold transactions of an epoch agree on that epoch up to the shorter one, and on everything before it.

use alloc::vec::Vec;
use pole_types::{Epoch, Zxid};

/// The epochs of a history, oldest first, each with its last counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Epochs {
    /// Ascending. Epochs without transactions are absent.
    last_counters: Vec<(Epoch, u32)>,
    /// Whether the list reaches back to the first transaction ever.
    complete: bool,
}

impl Epochs {
    /// The maximum number of pairs. A server that is further behind than this many epochs gets a snapshot.
    pub const PAIRS_MAX: usize = 1024;

    /// A history that starts after `base`; all that is known of the part before is that it was committed.
    #[must_use]
    pub fn starting_at(base: Zxid) -> Self {
        let mut epochs = Self { last_counters: Vec::new(), complete: base == Zxid::ZERO };
        if base != Zxid::ZERO {
            epochs.push(base);
        }
        epochs
    }

    /// Adds the next transaction.
    pub fn push(&mut self, zxid: Zxid) {
        match self.last_counters.last_mut() {
            Some((epoch, counter)) if *epoch == zxid.epoch() => *counter = zxid.counter(),
            _ => self.last_counters.push((zxid.epoch(), zxid.counter())),
        }
        if self.last_counters.len() > Self::PAIRS_MAX {
            self.last_counters.remove(0);
            self.complete = false;
        }
    }

    /// Removes everything after `to`, which must be in the history.
    pub fn truncate(&mut self, to: Zxid) {
        while let Some((epoch, counter)) = self.last_counters.last_mut() {
            if *epoch > to.epoch() {
                self.last_counters.pop();
            } else {
                if *epoch == to.epoch() {
                    *counter = to.counter().min(*counter);
                }
                break;
            }
        }
    }

    /// The last position, or `None` if the list is empty.
    #[must_use]
    pub fn last(&self) -> Option<Zxid> {
        self.last_counters.last().map(|(epoch, counter)| Zxid::new(*epoch, *counter))
    }

    /// The last position in both histories, or `None` if the lists do not reach back far enough to determine it.
    #[must_use]
    pub fn common(&self, other: &Self) -> Option<Zxid> {
        let shared = self.last_counters.iter().rev().find_map(|(epoch, ours)| {
            let at = other.last_counters.binary_search_by_key(epoch, |(e, _)| *e).ok()?;
            Some(Zxid::new(*epoch, (*ours).min(other.last_counters[at].1)))
        });
        shared.or_else(|| (self.complete && other.complete).then_some(Zxid::ZERO))
    }

    /// Whether a real history could have this list: ascending epochs, at most [`Self::PAIRS_MAX`] of them. Epoch 0
    /// occurs in the history of a standalone Apache server. A counter of 0 occurs in a snapshot that such a server took
    /// before the first transaction of its epoch.
    #[must_use]
    pub fn is_well_formed(&self) -> bool {
        self.last_counters.len() <= Self::PAIRS_MAX
            && self.last_counters.is_sorted_by(|a, b| a.0 < b.0)
            && self.last_counters.first() != Some(&(Epoch(0), 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(base: Zxid, zxids: &[(u32, u32)]) -> Epochs {
        let mut list = Epochs::starting_at(base);
        zxids.iter().for_each(|(e, c)| list.push(Zxid::new(Epoch(*e), *c)));
        list
    }

    fn zxid(epoch: u32, counter: u32) -> Zxid {
        Zxid::new(Epoch(epoch), counter)
    }

    #[test]
    fn histories_diverge_after_the_shorter_one_of_the_last_common_epoch() {
        let ours = epochs(Zxid::ZERO, &[(1, 9), (3, 4)]);
        let theirs = epochs(Zxid::ZERO, &[(1, 12), (2, 7)]);
        assert_eq!(ours.common(&theirs), Some(zxid(1, 9)));
        assert_eq!(theirs.common(&ours), Some(zxid(1, 9)));
    }

    #[test]
    fn complete_histories_share_at_least_the_beginning() {
        let ours = epochs(Zxid::ZERO, &[(2, 1)]);
        let theirs = epochs(Zxid::ZERO, &[(1, 1)]);
        assert_eq!(ours.common(&theirs), Some(Zxid::ZERO));
    }

    #[test]
    fn lists_that_do_not_reach_each_other_have_no_known_common_point() {
        let ours = epochs(zxid(5, 10), &[(6, 1)]);
        let theirs = epochs(Zxid::ZERO, &[(1, 3)]);
        assert_eq!(ours.common(&theirs), None);
    }

    #[test]
    fn truncation_to_the_end_of_an_older_epoch_drops_the_newer() {
        let mut list = epochs(Zxid::ZERO, &[(1, 5), (2, 3), (4, 1)]);
        list.truncate(zxid(2, 2));
        assert_eq!(list.last(), Some(zxid(2, 2)));
        list.truncate(zxid(1, 5));
        assert_eq!(list, epochs(Zxid::ZERO, &[(1, 5)]));
        list.truncate(Zxid::ZERO);
        assert_eq!(list.last(), None);
    }
}
