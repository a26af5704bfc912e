//! The lease of a client's connection: how long replies may be sent without confirmation by the leader.
//!
//! A server that is cut off must not let a client assume that its session is alive when the leader may have ended it. A
//! client that gets a reply relies on its session for two thirds of its timeout, and the leader waits for the whole
//! timeout since it last knew of the client's activity. So requests may be accepted for one third of the timeout after
//! that.
//!
//! A reply may be late, and an event is sent unsolicited, so the lease is checked again before each of them is sent.
//! The leader waits for a margin beyond the timeout, and output may be sent for that much longer: otherwise an event
//! between two pings would have to wait for the second one.
//!
//! Output that may not be sent is held and not dropped; the next confirmation releases it.
//!
//! The lease is not enforced here: a driver checks it for each connection before it sends.

use pole_types::{Span, Time};

/// The lease of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    third: Span,
    margin: Span,
    /// The leader knows of activity of the client at this time or later.
    known: Time,
    /// The first and the last activity that the leader does not know of yet.
    first_unconfirmed: Option<Time>,
    last_activity: Time,
}

impl Lease {
    /// The lease of a session that was attached by a request sent at `requested_at`.
    #[must_use]
    pub fn new(timeout: Span, requested_at: Time) -> Self {
        Self {
            third: Span(timeout.0 / 3),
            margin: margin(timeout),
            known: requested_at,
            first_unconfirmed: None,
            last_activity: requested_at,
        }
    }

    /// Records activity of the client.
    pub fn record_activity(&mut self, now: Time) {
        self.first_unconfirmed.get_or_insert(now);
        self.last_activity = now;
    }

    /// Whether requests may be accepted, given that the leader knows of all activity before `confirmed`.
    pub fn allows(&mut self, now: Time, confirmed: Time) -> bool {
        self.update(confirmed);
        now <= self.known + self.third
    }

    /// Whether output may be sent.
    pub fn may_send(&mut self, now: Time, confirmed: Time) -> bool {
        self.update(confirmed);
        now <= self.known + self.third + self.margin
    }

    fn update(&mut self, confirmed: Time) {
        if self.last_activity <= confirmed {
            self.known = self.last_activity;
            self.first_unconfirmed = None;
        } else if let Some(first) = self.first_unconfirmed.filter(|first| *first <= confirmed) {
            self.known = first;
            self.first_unconfirmed = Some(self.last_activity);
        }
    }

    /// Whether the leader knows of all activity of the client. If the lease still does not allow an answer, the
    /// confirmation came too late, and the waiting client must count as active again; otherwise it would wait forever.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.first_unconfirmed.is_none()
    }
}

/// How long a leader waits beyond the timeout of a session.
pub(crate) fn margin(timeout: Span) -> Span {
    Span(timeout.0 / 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Span = Span::from_ms(3_000);

    fn at(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    #[test]
    fn without_confirmation_a_client_is_answered_for_a_third_of_its_timeout() {
        let mut lease = Lease::new(TIMEOUT, at(0));
        for ms in [0, 500, 1_000] {
            lease.record_activity(at(ms));
            assert!(lease.allows(at(ms), at(0)), "{ms}");
        }
        lease.record_activity(at(1_001));
        assert!(!lease.allows(at(1_001), at(0)));
    }

    #[test]
    fn output_may_be_sent_for_a_margin_longer_and_not_forever() {
        let mut lease = Lease::new(TIMEOUT, at(0));
        assert!(lease.may_send(at(1_250), at(0)));
        assert!(!lease.may_send(at(1_251), at(1_251)), "others were confirmed");
        lease.record_activity(at(1_300));
        assert!(lease.may_send(at(1_400), at(1_350)));
    }

    #[test]
    fn a_confirmation_releases_what_was_held() {
        let mut lease = Lease::new(TIMEOUT, at(0));
        lease.record_activity(at(1_500));
        assert!(!lease.allows(at(1_500), at(1_499)));
        assert!(lease.allows(at(1_560), at(1_550)));
    }

    #[test]
    fn a_confirmation_that_comes_too_late_requires_new_activity() {
        let mut lease = Lease::new(TIMEOUT, at(0));
        lease.record_activity(at(1_500));
        assert!(!lease.allows(at(3_000), at(1_400)) && !lease.is_confirmed());
        assert!(!lease.allows(at(3_000), at(1_600)) && lease.is_confirmed());
        lease.record_activity(at(3_000));
        assert!(!lease.is_confirmed() && lease.allows(at(3_060), at(3_010)));
    }

    #[test]
    fn a_client_that_never_pauses_is_confirmed_too() {
        let mut lease = Lease::new(TIMEOUT, at(0));
        // Confirmations arrive, but always for a time before the last activity of the client.
        for ms in (10..20_000).step_by(10) {
            lease.record_activity(at(ms));
            assert!(lease.allows(at(ms), at(ms - 60.min(ms))), "{ms}");
        }
    }

    #[test]
    fn activity_of_other_clients_does_not_extend_a_lease() {
        let mut lease = Lease::new(TIMEOUT, at(0));
        lease.record_activity(at(100));
        assert!(lease.allows(at(100), at(100)));
        assert!(!lease.allows(at(1_101), at(1_100)), "the client itself was last active at 100");
    }
}
