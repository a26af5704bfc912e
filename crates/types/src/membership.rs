//! The servers of an ensemble and their parts in it.

use alloc::collections::BTreeSet;

use crate::ids::ServerId;
use crate::voters::Voters;

/// The servers of an ensemble: those that vote, and those that only follow.
///
/// An observer has the history and serves clients like a follower. It does not vote, does not lead and does not count in
/// any quorum, so it may be far away or fail without anybody waiting for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Membership {
    voters: Voters,
    observers: BTreeSet<ServerId>,
}

impl From<Voters> for Membership {
    /// An ensemble without observers.
    fn from(voters: Voters) -> Self {
        Self { voters, observers: BTreeSet::new() }
    }
}

impl Membership {
    /// Creates an ensemble. A server that is named as both votes.
    pub fn new(voters: Voters, observers: impl IntoIterator<Item = ServerId>) -> Self {
        let observers = observers.into_iter().filter(|id| !voters.contains(*id)).collect();
        Self { voters, observers }
    }

    /// The servers that vote.
    #[must_use]
    pub fn voters(&self) -> &Voters {
        &self.voters
    }

    /// The servers that only follow.
    #[must_use]
    pub fn observers(&self) -> &BTreeSet<ServerId> {
        &self.observers
    }

    /// Whether the server belongs to the ensemble.
    #[must_use]
    pub fn contains(&self, id: ServerId) -> bool {
        self.voters.contains(id) || self.observers.contains(&id)
    }

    /// All servers: first the voters, then the observers, each in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.voters.iter().chain(self.observers.iter().copied())
    }

    /// The servers that `me` has links to. Observers have none among themselves: they have nothing to tell each other.
    pub fn linked(&self, me: ServerId) -> impl Iterator<Item = ServerId> + '_ {
        self.iter().filter(move |id| self.are_linked(me, *id))
    }

    /// Whether two servers have links to each other.
    #[must_use]
    pub fn are_linked(&self, a: ServerId, b: ServerId) -> bool {
        a != b && self.contains(a) && self.contains(b) && (self.voters.contains(a) || self.voters.contains(b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn observers_are_linked_to_voters_only() {
        let members = Membership::new(Voters::new([1, 2].map(ServerId)), [2, 3, 4].map(ServerId));
        let linked = |me| members.linked(ServerId(me)).map(|id| id.0).collect::<Vec<_>>();
        assert_eq!(linked(1), [2, 3, 4]);
        assert_eq!(linked(3), [1, 2]);
        assert_eq!(linked(9), [0; 0], "a stranger has no links");
        assert!(members.voters().contains(ServerId(2)) && !members.observers().contains(&ServerId(2)));
    }
}
