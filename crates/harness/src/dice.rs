//! Random numbers from a seed that is printed, so that a run can be tried again. The servers will not do the same twice.

use std::time::Duration;

/// A generator after Marsaglia (xorshift).
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// Any seed will do.
    pub fn new(seed: u64) -> Self {
        // The state must not be 0, and neighbouring seeds should not begin alike.
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// Below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) as usize % limit
    }

    /// Once in so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Between two times.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let spread = most.saturating_sub(least).as_millis() as usize;
        least + Duration::from_millis(self.below(spread + 1) as u64)
    }
}
