//! When a client was last heard, between the thread that hears it and the thread that reports it to the leader.
//!
//! A report has a time, and the leader's confirmation of it covers everyone heard before that time. Two things must
//! hold whatever the order of the threads:
//!
//! - a client that counts as heard before the time of a report is in that report or in an earlier one;
//! - a client that counts as heard after it is in a later report.

use std::sync::atomic::{AtomicU64, Ordering};

use pole_oracle::Time;

/// When one client was last heard, until it is reported.
#[derive(Debug, Default)]
pub(crate) struct Heard(AtomicU64);

impl Heard {
    /// The client is heard. Returns the moment as which this counts, and whether the client has to be entered into the
    /// list for the next report.
    pub(crate) fn hear(&self, clock: impl Fn() -> Time) -> (Time, bool) {
        let now = clock();
        // Zero stands for "not in the list".
        if self.0.fetch_max(now.0.max(1), Ordering::AcqRel) > 0 {
            return (now, false);
        }
        // A report may have been made since the clock was read, without this client: it is heard after that report.
        (clock(), true)
    }

    /// A report as of `at`, a time that was read before, includes the client. Returns whether it was heard since and has
    /// to be in the next one too.
    pub(crate) fn report(&self, at: Time) -> bool {
        let last = self.0.load(Ordering::Acquire);
        if last > at.0 {
            return true;
        }
        // If it was heard in this moment, it stays in the list.
        self.0.compare_exchange(last, 0, Ordering::AcqRel, Ordering::Acquire).is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_entered_once_for_each_report() {
        let heard = Heard::default();
        assert_eq!(heard.hear(|| Time(5)), (Time(5), true));
        assert_eq!(heard.hear(|| Time(6)), (Time(6), false));
        assert!(!heard.report(Time(6)));
        assert_eq!(heard.hear(|| Time(7)), (Time(7), true));
    }

    #[test]
    fn a_client_heard_while_a_report_is_made_is_in_the_next_one() {
        let heard = Heard::default();
        heard.hear(|| Time(5));
        // The report was begun at 6; at 8, before it is made, the client is heard again.
        assert_eq!(heard.hear(|| Time(8)), (Time(8), false));
        assert!(heard.report(Time(6)), "what it said at 8 is not covered by a report of 6");
        assert!(!heard.report(Time(8)));
    }

    #[test]
    fn a_client_that_missed_a_report_counts_as_heard_after_it() {
        let heard = Heard::default();
        let readings = std::cell::Cell::new(5);
        // It read the clock at 5, was held up, and entered itself when a report of 9 had been made.
        let (at, newly) = heard.hear(|| Time(readings.replace(10)));
        assert_eq!((at, newly), (Time(10), true));
    }

    #[test]
    fn a_client_heard_at_the_start_of_the_clock_is_reported() {
        let heard = Heard::default();
        assert!(heard.hear(|| Time(0)).1 && !heard.hear(|| Time(0)).1);
    }
}
