//! Positions in the history: epochs and transaction ids.

use core::fmt;

/// An epoch of the agreement: the time of one established leader. Durable, unlike a round of the election.
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
