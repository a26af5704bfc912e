//! Rounds of the election, and the position of a server in the agreement that proposals carry.

use core::fmt;

use pole_types::{Epoch, Zxid};

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
