//! The servers that vote, and what counts as a quorum of them.

use alloc::collections::BTreeSet;

use crate::ids::ServerId;

/// The set of servers that vote. A quorum is a majority of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Voters(BTreeSet<ServerId>);

impl Voters {
    /// Creates the set; duplicates are ignored.
    pub fn new(ids: impl IntoIterator<Item = ServerId>) -> Self {
        Self(ids.into_iter().collect())
    }

    /// The number of voters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no voters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of voters that make a quorum.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.0.len() / 2 + 1
    }

    /// Whether the server is a voter.
    #[must_use]
    pub fn contains(&self, id: ServerId) -> bool {
        self.0.contains(&id)
    }

    /// All voters, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.0.iter().copied()
    }

    /// All voters except `me`, in ascending order.
    pub fn peers(&self, me: ServerId) -> impl Iterator<Item = ServerId> + '_ {
        self.iter().filter(move |id| *id != me)
    }

    /// Whether these servers, each given once, include a quorum. Servers that are not voters do not count.
    pub fn is_quorum(&self, ids: impl IntoIterator<Item = ServerId>) -> bool {
        ids.into_iter().filter(|id| self.contains(*id)).count() >= self.quorum()
    }
}
