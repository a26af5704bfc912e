//! Types shared by all crates: server ids, epochs, zxids, rounds, spans of time, voters.
//!
//! They are newtypes, so that an epoch of the agreement is never mixed up with a round of the election.

use alloc::collections::BTreeSet;
use core::fmt;

/// The id of a server, the N of `server.N` in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u64);

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An epoch of the agreement: the time of one established leader. Durable, unlike a [`Round`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

impl Epoch {
    /// The epoch after this one.
    ///
    /// # Panics
    /// After 2^32 - 1 epochs, which is 136 years at one leader change per second.
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
    /// The position of an empty history, before all transactions.
    pub const ZERO: Self = Self(0);

    /// The zxid of transaction `counter` of `epoch`.
    #[must_use]
    pub const fn new(epoch: Epoch, counter: u32) -> Self {
        Self((epoch.0 as u64) << 32 | counter as u64)
    }

    /// The epoch whose leader proposed the transaction.
    #[must_use]
    pub const fn epoch(self) -> Epoch {
        Epoch((self.0 >> 32) as u32)
    }

    /// The position of the transaction within its epoch, from 1.
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

/// A round of the election. Volatile: it orders proposals and has no meaning for the agreement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Round {
    /// The number of elections started so far.
    pub epoch: u64,
    /// Rounds since a leader was last established. Within one epoch, the larger value is the newer round.
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

/// The position of a server in the agreement. It travels in proposals: it decides when scores keep failing, and it
/// lets the winner pick an epoch without another round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Standing {
    /// The last epoch whose history the server adopted.
    pub current_epoch: Epoch,
    /// The last transaction in the server's log.
    pub last_zxid: Zxid,
    /// The last epoch that the server promised to take part in. It comes after the history, so that the derived order
    /// compares histories first.
    pub accepted_epoch: Epoch,
}

impl Standing {
    /// The key by which histories are ranked: a longer log of an older epoch is not better.
    #[must_use]
    pub fn history(&self) -> (Epoch, Zxid) {
        (self.current_epoch, self.last_zxid)
    }
}

/// A length of time in nanoseconds. Timers are armed with spans; points in time exist only in `oracle` and `node`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Span {
    /// The empty span.
    pub const ZERO: Self = Self(0);

    /// Converts from milliseconds.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// Converts from microseconds.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// The span in whole microseconds, rounded down.
    #[must_use]
    pub const fn as_us(self) -> u64 {
        self.0 / 1_000
    }

    /// The sum, saturating at the longest span.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The product, saturating at the longest span.
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
