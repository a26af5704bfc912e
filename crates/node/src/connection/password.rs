//! The password with which a client resumes its session.
//!
//! It is a function of the session id, as in Apache ZooKeeper, so every server can check it, including one that
//! replaced an Apache server. It protects against accidents and not against attackers; that is the task of TLS.

/// The password of a session: sixteen bytes of Java's `Random`, which is fully specified, seeded with the id.
#[must_use]
pub fn password(session: i64) -> [u8; 16] {
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

/// The constant of Apache ZooKeeper.
const SECRET: i64 = 0xB341_5C00;
const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const MASK: u64 = (1 << 48) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_equals_the_output_of_javas_generator() {
        // jshell> var b = new byte[16]; new Random(0x100000000000001L ^ 0xB3415C00L).nextBytes(b); b
        let expected: [i8; 16] = EXPECTED;
        assert_eq!(password(0x100_0000_0000_0001), expected.map(i8::cast_unsigned));
    }

    const EXPECTED: [i8; 16] = [5, 76, -57, 74, 55, 50, 125, -78, 21, -25, 2, -30, 12, 115, -16, 5];
}
