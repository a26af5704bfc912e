//! 64-bit digests that identify states.
//!
//! The standard hasher is too slow: states are hashed far more often than anything else is done with them.

use std::hash::{Hash, Hasher};

/// The digest of a value: equal for equal values, and for different values only by a rare collision.
pub(crate) fn digest(value: &impl Hash) -> u64 {
    let mut hasher = Mixer(0);
    value.hash(&mut hasher);
    hasher.finish()
}

/// A fast hash: multiply and fold, word by word. Its input is not chosen by an attacker.
struct Mixer(u64);

impl Mixer {
    fn mix(&mut self, word: u64) {
        let factor = (0xd6e8_feb8_6659_fd93 ^ self.0.rotate_left(31)) | 1;
        let product = u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * u128::from(factor);
        self.0 = (product >> 64) as u64 ^ product as u64 ^ word.rotate_left(17);
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        let mut last = Self(self.0);
        last.mix(0x2545_f491_4f6c_dd1d);
        last.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, word: u8) {
        self.mix(u64::from(word));
    }

    fn write_u32(&mut self, word: u32) {
        self.mix(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    fn write_usize(&mut self, word: usize) {
        self.mix(word as u64);
    }

    fn write_isize(&mut self, word: isize) {
        self.mix(word as u64);
    }
}
