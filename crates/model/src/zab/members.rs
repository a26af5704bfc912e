//! Changes of the members: sets of servers, and the transactions that hold them.

use std::fmt;

use bytes::Bytes;
use pole_types::{Membership, Voters};

use super::world::id;

/// A set of voters: bit `n` stands for the server with the index `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Members(pub(crate) u8);

impl Members {
    /// Servers 1 to 3.
    pub(crate) const THREE: Self = Self(0b111);

    pub(crate) fn contains(self, at: usize) -> bool {
        self.0 >> at & 1 == 1
    }

    /// One more than the highest index.
    pub(crate) fn servers(self) -> usize {
        (u8::BITS - self.0.leading_zeros()) as usize
    }

    pub(crate) fn membership(self) -> Membership {
        Voters::new((0..self.servers()).filter(|at| self.contains(*at)).map(id)).into()
    }

    /// The transaction that makes these the members.
    pub(crate) fn change(self) -> Vec<u8> {
        vec![CHANGE, self.0]
    }
}

impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..self.servers()).filter(|at| self.contains(*at)).try_for_each(|at| write!(f, "{}", id(at)))
    }
}

/// The members that a transaction sets, if it changes them.
pub(crate) fn changed_by(body: &Bytes) -> Option<Membership> {
    match **body {
        [CHANGE, members] => Some(Members(members).membership()),
        _ => None,
    }
}

/// A transaction without effect.
pub(crate) const NOTHING: &[u8] = &[0];

/// Above the number of writes within any bounds.
const CHANGE: u8 = u8::MAX;
