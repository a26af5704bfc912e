//! One link: how long a message takes, whether it is lost, how fast bulk flows.
//!
//! In: the link's figures and a uniform random number. Out: nanoseconds, or lost.
//! Why pure: a run of the simulator is replayed by replaying its random numbers.
//! Holds: over all random numbers, the mean and the standard deviation of `delay` are exactly the stated ones.
//! Not here: queues. Two messages may get delays that would let the second overtake the first; who carries them over
//! a stream keeps them in order.
//! Source: netem's `pareto` distribution (shape 3), with its two slips mended, see [`Link::delay`].

/// A link between two servers, both ways alike. All figures are integers, so that every machine computes the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// The mean round trip of a small message, in nanoseconds.
    pub rtt_ns: u64,
    /// The standard deviation of the one-way delay, in millionths of its mean.
    pub jitter_ppm: u64,
    /// The chance that a message is lost, in millionths.
    pub loss_ppm: u64,
    /// What the line carries, in bits a second.
    pub bandwidth_bps: u64,
    /// The most that a sender has under way unacknowledged, in bytes: TCP's window.
    pub window_bytes: u64,
}

impl Link {
    /// The way from a server to itself: no time, no loss, no limit.
    pub const LOOPBACK: Self =
        Self { rtt_ns: 0, jitter_ppm: 0, loss_ppm: 0, bandwidth_bps: u64::MAX, window_bytes: u64::MAX };

    /// The one-way delay of one small message, in nanoseconds; `random` is uniform over all of `u64`.
    ///
    /// Pareto distributed with shape 3, as netem's `pareto`, shifted and scaled to the mean m = rtt/2 and the standard
    /// deviation s = m × jitter: delay = m + s × (min(x, 5) − 1.48) / 0.64 with x = u^(−1/3), u uniform in (0, 1].
    /// A Pareto variable of shape 3 and scale 1, cut at 5, has mean 1.48 and standard deviation 0.64, exactly; so the
    /// delay lies between m − 0.75 s and m + 5.5 s. (netem divides by the variance instead of the deviation, which
    /// makes its jitter 15 % larger than asked, and cuts the tail without moving the mean; ours does neither.)
    #[must_use]
    pub fn delay(&self, random: u64) -> u64 {
        let mean = self.rtt_ns / 2;
        let deviation = u128::from(mean) * u128::from(self.jitter_ppm) / 1_000_000;
        // x in units of 2^-20, from 32 random bits: the cube root of 2^60 / u.
        let u = u128::from(random >> 32) + 1;
        let x = cube_root((1 << 92) / u).min(5 << 20);
        // 100 x − 148 over 64, in the same units; the negative part is taken apart to stay unsigned.
        let (scaled, centre) = (100 * u128::from(x), 148 << 20);
        let away = |distance: u128| u64::try_from(deviation * distance / (64 << 20)).unwrap_or(u64::MAX);
        match scaled.checked_sub(centre) {
            Some(above) => mean.saturating_add(away(above)),
            None => mean.saturating_sub(away(centre - scaled)),
        }
    }

    /// Whether a message is lost; `random` is uniform over all of `u64`, and another one than the delay's.
    #[must_use]
    pub fn lost(&self, random: u64) -> bool {
        (u128::from(random) * 1_000_000) >> 64 < u128::from(self.loss_ppm)
    }

    /// What a bulk transfer gets, in bits a second: min(bandwidth, window / round trip), as of one TCP connection.
    ///
    /// Slow start is left out on purpose: the links between servers live long and their windows are open; from a cold
    /// start it would cost log2(window / 14,600 B) round trips once, 8 for 4 MB, however large the transfer.
    #[must_use]
    pub fn throughput_bps(&self) -> u64 {
        let windows = u128::from(self.window_bytes) * 8 * 1_000_000_000;
        match windows.checked_div(u128::from(self.rtt_ns)) {
            Some(limit) => self.bandwidth_bps.min(u64::try_from(limit).unwrap_or(u64::MAX)),
            None => self.bandwidth_bps,
        }
    }

    /// How long so many bytes occupy the sender, in nanoseconds: bytes / throughput. The delay comes on top.
    #[must_use]
    pub fn occupied(&self, bytes: u64) -> u64 {
        let throughput = u128::from(self.throughput_bps().max(1));
        u64::try_from((u128::from(bytes) * 8 * 1_000_000_000).div_ceil(throughput)).unwrap_or(u64::MAX)
    }

    /// From asking for so many bytes to having the last of them, in nanoseconds: round trip + bytes / throughput.
    #[must_use]
    pub fn transfer(&self, bytes: u64) -> u64 {
        self.rtt_ns.saturating_add(self.occupied(bytes))
    }
}

/// The largest integer whose cube is at most `n`. Ours, because the cube root of floats differs between machines.
fn cube_root(n: u128) -> u64 {
    // The root of a 96-bit number has at most 32 bits; each bit stays if the cube does not pass n.
    (0..32).rev().map(|bit| 1_u64 << bit).fold(0, |root, bit| {
        let with = u128::from(root | bit);
        if with * with * with <= n { root | bit } else { root }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cube_root_is_exact_at_and_beside_cubes() {
        for root in [1_u64, 2, 3, 1_000, 1 << 20, 5 << 20, (1 << 31) - 1] {
            let cube = u128::from(root).pow(3);
            assert_eq!(cube_root(cube), root);
            assert_eq!(cube_root(cube - 1), root - 1);
            assert_eq!(cube_root(cube + 1), root);
        }
    }
}
