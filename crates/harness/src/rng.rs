//! A seeded random number generator.
//!
//! The seed of a run is printed, so that the same faults can be injected again. Real servers still do not behave
//! identically in two runs with the same seed.

use std::time::Duration;

/// A xorshift generator (Marsaglia).
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Accepts any seed, including 0.
    pub fn new(seed: u64) -> Self {
        // The state must not be 0, and consecutive seeds should not produce similar sequences.
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// Returns a number in `0..limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) as usize % limit
    }

    /// Returns true with probability `1 / times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Returns a duration between `least` and `most`, both included, in whole milliseconds.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let spread = most.saturating_sub(least).as_millis() as usize;
        least + Duration::from_millis(self.below(spread + 1) as u64)
    }
}
