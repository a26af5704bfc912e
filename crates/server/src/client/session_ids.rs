//! Ids for new sessions.

use std::sync::atomic::{AtomicU64, Ordering};

use pole_types::ServerId;

/// Generates session ids: the id of this server in the first byte, then a number of 56 bits that it never reuses.
#[derive(Debug)]
pub(crate) struct SessionIds {
    server: u64,
    next: AtomicU64,
}

impl SessionIds {
    /// How many numbers a run reserves: enough for a hundred new sessions a second over twenty years. In Apache's
    /// scheme, which derives numbers from the clock, this is 17 minutes, so a server that restarts less often than that
    /// keeps to the clock.
    pub(crate) const RESERVED: u64 = 1 << 36;

    /// Until [`Self::start_at`] is called, the numbers are those that Apache would derive from the clock.
    #[must_use]
    pub(crate) fn new(server: ServerId, wall_ms: i64) -> Self {
        Self { server: (server.0 & 0xff) << 56, next: AtomicU64::new(Self::from_clock(wall_ms)) }
    }

    /// The number with which Apache would start at this time.
    pub(crate) fn from_clock(wall_ms: i64) -> u64 {
        (wall_ms.cast_unsigned() << 16) & NUMBER_MASK
    }

    /// The first number that is above those of all given sessions of this server, and at least `at_least`.
    pub(crate) fn first_above(&self, at_least: u64, sessions: impl Iterator<Item = i64>) -> u64 {
        let own = sessions.map(i64::cast_unsigned).filter(|session| session & !NUMBER_MASK == self.server);
        own.map(|session| (session & NUMBER_MASK) + 1).fold(at_least, u64::max)
    }

    /// Sets the first number, from which on numbers are reserved for this run.
    pub(crate) fn start_at(&self, first: u64) {
        self.next.store(first, Ordering::Relaxed);
    }

    /// Returns an id that was never used before.
    pub(crate) fn next(&self) -> i64 {
        (self.server | self.next.fetch_add(1, Ordering::Relaxed) & NUMBER_MASK).cast_signed()
    }
}

/// The bits of a session id that do not hold the server id.
const NUMBER_MASK: u64 = (1 << 56) - 1;

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
        let first = ids
            .first_above(SessionIds::from_clock(1_000), [0x0100_00ff_ffff_ffff, 0x0200_ffff_ffff_ffff, -1].into_iter());
        ids.start_at(first);
        assert_eq!(ids.next(), 0x0100_0100_0000_0000);
    }
}
