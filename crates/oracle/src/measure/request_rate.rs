//! The rate of write requests, exponentially weighted, so that it reflects the current load.
//!
//! Counts with `now` come in, thousandths of a request per second come out. The rate decides where the leader moves,
//! so it must follow the clients without jumping at every burst.
//!
//! Invariants: a constant load of r reads as r from the first second on, because the start is corrected for. Without
//! requests the rate halves every half-life. The arithmetic uses integers only, so that all machines agree.
//!
//! With A = the sum of count × 2^(−age / half-life), the rate is A × ln 2 / half-life / (1 − 2^(−running /
//! half-life)).

use pole_types::{Span, Time};

/// An exponentially weighted rate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestRate {
    half_life: Span,
    started: Time,
    /// Requests up to `folded`, weighted, in units of 2^-20 requests.
    weighted: u128,
    folded: Time,
    /// Requests since `folded`, counted as if they had arrived then, which is at most a thousandth of a half-life too
    /// old. They are folded in together, so that rounding does not happen a million times per second.
    pending: u64,
}

impl RequestRate {
    /// Creates a rate with no requests since `started`.
    #[must_use]
    pub fn new(half_life: Span, started: Time) -> Self {
        Self { half_life: Span(half_life.0.max(1_000_000)), started, weighted: 0, folded: started, pending: 0 }
    }

    /// A rate measured by another server: it reads as `rate_milli` at `now`.
    pub(crate) fn from_rate(rate_milli: u64, half_life: Span, now: Time) -> Self {
        let mut rate = Self::new(half_life, now);
        let seen = u128::from(ONE - power(RUNNING_MIN, rate.half_life));
        // The inverse of the formula in `milli_per_s`.
        let unseen = (u128::from(rate_milli) << UNIT_BITS) * u128::from(rate.half_life.0) / 693_147_000_000;
        rate.weighted = ((unseen * seen) >> ONE_BITS).min(WEIGHTED_MAX);
        rate
    }

    /// Records `count` requests.
    pub fn record(&mut self, count: u64, now: Time) {
        if now - self.folded >= Span(self.half_life.0 / FOLDS_PER_HALF_LIFE) {
            self.weighted = self.weighted_at(now);
            self.pending = 0;
            self.folded = now;
        }
        self.pending = self.pending.saturating_add(count);
    }

    /// The rate now, in thousandths of a request per second.
    #[must_use]
    pub fn milli_per_s(&self, now: Time) -> u64 {
        let half_life = u128::from(self.half_life.0);
        let running = (now - self.started).max(RUNNING_MIN);
        let seen = u128::from(ONE - power(running, self.half_life));
        // milli-requests × ns: 1000 × 10^9, and ln 2 as 693,147 millionths, over the unit of `weighted`.
        let milli = ((self.weighted_at(now) * 693_147_000_000_u128 / half_life) * 1_000) >> UNIT_BITS;
        u64::try_from(milli * u128::from(ONE) / 1_000 / seen.max(1)).unwrap_or(u64::MAX)
    }

    fn weighted_at(&self, now: Time) -> u128 {
        let then = (self.weighted + (u128::from(self.pending) << UNIT_BITS)).min(WEIGHTED_MAX);
        (then * u128::from(power(now - self.folded, self.half_life))) >> ONE_BITS
    }
}

/// A rate last reported `age` ago, assuming that its requests have been moving to other servers since.
pub(crate) fn decayed(rate_milli: u64, age: Span, half_life: Span) -> u64 {
    let rest = (u128::from(rate_milli) * u128::from(power(age, Span(half_life.0.max(1))))) >> ONE_BITS;
    u64::try_from(rest).unwrap_or(u64::MAX)
}

/// 2^(−age / half-life), in units of 2^-32: whole half-lives shift, the rest is interpolated from a table.
fn power(age: Span, half_life: Span) -> u64 {
    let halvings = age.0 / half_life.0;
    if halvings >= 33 {
        return 0;
    }
    let rest = u128::from(age.0 % half_life.0) << ONE_BITS;
    // Below 2^32 because the rest is below one half-life.
    let fraction = (rest / u128::from(half_life.0)) as u64;
    let (step, within) = ((fraction >> 24) as usize, fraction & 0xff_ffff);
    let fall = TABLE[step] - TABLE[step + 1];
    (TABLE[step] - ((fall * within) >> 24)) >> halvings
}

