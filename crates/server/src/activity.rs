//! Tracks when a client was last active, between the thread that serves it and the thread that reports it to the
//! leader.
//!
//! A report carries a time, and the leader's confirmation covers every client active before that time. Regardless of
//! how the threads interleave:
//!
//! - a client that counts as active before the time of a report is in that report or in an earlier one;
//! - a client that counts as active after it is in a later report.

use std::sync::atomic::{AtomicU64, Ordering};

use pole_types::Time;

/// The time of a client's last activity that has not been reported yet; 0 if there is none.
#[derive(Debug, Default)]
pub(crate) struct LastActivity(AtomicU64);

impl LastActivity {
    /// Records activity at `now`. Returns whether the client is already in the list for the next report. If not, the
    /// caller must add it and call this again with a new reading of the clock.
    pub(crate) fn record(&self, now: Time) -> bool {
        // Zero means "not in the list".
        self.0.fetch_max(now.0.max(1), Ordering::AcqRel) > 0
    }

    /// Marks the client as reported as of `at`, a time read earlier. Returns whether it has been active since and must
    /// be in the next report too.
    pub(crate) fn report(&self, at: Time) -> bool {
        let last = self.0.load(Ordering::Acquire);
        if last > at.0 {
            return true;
        }
        // If the client is active concurrently, it stays in the list.
        self.0.compare_exchange(last, 0, Ordering::AcqRel, Ordering::Acquire).is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_entered_once_for_each_report() {
        let activity = LastActivity::default();
        assert!(!activity.record(Time(5)) && activity.record(Time(6)));
        assert!(!activity.report(Time(6)));
        assert!(!activity.record(Time(7)));
    }

    #[test]
    fn a_client_heard_while_a_report_is_made_is_in_the_next_one() {
        let activity = LastActivity::default();
        activity.record(Time(5));
        // The report was begun at 6; the client is active again at 8, before the report is made.
        assert!(activity.record(Time(8)));
        assert!(activity.report(Time(6)), "what it said at 8 is not covered by a report of 6");
        assert!(!activity.report(Time(8)));
    }

    #[test]
    fn a_client_heard_at_the_start_of_the_clock_is_reported() {
        let activity = LastActivity::default();
        assert!(!activity.record(Time(0)) && activity.record(Time(0)));
    }
}
