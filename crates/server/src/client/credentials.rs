//! The numbers of sessions, and the passwords by which their clients come back.
//!
//! A password is a function of the session's number, as in Apache ZooKeeper: every server of every version can check
//! it, also one that was put in Apache's place overnight. It protects against accidents, not against enemies; TLS does.

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

/// The password of a session: sixteen bytes of Java's generator, which is defined to the bit, seeded with its number.
#[must_use]
pub(crate) fn password(session: i64) -> [u8; 16] {
    let mut state = (session ^ SECRET).cast_unsigned() ^ MULTIPLIER;
    state &= MASK;
    let mut password = [0; 16];
    for word in password.chunks_exact_mut(4) {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(0xb) & MASK;
        // The generator's upper 32 bits, least significant byte first.
        word.copy_from_slice(&((state >> 16) as u32).to_le_bytes());
    }
    password
}

/// Apache's constant.
const SECRET: i64 = 0xB341_5C00;
const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const MASK: u64 = (1 << 48) - 1;

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
    fn a_password_is_what_javas_generator_gives() {
        // jshell> var b = new byte[16]; new Random(0x100000000000001L ^ 0xB3415C00L).nextBytes(b); b
        let expected: [i8; 16] = EXPECTED;
        assert_eq!(password(0x100_0000_0000_0001), expected.map(i8::cast_unsigned));
    }

    const EXPECTED: [i8; 16] = [5, 76, -57, 74, 55, 50, 125, -78, 21, -25, 2, -30, 12, 115, -16, 5];
}
