//! The rate of write requests, weighted exponentially: what clients ask of this server now, not an hour ago.
//!
//! In: counts and `now`. Out: thousandths of a request a second.
//! Why: the rate decides where the leader goes; it must follow the clients and yet not jump at every burst.
//! Holds: a constant load of r reads as r from the first second on (the start is corrected for); silence halves the
//! rate every half-life; integers only, so that every machine agrees.
//! The formula: A = the sum of count × 2^(−age / half-life); rate = A × ln 2 / half-life / (1 − 2^(−running / half-life)).

use pole_election::Span;

use crate::time::Time;

/// An exponentially weighted rate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestRate {
    half_life: Span,
    started: Time,
    /// Requests up to `folded`, weighted, in units of 2^-20 requests.
    weighted: u128,
    folded: Time,
    /// Requests since `folded`, counted as if they came then: at most a thousandth of a half-life too old. They are folded
    /// in together, so that rounding is not repeated a million times a second.
    pending: u64,
}

impl RequestRate {
    /// No requests since `started`.
    #[must_use]
    pub fn new(half_life: Span, started: Time) -> Self {
        Self { half_life: Span(half_life.0.max(1_000_000)), started, weighted: 0, folded: started, pending: 0 }
    }

    /// A rate that somebody else measured: it reads as `rate_milli` at `now`.
    pub(crate) fn steady(rate_milli: u64, half_life: Span, now: Time) -> Self {
        let mut rate = Self::new(half_life, now);
        let seen = u128::from(ONE - power(SHORTEST, rate.half_life));
        // The formula of `milli_per_s` the other way round.
        let unseen = (u128::from(rate_milli) << UNIT_BITS) * u128::from(rate.half_life.0) / 693_147_000_000;
        rate.weighted = ((unseen * seen) >> ONE_BITS).min(WEIGHTED_MAX);
        rate
    }

    /// So many requests came.
    pub fn record(&mut self, count: u64, now: Time) {
        if now - self.folded >= Span(self.half_life.0 / FOLDS_A_HALF_LIFE) {
            self.weighted = self.weighted_at(now);
            self.pending = 0;
            self.folded = now;
        }
        self.pending = self.pending.saturating_add(count);
    }

    /// The rate now, in thousandths of a request a second.
    #[must_use]
    pub fn milli_per_s(&self, now: Time) -> u64 {
        let half_life = u128::from(self.half_life.0);
        let running = (now - self.started).max(SHORTEST);
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

/// A rate that was last heard `age` ago, if its requests have been moving elsewhere since.
pub(crate) fn decayed(rate_milli: u64, age: Span, half_life: Span) -> u64 {
    let rest = (u128::from(rate_milli) * u128::from(power(age, Span(half_life.0.max(1))))) >> ONE_BITS;
    u64::try_from(rest).unwrap_or(u64::MAX)
}

/// 2^(−age / half-life), in units of 2^-32: whole half-lives shift, the rest is read from a table, interpolated.
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

/// Beyond any real load (10^15 requests within a half-life); products with it stay within 128 bits.
const WEIGHTED_MAX: u128 = 1 << 70;

/// Requests within this part of a half-life are folded in together: an error below 0.1 %.
const FOLDS_A_HALF_LIFE: u64 = 1024;

/// Until a second has passed, a single request must not read as a thousand a second.
const SHORTEST: Span = Span::from_ms(1_000);

/// 2^(−i/256) for i from 0 to 256, in units of 2^-32.
const TABLE: [u64; 257] = {
    // 2^(−1/256) in units of 2^-63, multiplied up: 256 roundings of 2^-63 do not show in 32 bits.
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

    /// `rate` requests a second, evenly, for `seconds`.
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
    fn a_rate_last_heard_a_half_life_ago_counts_half() {
        assert_eq!(decayed(1_000_000, HALF_LIFE, HALF_LIFE), 500_000);
        assert_eq!(decayed(1_000_000, Span::ZERO, HALF_LIFE), 1_000_000);
    }
}
