//! The ids of new sessions.

use std::sync::atomic::{AtomicI64, Ordering};

use pole_election::ServerId;

/// Gives numbers to new sessions of this server.
#[derive(Debug)]
pub(crate) struct SessionIds {
    next: AtomicI64,
}

impl SessionIds {
    /// A server's numbers begin with its own, then with the time of its start: no other server, and no earlier life of
    /// this one, gives the same.
    #[must_use]
    pub(crate) fn new(server: ServerId, wall_ms: i64) -> Self {
        let time = (wall_ms << 24).cast_unsigned() >> 8;
        let first = (time & 0x00ff_ffff_ffff_ffff) | (server.0 & 0xff) << 56;
        Self { next: AtomicI64::new(first.cast_signed()) }
    }

    /// A number that was never given.
    pub(crate) fn next(&self) -> i64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

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
}
