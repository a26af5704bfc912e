//! Distributions of measured values: count, sum, minimum and maximum since the start, and quantiles of the last minutes.
//!
//! The quantiles come from `hdrhistogram`. The crates `metrics` and `metrics-exporter-prometheus` were considered and do
//! not fit: their recorder does not return count, sum, minimum and maximum, which `mntr` prints, and it keeps every value
//! until the next scrape, which is unbounded memory on a server that nobody scrapes. `prometheus-client` has no summaries
//! with quantiles.
//!
//! Memory is bounded: a histogram has two significant digits and a largest value ([`VALUE_MAX`]), so it takes 15 KiB at
//! most. It grows to the values that it has seen and is created with the first one, so a server at rest holds little.
//!
//! Recording takes an uncontended lock and two array accesses. Where several threads record at a high rate, each has its
//! own samples, see `tally`.

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use pole_types::{Span, Time};

/// The values recorded by one thread or at one place.
#[derive(Debug)]
pub(crate) struct Samples {
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
    /// When `current` was begun.
    since: Time,
    current: Histogram<u32>,
    /// The window before `current`.
    previous: Histogram<u32>,
}

impl Samples {
    fn new(now: Time) -> Self {
        let histogram = || Histogram::new(SIGNIFICANT_DIGITS).expect("between 0 and 5 digits");
        Self { count: 0, sum: 0, min: u64::MAX, max: 0, since: now, current: histogram(), previous: histogram() }
    }

    /// Records `count` equal values.
    pub(crate) fn record(&mut self, value: u64, count: u64, now: Time) {
        self.rotate(now);
        self.count = self.count.saturating_add(count);
        self.sum = self.sum.saturating_add(value.saturating_mul(count));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.current.record_n(value.min(VALUE_MAX), count).expect("the histogram grows with its values");
    }

    /// Begins a new window if the current one is over.
    fn rotate(&mut self, now: Time) {
        let age = now - self.since;
        if age < WINDOW {
            return;
        }
        std::mem::swap(&mut self.current, &mut self.previous);
        self.current.reset();
        if age >= WINDOW.saturating_mul(2) {
            self.previous.reset();
        }
        self.since = now;
    }

    /// Adds these samples to a total of several threads.
    pub(crate) fn add_to(&self, total: &mut Distribution, now: Time) {
        total.count = total.count.saturating_add(self.count);
        total.sum = total.sum.saturating_add(self.sum);
        total.min = Some(total.min.map_or(self.min, |min| min.min(self.min)));
        total.max = total.max.max(self.max);
        let age = now - self.since;
        let windows: &[&Histogram<u32>] = match age {
            age if age < WINDOW => &[&self.current, &self.previous],
            age if age < WINDOW.saturating_mul(2) => &[&self.current],
            _ => &[],
        };
        let window =
            total.window.get_or_insert_with(|| Histogram::new(SIGNIFICANT_DIGITS).expect("between 0 and 5 digits"));
        windows.iter().for_each(|part| window.add(*part).expect("the histogram grows with its values"));
    }
}

/// Samples that are created with the first value.
#[derive(Debug, Default)]
pub(crate) struct LazySamples(Option<Box<Samples>>);

impl LazySamples {
    pub(crate) fn record(&mut self, value: u64, count: u64, now: Time) {
        self.0.get_or_insert_with(|| Box::new(Samples::new(now))).record(value, count, now);
    }

    pub(crate) fn add_to(&self, total: &mut Distribution, now: Time) {
        self.0.iter().for_each(|samples| samples.add_to(total, now));
    }
}

/// The same, shared by threads.
#[derive(Debug, Default)]
pub(crate) struct SharedSamples(Mutex<LazySamples>);

impl SharedSamples {
    pub(crate) fn record(&self, value: u64, count: u64, now: Time) {
        self.0.lock().record(value, count, now);
    }

    pub(crate) fn distribution(&self, now: Time) -> Distribution {
        let mut total = Distribution::default();
        self.0.lock().add_to(&mut total, now);
        total
    }

    pub(crate) fn reset(&self) {
        *self.0.lock() = LazySamples::default();
    }
}

/// A distribution at one moment, for a page of metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distribution {
    pub(crate) count: u64,
    pub(crate) sum: u64,
    /// `None` without values.
    min: Option<u64>,
    pub(crate) max: u64,
    /// The values of the last minutes.
    window: Option<Histogram<u32>>,
}

impl Distribution {
    /// The smallest value; 0 without values, as Apache prints it.
    pub(crate) fn min(&self) -> u64 {
        self.min.unwrap_or(0)
    }

