//! Seeded random numbers, the same on every machine: xoshiro256++ seeded by splitmix64, both public domain (Blackman,
//! Vigna).
//!
//! This is not an external crate because a seed must reproduce the same run for years, so the generator must not
//! change.
//!
//! A generator forked by name draws the same numbers regardless of what its siblings draw, so a new draw in one place
//! does not change the draws anywhere else.

/// A seeded generator.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
    /// The seed of forks; drawing does not change it.
    root: u64,
}

impl Rng {
    /// A generator for a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut mix = seed;
        let state = [splitmix(&mut mix), splitmix(&mut mix), splitmix(&mut mix), splitmix(&mut mix)];
        Self { state, root: seed }
    }

    /// An independent generator for a named purpose; `number` distinguishes several of the same name.
    #[must_use]
    pub fn fork(&self, name: &str, number: u64) -> Self {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(FNV_PRIME));
        let mut mix = self.root ^ hash.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self::new(splitmix(&mut mix))
    }

    /// A uniform number.
    pub fn any(&mut self) -> u64 {
        let s = &mut self.state;
        let drawn = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        drawn
    }

    /// A uniform number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias of a multiplication by 2^-64 is far below what any test could see.
        ((u128::from(self.any()) * u128::from(bound)) >> 64) as u64
    }

    /// A uniform number from `low` to `high`, both inclusive.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True with a probability of `chance` in a thousand.
    pub fn per_mille(&mut self, chance: u64) -> bool {
        self.below(1000) < chance
    }

    /// A log-uniform number between two bounds. Uses only square roots, whose results are the same on every machine:
    /// the n-th bit of a uniform number contributes the 2^n-th root of the range.
    pub fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        let uniform = self.any();
        let (mut factor, mut value) = (high / low, low);
        for bit in (0..64).rev() {
            factor = factor.sqrt();
            if uniform & (1 << bit) != 0 {
                value *= factor;
            }
        }
        value
    }

    /// Permutes the items; all orders are equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at as u64 + 1) as usize);
        }
    }

    /// A random item.
    ///
    /// # Panics
    /// If `from` is empty.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// A random duration with about this mean and a long tail of at most 4.5 times the mean, for the time to the next
    /// random event. Integer arithmetic only, so that it is the same everywhere.
    pub fn spread(&mut self, mean: u64) -> u64 {
        // The number of leading zeros is geometric with mean one; within each step the rest is uniform.
        let doublings = u64::from(self.any().leading_zeros()).min(7);
        mean / 2 * doublings + self.below(mean.max(1))
    }
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const FNV_PRIME: u64 = 0x0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_does_not_depend_on_what_was_drawn_before_it() {
        let mut drawn = Rng::new(7);
        drawn.any();
        assert_eq!(drawn.fork("network", 1).any(), Rng::new(7).fork("network", 1).any());
        assert_ne!(Rng::new(7).fork("network", 1).any(), Rng::new(7).fork("network", 2).any());
        assert_ne!(Rng::new(7).fork("network", 1).any(), Rng::new(7).fork("disk", 1).any());
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        let mut rng = Rng::new(1);
        for _ in 0..1000 {
            assert!(rng.below(3) < 3);
            assert!((5..=6).contains(&rng.between(5, 6)));
            assert!(rng.spread(100) <= 450);
        }
    }
}
