//! How long a client may be told that all is well.
//!
//! In: when the client was heard, and when the leader last knew of everyone heard. Out: whether to answer now.
//! Why: a server that is cut off must not let a client believe in a session that the others may have ended. Whoever gets
//! an answer believes for two thirds of its timeout; the leader waits for the whole of it since it last knew; so we
//! may take questions for one third. An answer may be late, and an event comes unasked, so each is looked at once more
//! before it leaves. The leader waits for a margin beyond the timeout, and so long may be told what there is to tell: an
//! event between two pings would have to wait for the second one otherwise.
//! Holds: what is not told is held, not dropped: the next confirmation releases it.
//! Not here: who holds it. A driver asks for each connection before it answers on it.

use pole_election::Span;
use pole_oracle::Time;

/// The belief of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    third: Span,
    margin: Span,
    /// The leader knows that the client was heard at this moment, or later.
    known: Time,
    /// Heard, and not yet known: the first such moment, and the last.
    first: Option<Time>,
    last: Time,
}

impl Lease {
    /// The session was attached by a request that was made at `asked`.
    #[must_use]
    pub fn new(timeout: Span, asked: Time) -> Self {
        Self { third: Span(timeout.0 / 3), margin: margin(timeout), known: asked, first: None, last: asked }
    }

    /// The client is heard.
    pub fn hear(&mut self, now: Time) {
        self.first.get_or_insert(now);
        self.last = now;
    }

    /// Whether its questions may be taken, given that the leader knows of all who were heard before `confirmed`.
    pub fn allows(&mut self, now: Time, confirmed: Time) -> bool {
        self.learn(confirmed);
        now <= self.known + self.third
    }

    /// Whether it may be told what there is to tell.
    pub fn may_tell(&mut self, now: Time, confirmed: Time) -> bool {
        self.learn(confirmed);
        now <= self.known + self.third + self.margin
    }

    fn learn(&mut self, confirmed: Time) {
        if self.last <= confirmed {
            self.known = self.last;
            self.first = None;
        } else if let Some(first) = self.first.filter(|first| *first <= confirmed) {
            self.known = first;
            self.first = Some(self.last);
        }
    }

    /// Whether the leader knows of every word: if it may still not be answered, the confirmation came too late, and the
    /// client, who waits, has to be heard again. Otherwise it would wait for ever.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.first.is_none()
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
            lease.hear(at(ms));
            assert!(lease.allows(at(ms), at(0)), "{ms}");
        }
        lease.hear(at(1_001));
        assert!(!lease.allows(at(1_001), at(0)));
    }

    #[test]
    fn what_is_ready_may_leave_for_a_margin_longer_and_not_for_ever() {
        let mut lease = Lease::new(TIMEOUT, at(0));
        assert!(lease.may_tell(at(1_250), at(0)));
        assert!(!lease.may_tell(at(1_251), at(1_251)), "others were confirmed");
        lease.hear(at(1_300));
        assert!(lease.may_tell(at(1_400), at(1_350)));
    }

    #[test]
    fn a_confirmation_releases_what_was_held() {
        let mut lease = Lease::new(TIMEOUT, at(0));
        lease.hear(at(1_500));
        assert!(!lease.allows(at(1_500), at(1_499)));
        assert!(lease.allows(at(1_560), at(1_550)));
    }

    #[test]
    fn a_confirmation_that_comes_too_late_asks_for_another_word() {
        let mut lease = Lease::new(TIMEOUT, at(0));
        lease.hear(at(1_500));
        assert!(!lease.allows(at(3_000), at(1_400)) && !lease.is_known());
        assert!(!lease.allows(at(3_000), at(1_600)) && lease.is_known());
        lease.hear(at(3_000));
        assert!(!lease.is_known() && lease.allows(at(3_060), at(3_010)));
    }

    #[test]
    fn a_client_that_never_pauses_is_known_too() {
        let mut lease = Lease::new(TIMEOUT, at(0));
        // Confirmations come, but always from before the last word of the client.
        for ms in (10..20_000).step_by(10) {
            lease.hear(at(ms));
            assert!(lease.allows(at(ms), at(ms - 60.min(ms))), "{ms}");
        }
    }

    #[test]
    fn silence_is_not_known_by_what_others_said() {
        let mut lease = Lease::new(TIMEOUT, at(0));
        lease.hear(at(100));
        assert!(lease.allows(at(100), at(100)));
        assert!(!lease.allows(at(1_101), at(1_100)), "the client itself was last heard at 100");
    }
}