    pub(crate) fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The values recorded since `before`, an earlier state of the same distribution. Its quantiles are unknown if a
    /// window has ended in between. `None` if the distribution was reset.
    pub(crate) fn since(&self, before: &Self) -> Option<Self> {
        let (count, sum) = (self.count.checked_sub(before.count)?, self.sum.checked_sub(before.sum)?);
        let window = match (&self.window, &before.window) {
            (Some(now), Some(before)) => {
                let mut recent = now.clone();
                recent.subtract(before).ok().map(|()| recent)
            }
            (now, _) => now.clone(),
        };
        // A window that has ended in between may have been replaced by a larger one.
        let window = window.filter(|window| window.len() == count);
        Some(Self { count, sum, min: None, max: self.max, window })
    }

    /// A quantile of the last minutes; `None` if there was no value. No more than the largest value, which the histogram
    /// knows to two digits only.
    pub(crate) fn quantile(&self, quantile: f64) -> Option<u64> {
        let window = self.window.as_ref().filter(|window| !window.is_empty())?;
        Some(window.value_at_quantile(quantile).min(self.max))
    }
}

const SIGNIFICANT_DIGITS: u8 = 2;

/// Quantiles cover between one and two of these. Apache's provider uses the last ten minutes.
const WINDOW: Span = Span::from_ms(5 * 60_000);

/// Larger values count as this one in the quantiles: 19 hours in microseconds.
const VALUE_MAX: u64 = 1 << 36;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: u64) -> Time {
        Time(0) + Span::from_ms(minutes * 60_000)
    }

    #[test]
    fn counts_are_exact_and_quantiles_within_a_hundredth() {
        let samples = SharedSamples::default();
        (1..=1_000).for_each(|value| samples.record(value * 1_000, 2, at(0)));
        let found = samples.distribution(at(1));
        assert_eq!((found.count, found.sum), (2_000, 1_001_000_000));
        assert_eq!((found.min(), found.max, found.mean()), (1_000, 1_000_000, 500_500.0));
        for (quantile, expected) in [(0.5, 500_000), (0.99, 990_000), (1.0, 1_000_000)] {
            let value = found.quantile(quantile).expect("there are values");
            assert!(value.abs_diff(expected) <= expected / 100, "{quantile}: {value}");
        }
    }

    #[test]
    fn quantiles_forget_what_is_long_past_and_counts_do_not() {
        let samples = SharedSamples::default();
        samples.record(7, 1, at(0));
        samples.record(9, 1, at(6));
        assert_eq!(samples.distribution(at(6)).quantile(0.0), Some(7), "the window before still counts");
        samples.record(9, 1, at(12));
        let found = samples.distribution(at(12));
        assert_eq!((found.quantile(0.0), found.min(), found.count), (Some(9), 7, 3));
        assert_eq!(samples.distribution(at(40)).quantile(0.5), None);
        samples.record(5, 1, at(40));
        assert_eq!(samples.distribution(at(40)).quantile(1.0), Some(5), "nothing of the windows before the pause");
    }

    #[test]
    fn a_difference_has_the_values_in_between() {
        let samples = SharedSamples::default();
        samples.record(1_000, 5, at(0));
        let before = samples.distribution(at(0));
        samples.record(30, 3, at(1));
        samples.record(70, 1, at(1));
        let now = samples.distribution(at(1));
        let recent = now.since(&before).expect("nothing was reset");
        assert_eq!((recent.count, recent.mean(), recent.quantile(0.5)), (4, 40.0, Some(30)));
        assert_eq!(now.since(&now).map(|none| (none.count, none.quantile(0.5))), Some((0, None)));
        assert_eq!(before.since(&now).map(|recent| recent.count), None);
        samples.record(9, 1, at(20));
        let later = samples.distribution(at(20)).since(&now).expect("nothing was reset");
        assert_eq!((later.count, later.quantile(0.5)), (1, None), "the windows of the values before have ended");
    }

    #[test]
    fn no_value_is_too_large_and_none_too_small() {
        let samples = SharedSamples::default();
        assert_eq!((samples.distribution(at(0)).min(), samples.distribution(at(0)).quantile(0.5)), (0, None));
        samples.record(u64::MAX, u64::MAX, at(0));
        samples.record(0, 1, at(0));
        let found = samples.distribution(at(0));
        assert_eq!((found.min(), found.max, found.sum), (0, u64::MAX, u64::MAX));
        assert!(found.quantile(1.0).is_some_and(|largest| largest >= VALUE_MAX - VALUE_MAX / 100));
    }
}
