//! The names that every room of the house shares: servers, rounds, positions in the history, spans of time.
//!
//! Newtypes, so that an epoch of the agreement is never mixed with a round of the election.

use alloc::collections::BTreeSet;
use core::fmt;

/// A server of the ensemble, as `server.N` in its configuration names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u64);

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An epoch of the agreement: the reign of one established leader. Durable, unlike a [`Round`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

impl Epoch {
    /// The epoch after this one.
    ///
    /// # Panics
    /// After 2^32 - 1 epochs; at one leader change a second that is 136 years.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.checked_add(1).expect("epochs are exhausted"))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The identifier of a transaction: its epoch (high 32 bits) and its counter within the epoch, which starts at 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zxid(pub u64);

impl Zxid {
    /// Before all transactions: the position of an empty history.
    pub const ZERO: Self = Self(0);

    /// The transaction `counter` of `epoch`.
    #[must_use]
    pub const fn new(epoch: Epoch, counter: u32) -> Self {
        Self((epoch.0 as u64) << 32 | counter as u64)
    }

    /// The epoch whose leader proposed the transaction.
    #[must_use]
    pub const fn epoch(self) -> Epoch {
        Epoch((self.0 >> 32) as u32)
    }

    /// The place of the transaction within its epoch.
    #[must_use]
    pub const fn counter(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Display for Zxid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch(), self.counter())
    }
}

/// A round of the election. Volatile: it orders proposals and means nothing to the agreement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Round {
    /// Counts the elections called.
    pub epoch: u64,
    /// Rounds since a leader was last established. Within one epoch the larger is the newer round.
    pub failed: u32,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.failed {
            0 => write!(f, "{}", self.epoch),
            failed => write!(f, "{}/{failed}", self.epoch),
        }
    }
}

/// Where a server stands in the agreement. Proposals carry it: it decides when scores keep failing, and it lets the
/// winner pick an epoch without asking again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Standing {
    /// The last epoch whose history the server took over.
    pub current_epoch: Epoch,
    /// The last transaction in the server's log.
    pub last_zxid: Zxid,
    /// The last epoch promised. After the history, so that the derived order compares histories first.
    pub accepted_epoch: Epoch,
}

impl Standing {
    /// What ranks histories: a longer log of an older epoch is not a better one.
    #[must_use]
    pub fn history(&self) -> (Epoch, Zxid) {
        (self.current_epoch, self.last_zxid)
    }
}

/// A length of time in nanoseconds. Timers are armed with spans; instants exist in `oracle` and `node` only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// So many milliseconds.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// So many microseconds.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// Whole microseconds.
    #[must_use]
    pub const fn as_us(self) -> u64 {
        self.0 / 1_000
    }

    /// The sum, or the longest span there is.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The span `times` over, or the longest span there is.
    #[must_use]
    pub const fn saturating_mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.as_us();
        write!(f, "{}.{:03} ms", us / 1000, us % 1000)
    }
}

/// The servers that vote. A quorum is a majority of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Voters(BTreeSet<ServerId>);

impl Voters {
    /// The ensemble of these servers.
    pub fn new(ids: impl IntoIterator<Item = ServerId>) -> Self {
        Self(ids.into_iter().collect())
    }

    /// How many servers vote.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no voters at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many voters make a quorum.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.0.len() / 2 + 1
    }

    /// Whether the server votes here.
    #[must_use]
    pub fn contains(&self, id: ServerId) -> bool {
        self.0.contains(&id)
    }

    /// All voters, by id.
    pub fn iter(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.0.iter().copied()
    }

    /// All voters but `me`, by id.
    pub fn peers(&self, me: ServerId) -> impl Iterator<Item = ServerId> + '_ {
        self.iter().filter(move |id| *id != me)
    }

    /// Whether these servers, each named once, hold a quorum. Strangers do not count.
    pub fn is_quorum(&self, ids: impl IntoIterator<Item = ServerId>) -> bool {
        ids.into_iter().filter(|id| self.contains(*id)).count() >= self.quorum()
    }
}
