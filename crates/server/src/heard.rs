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
    /// The client is heard at this moment. Returns whether it is in the list for the next report; if not, it has to be
    /// entered, and this asked again with another reading of the clock.
    pub(crate) fn hear(&self, now: Time) -> bool {
        // Zero stands for "not in the list".
        self.0.fetch_max(now.0.max(1), Ordering::AcqRel) > 0
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
        assert!(!heard.hear(Time(5)) && heard.hear(Time(6)));
        assert!(!heard.report(Time(6)));
        assert!(!heard.hear(Time(7)));
    }

    #[test]
    fn a_client_heard_while_a_report_is_made_is_in_the_next_one() {
        let heard = Heard::default();
        heard.hear(Time(5));
        // The report was begun at 6; at 8, before it is made, the client is heard again.
        assert!(heard.hear(Time(8)));
        assert!(heard.report(Time(6)), "what it said at 8 is not covered by a report of 6");
        assert!(!heard.report(Time(8)));
    }

    #[test]
    fn a_client_heard_at_the_start_of_the_clock_is_reported() {
        let heard = Heard::default();
        assert!(!heard.hear(Time(0)) && heard.hear(Time(0)));
    }
}
