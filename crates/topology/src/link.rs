//! One link: the delay of a message, whether it is lost, and the throughput of bulk transfers.
//!
//! All methods are pure functions of the link and a uniform random number, so that a simulation can be replayed by
//! replaying its random numbers. Over all random numbers, the mean and the standard deviation of `delay` are exactly
//! the configured ones.
//!
//! There are no queues here. Two messages may get delays that would let the second overtake the first; code that
//! carries them over a stream must keep them in order. The distribution is netem's `pareto` (shape 3) with two
//! corrections; see [`Link::delay`].

/// A link between two servers, the same in both directions. All values are integers, so that all machines agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// The mean round trip of a small message, in nanoseconds.
    pub rtt_ns: u64,
    /// The standard deviation of the one-way delay, in millionths of its mean.
    pub jitter_ppm: u64,
    /// The chance that a message is lost, in millionths.
    pub loss_ppm: u64,
    /// The capacity of the line, in bits per second.
    pub bandwidth_bps: u64,
    /// The maximum number of unacknowledged bytes in flight: the TCP window.
    pub window_bytes: u64,
}

impl Link {
    /// The link from a server to itself: no delay, no loss, no limit.
    pub const LOOPBACK: Self =
        Self { rtt_ns: 0, jitter_ppm: 0, loss_ppm: 0, bandwidth_bps: u64::MAX, window_bytes: u64::MAX };

    /// The one-way delay of one small message, in nanoseconds; `random` is uniform over all of `u64`.
    ///
    /// The delay has a Pareto distribution with shape 3, as netem's `pareto`, shifted and scaled to the mean m = rtt/2
    /// and the standard deviation s = m × jitter: delay = m + s × (min(x, 5) − 1.48) / 0.64 with x = u^(−1/3), u
    /// uniform in (0, 1]. A Pareto variable of shape 3 and scale 1, truncated at 5, has mean 1.48 and standard
    /// deviation 0.64, exactly; so the delay lies between m − 0.75 s and m + 5.5 s. (netem divides by the variance
    /// instead of the deviation, which makes its jitter 15 % too large, and truncates the tail without adjusting the
    /// mean; this function does neither.)
    #[must_use]
    pub fn delay(&self, random: u64) -> u64 {
        let mean = self.rtt_ns / 2;
        let deviation = u128::from(mean) * u128::from(self.jitter_ppm) / 1_000_000;
        // x in units of 2^-20, from 32 random bits: the cube root of 2^60 / u.
        let u = u128::from(random >> 32) + 1;
        let x = cube_root((1 << 92) / u).min(5 << 20);
        // 100 x − 148 over 64, in the same units; the negative case is separate to stay unsigned.
        let (scaled, centre) = (100 * u128::from(x), 148 << 20);
        let away = |distance: u128| u64::try_from(deviation * distance / (64 << 20)).unwrap_or(u64::MAX);
        match scaled.checked_sub(centre) {
            Some(above) => mean.saturating_add(away(above)),
            None => mean.saturating_sub(away(centre - scaled)),
        }
    }

    /// Whether a message is lost; `random` is uniform over all of `u64`, and independent of the one used for the
    /// delay.
    #[must_use]
    pub fn lost(&self, random: u64) -> bool {
        (u128::from(random) * 1_000_000) >> 64 < u128::from(self.loss_ppm)
    }

    /// The throughput of a bulk transfer in bits per second: min(bandwidth, window / round trip), as for one TCP
    /// connection.
    ///
    /// Slow start is omitted on purpose: links between servers are long-lived and their windows are open. From a cold
    /// start it would cost log2(window / 14,600 B) round trips once, 8 for 4 MB, regardless of the size of the
    /// transfer.
    #[must_use]
    pub fn throughput_bps(&self) -> u64 {
        let windows = u128::from(self.window_bytes) * 8 * 1_000_000_000;
        match windows.checked_div(u128::from(self.rtt_ns)) {
            Some(limit) => self.bandwidth_bps.min(u64::try_from(limit).unwrap_or(u64::MAX)),
            None => self.bandwidth_bps,
        }
    }

    /// The time for which this many bytes occupy the sender, in nanoseconds: bytes / throughput, without the delay.
    #[must_use]
    pub fn occupied(&self, bytes: u64) -> u64 {
        let throughput = u128::from(self.throughput_bps().max(1));
        u64::try_from((u128::from(bytes) * 8 * 1_000_000_000).div_ceil(throughput)).unwrap_or(u64::MAX)
    }

    /// The time from requesting this many bytes to receiving the last one, in nanoseconds: round trip + bytes /
    /// throughput.
    #[must_use]
    pub fn transfer(&self, bytes: u64) -> u64 {
        self.rtt_ns.saturating_add(self.occupied(bytes))
    }
}

/// The largest integer whose cube is at most `n`. Implemented here because float cube roots differ between machines.
fn cube_root(n: u128) -> u64 {
    // The root of a 96-bit number has at most 32 bits; each bit is kept if the cube does not exceed n.
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
