//! The ids of new sessions.

use std::sync::atomic::{AtomicU64, Ordering};

use pole_election::ServerId;

/// Gives numbers to new sessions of this server: its id in the first byte, then 56 bits that no other session of it has.
#[derive(Debug)]
pub(crate) struct SessionIds {
    server: u64,
    next: AtomicU64,
}

impl SessionIds {
    /// How many numbers a run reserves: enough for a hundred new sessions a second over twenty years. As many are 17
    /// minutes of Apache's clock, so a server that starts less often than that stays with the clock.
    pub(crate) const RESERVED: u64 = 1 << 36;

    /// Before [`Self::begin`] the numbers are those that Apache would give, from the clock.
    #[must_use]
    pub(crate) fn new(server: ServerId, wall_ms: i64) -> Self {
        Self { server: (server.0 & 0xff) << 56, next: AtomicU64::new(Self::from_clock(wall_ms)) }
    }

    /// The number that Apache would begin with at this time.
    pub(crate) fn from_clock(wall_ms: i64) -> u64 {
        (wall_ms.cast_unsigned() << 16) & NUMBER
    }

    /// The first number above all those that this server gave to these sessions, and not below `wish`.
    pub(crate) fn above(&self, wish: u64, sessions: impl Iterator<Item = i64>) -> u64 {
        let own = sessions.map(i64::cast_unsigned).filter(|session| session & !NUMBER == self.server);
        own.map(|session| (session & NUMBER) + 1).fold(wish, u64::max)
    }

    /// The numbers from this one on were reserved for this run.
    pub(crate) fn begin(&self, first: u64) {
        self.next.store(first, Ordering::Relaxed);
    }

    /// A number that was never given.
    pub(crate) fn next(&self) -> i64 {
        (self.server | self.next.fetch_add(1, Ordering::Relaxed) & NUMBER).cast_signed()
    }
}

/// What of a session number is not the server.
const NUMBER: u64 = (1 << 56) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_and_begin_with_the_server() {
        let ids = SessionIds::new(ServerId(3), 1_700_000_000_000);
        let (a, b) = (ids.next(), ids.next());
        assert_eq!((a >> 56, b - a), (3, 1));
    }

    #[test]
    fn a_later_life_of_a_server_gives_other_numbers() {
        let (before, after) = (SessionIds::new(ServerId(1), 1_000), SessionIds::new(ServerId(1), 1_001));
        assert!(after.next() - before.next() >= 1 << 16);
    }

    #[test]
    fn numbers_are_those_of_apache_as_long_as_the_clock_goes_on() {
        let wall = 1_700_000_000_000_i64;
        let apache = ((wall << 24).cast_unsigned() >> 8) & 0x00ff_ffff_ffff_ffff | 3 << 56;
        assert_eq!(SessionIds::new(ServerId(3), wall).next(), apache.cast_signed());
    }

    #[test]
    fn numbers_begin_above_the_sessions_that_are_known() {
        let ids = SessionIds::new(ServerId(1), 1_000);
        let first =
            ids.above(SessionIds::from_clock(1_000), [0x0100_00ff_ffff_ffff, 0x0200_ffff_ffff_ffff, -1].into_iter());
        ids.begin(first);
        assert_eq!(ids.next(), 0x0100_0100_0000_0000);
    }
}