const ONE_BITS: u32 = 32;
const ONE: u64 = 1 << ONE_BITS;
const UNIT_BITS: u32 = 20;

/// Above any real load (10^15 requests within a half-life); products with it stay within 128 bits.
const WEIGHTED_MAX: u128 = 1 << 70;

/// Requests within this fraction of a half-life are folded in together, an error below 0.1 %.
const FOLDS_PER_HALF_LIFE: u64 = 1024;

/// In the first second, a single request must not read as a thousand per second.
const RUNNING_MIN: Span = Span::from_ms(1_000);

/// 2^(−i/256) for i from 0 to 256, in units of 2^-32.
const TABLE: [u64; 257] = {
    // 2^(−1/256) in units of 2^-63, multiplied up: 256 roundings of 2^-63 do not affect 32 bits.
    const STEP: u128 = 9_198_432_556_164_277_331;
    let mut table = [ONE; 257];
    let mut power: u128 = 1 << 63;
    let mut i = 1;
    while i < 257 {
        power = (power * STEP + (1 << 62)) >> 63;
        table[i] = ((power + (1 << 30)) >> 31) as u64;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_LIFE: Span = Span::from_ms(10_000);

    /// `rate` requests per second, evenly spaced, for `seconds`.
    fn loaded(rate: u64, seconds: u64) -> (RequestRate, Time) {
        let mut measured = RequestRate::new(HALF_LIFE, Time(0));
        let gap = Span(1_000_000_000 / rate);
        let mut now = Time(0);
        for _ in 0..rate * seconds {
            now = now + gap;
            measured.record(1, now);
        }
        (measured, now)
    }

    #[test]
    fn the_table_halves_over_its_length() {
        assert_eq!((TABLE[0], TABLE[128], TABLE[256]), (ONE, 3_037_000_500, ONE / 2));
    }

    #[test]
    fn a_steady_load_reads_as_itself_from_the_first_second_on() {
        for (rate, seconds) in [(1_000, 1), (1_000, 5), (1_000, 60), (20_000, 20), (10, 120)] {
            let (measured, now) = loaded(rate, seconds);
            let read = measured.milli_per_s(now);
            assert!(read.abs_diff(rate * 1000) <= rate * 1000 / 25, "{rate} for {seconds} s reads as {read}");
        }
    }

    #[test]
    fn silence_halves_the_rate_every_half_life() {
        let (measured, now) = loaded(1_000, 200);
        let full = measured.milli_per_s(now);
        for halvings in 1..20 {
            let read = measured.milli_per_s(now + HALF_LIFE.saturating_mul(halvings));
            assert!(read.abs_diff(full >> halvings) <= 1 + (full >> halvings) / 1000, "{halvings}: {read}");
        }
        assert_eq!(measured.milli_per_s(now + HALF_LIFE.saturating_mul(1_000_000)), 0);
    }

    #[test]
    fn a_single_request_is_not_a_thousand_a_second() {
        let mut measured = RequestRate::new(HALF_LIFE, Time(0));
        measured.record(1, Time(1_000));
        assert!((900..=1_100).contains(&measured.milli_per_s(Time(1_000))));
    }

    #[test]
    fn no_count_and_no_clock_overflows() {
        let mut measured = RequestRate::new(Span(0), Time(u64::MAX));
        for _ in 0..100 {
            measured.record(u64::MAX, Time(u64::MAX));
            measured.record(u64::MAX, Time(0));
        }
        let _ = measured.milli_per_s(Time(u64::MAX));
        assert_eq!(RequestRate::new(HALF_LIFE, Time(0)).milli_per_s(Time(u64::MAX)), 0);
    }

    #[test]
    fn a_rate_reported_a_half_life_ago_counts_half() {
        assert_eq!(decayed(1_000_000, HALF_LIFE, HALF_LIFE), 500_000);
        assert_eq!(decayed(1_000_000, Span::ZERO, HALF_LIFE), 1_000_000);
    }
}
