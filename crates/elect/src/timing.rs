//! The spans of an election. All follow from the time-to-live; each can be changed.

use std::time::Duration;

use pole_types::Span;

use crate::record::LISTED_MAX;

/// The spans and limits of an election. All candidates should use the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    /// The time-to-live of the lease of a leader and of the candidates that may follow it soon.
    pub ttl: Span,
    /// The time-to-live of all other candidates, which renew seldom.
    pub idle_ttl: Span,
    /// The time that each candidate on the list leaves to the one before it. More than a write to the store takes.
    pub stagger: Span,
    /// How long a candidate waits before it reads the scores of the others, if there is no list.
    pub settle: Span,
    /// The maximum number of staggers that a rank waits, if there is no list.
    pub rank_cap: u32,
    /// The length of the succession list, at most [`LISTED_MAX`].
    pub list_length: usize,
    /// How often a leader reads the candidates.
    pub review: Span,
    /// The additional time between two reviews for each candidate, so that a large election does not only read lists.
    pub review_per_candidate: Span,
    /// How much the clock that judges the lease may gain on ours, in thousandths.
    pub drift_permille: u64,
    /// After this time without an answer the result of an operation counts as unknown.
    pub operation: Span,
    /// The time between attempts after a failure; doubles up to an eighth of the time-to-live.
    pub retry: Span,
    /// How long a leader that gives up leadership keeps its lease while the application stops.
    pub stop: Span,
}

impl Timing {
    /// The spans for a time-to-live.
    #[must_use]
    pub fn for_ttl(ttl: Duration) -> Self {
        let ttl = Span(u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX / 64));
        let part = |divisor: u64| Span(ttl.0 / divisor);
        Self {
            ttl,
            idle_ttl: ttl.saturating_mul(6),
            stagger: part(20),
            settle: part(10),
            rank_cap: 10,
            list_length: 5,
            review: part(2),
            review_per_candidate: Span::from_ms(1),
            drift_permille: 10,
            operation: part(4),
            retry: part(64),
            stop: ttl.saturating_mul(3),
        }
    }

    /// The part of a granted time that may be used: without what the store may end early and what clocks may differ.
    #[must_use]
    pub fn usable(&self, granted: Span, early: Span) -> Span {
        let drift = (u128::from(granted.0) * u128::from(self.drift_permille)).div_ceil(1000);
        Span(granted.0.saturating_sub(early.0).saturating_sub(u64::try_from(drift).unwrap_or(u64::MAX)))
    }

    /// Checks that an election with these spans can work.
    ///
    /// # Errors
    /// The first value that cannot work, with its limits.
    pub fn check(&self) -> Result<(), InvalidTiming> {
        let limits = [
            ("ttl", self.ttl, TTL_MIN, TTL_MAX),
            ("idle ttl", self.idle_ttl, self.ttl, TTL_MAX),
            ("stagger", self.stagger, Span(1), self.ttl),
            ("settling time", self.settle, Span(1), self.ttl),
            ("review", self.review, Span(1), TTL_MAX),
            ("operation time-out", self.operation, Span(1), Span(self.ttl.0 / 2)),
            ("retry", self.retry, Span(1), Span(self.ttl.0 / 4)),
        ];
        for (what, got, least, most) in limits {
            if got < least || got > most {
                return Err(InvalidTiming::Span { what, got, least, most });
            }
        }
        match () {
            () if self.drift_permille > 500 => Err(InvalidTiming::Drift { got: self.drift_permille }),
            () if !(1..=LISTED_MAX).contains(&self.list_length) => Err(InvalidTiming::List { got: self.list_length }),
            () => Ok(()),
        }
    }
}

impl Default for Timing {
    /// For a time-to-live of 10 s.
    fn default() -> Self {
        Self::for_ttl(Duration::from_secs(10))
    }
}

/// Why spans cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum InvalidTiming {
    #[error("{what} must be between {least} and {most}, got {got}")]
    Span { what: &'static str, got: Span, least: Span, most: Span },
    #[error("the drift of clocks must be at most 500 thousandths, got {got}")]
    Drift { got: u64 },
    #[error("the succession list must have 1 to {LISTED_MAX} entries, got {got}")]
    List { got: usize },
}

/// Below this, timers and threads decide more than the lease.
const TTL_MIN: Span = Span::from_ms(10);
/// A day.
const TTL_MAX: Span = Span::from_ms(86_400_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_work_for_every_time_to_live() {
        for ms in [10, 100, 1_000, 10_000, 3_600_000] {
            Timing::for_ttl(Duration::from_millis(ms)).check().unwrap();
        }
        let short = Timing::for_ttl(Duration::from_millis(9)).check().unwrap_err();
        assert_eq!(short.to_string(), "ttl must be between 10.000 ms and 86400000.000 ms, got 9.000 ms");
    }

    #[test]
    fn the_usable_time_leaves_out_drift_and_an_early_end() {
        let timing = Timing::default();
        assert_eq!(timing.usable(Span::from_ms(10_000), Span::from_ms(400)), Span::from_ms(9_500));
        assert_eq!(timing.usable(Span::from_ms(10), Span::from_ms(400)), Span::ZERO);
    }
}
