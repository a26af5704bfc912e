//! Servers that apply more slowly than the leader proposes.
//!
//! A server whose clients watch what is written has more work for each transaction than the others. A quorum of these commits
//! without it, so what it has not applied would grow without limit, and its clients would wait ever longer. So it tells the leader
//! when it is behind ([`Lag`]), and while it does, the leader proposes slowly ([`Pace`]).
//!
//! What counts is the time since a transaction was ready to be applied. Neither the distance of a server nor a server that does
//! not answer slows the leader, and one that joins and has much to apply does so only once it was level.

use alloc::collections::VecDeque;
use pole_types::{Span, Time, Zxid};

/// How long this server has had transactions that it could apply.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lag {
    /// When the transactions up to these positions were ready. Coarse, so that it stays short.
    ready: VecDeque<(Zxid, Time)>,
    /// Everything that was ready has been applied once.
    was_level: bool,
    reported: Option<Time>,
}

impl Lag {
    /// This server begins to serve in an epoch, perhaps with a long history that it has not applied.
    pub(crate) fn begin(&mut self) {
        *self = Self::default();
    }

    /// Records what is ready and what is applied.
    pub(crate) fn record(&mut self, ready: Zxid, applied: Zxid, now: Time) {
        while self.ready.front().is_some_and(|(through, _)| *through <= applied) {
            self.ready.pop_front();
        }
        if ready <= applied {
            self.was_level = true;
            return;
        }
        match self.ready.back_mut() {
            Some((through, at)) if now - *at < GRAIN => *through = ready.max(*through),
            Some((through, _)) if *through >= ready => {}
            _ => self.ready.push_back((ready, now)),
        }
    }

    /// Whether the leader has to be told now that this server is behind.
    pub(crate) fn must_report(&mut self, now: Time) -> bool {
        let is_behind = self.was_level && self.ready.front().is_some_and(|(_, at)| now - *at > BEHIND_AFTER);
        let is_due = is_behind && self.reported.is_none_or(|at| now - at >= REPORT_EVERY);
        if is_due {
            self.reported = Some(now);
        }
        is_due
    }
}

/// How fast a leader may propose.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    /// Until then, a server is taken to be behind.
    slow_until: Time,
    /// When the present interval began, and how many requests were proposed in it.
    began: Time,
    proposed: usize,
    /// A timer for the next interval is running.
    is_waiting: bool,
}

impl Pace {
    /// A server reported that it is behind.
    pub(crate) fn slow_down(&mut self, now: Time) {
        self.slow_until = now + SLOW_FOR;
    }

    /// How many requests may be proposed now.
    pub(crate) fn room(&mut self, now: Time) -> usize {
        if now >= self.slow_until {
            return usize::MAX;
        }
        if now - self.began >= INTERVAL {
            (self.began, self.proposed) = (now, 0);
        }
        PROPOSED_PER_INTERVAL.saturating_sub(self.proposed)
    }

    pub(crate) fn record(&mut self, proposed: usize) {
        self.proposed += proposed;
    }

    /// If there is no room: for how long. A timer is to run then; the time is returned once for each.
    pub(crate) fn wait(&mut self, now: Time) -> Option<Span> {
        let must_wait = self.room(now) == 0 && !core::mem::replace(&mut self.is_waiting, true);
        must_wait.then(|| self.began + INTERVAL - now)
    }

    /// The timer expired.
    pub(crate) fn waited(&mut self) {
        self.is_waiting = false;
    }
}

/// How far a server may lag before the leader slows down.
const BEHIND_AFTER: Span = Span::from_ms(50);
const REPORT_EVERY: Span = Span::from_ms(10);
/// Longer than the time between two reports, and not so long that a server that stops slows others.
const SLOW_FOR: Span = Span::from_ms(30);
const GRAIN: Span = Span::from_ms(5);

/// At the slow pace 1,000 requests a second are proposed.
const INTERVAL: Span = Span::from_ms(10);
const PROPOSED_PER_INTERVAL: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time(0) + Span::from_ms(ms)
    }

    #[test]
    fn a_server_reports_that_it_is_behind_until_it_has_caught_up() {
        let mut lag = Lag::default();
        lag.record(Zxid(5), Zxid(5), at(0));
        lag.record(Zxid(100), Zxid(5), at(10));
        lag.record(Zxid(200), Zxid(50), at(30));
        assert!(!lag.must_report(at(60)));
        assert!(lag.must_report(at(61)));
        assert!(!lag.must_report(at(62)), "not with every step");
        assert!(lag.must_report(at(71)));
        lag.record(Zxid(200), Zxid(100), at(75));
        assert!(!lag.must_report(at(79)), "the rest was ready later");
        assert!(lag.must_report(at(81)));
        lag.record(Zxid(200), Zxid(200), at(82));
        assert!(!lag.must_report(at(200)));
    }

    #[test]
    fn a_server_that_joins_reports_nothing_before_it_is_level() {
        let mut lag = Lag::default();
        lag.record(Zxid(1_000), Zxid(0), at(0));
        assert!(!lag.must_report(at(500)));
        lag.record(Zxid(1_000), Zxid(1_000), at(600));
        lag.record(Zxid(1_001), Zxid(1_000), at(601));
        assert!(lag.must_report(at(700)));
        lag.begin();
        lag.record(Zxid(2_000), Zxid(1_000), at(701));
        assert!(!lag.must_report(at(900)));
    }

    #[test]
    fn what_is_kept_stays_short() {
        let mut lag = Lag::default();
        lag.record(Zxid(1), Zxid(1), at(0));
        for us in 0..1_000_000 {
            lag.record(Zxid(2 + us), Zxid(1), Time(0) + Span::from_us(us));
        }
        assert!(lag.ready.len() <= 200, "{}", lag.ready.len());
    }

    #[test]
    fn a_leader_proposes_slowly_while_a_server_is_behind() {
        let mut pace = Pace::default();
        assert_eq!(pace.room(at(100)), usize::MAX);
        pace.slow_down(at(100));
        assert_eq!(pace.room(at(100)), PROPOSED_PER_INTERVAL);
        pace.record(PROPOSED_PER_INTERVAL);
        assert_eq!((pace.wait(at(103)), pace.wait(at(104))), (Some(Span::from_ms(7)), None));
        pace.waited();
        assert_eq!(pace.room(at(110)), PROPOSED_PER_INTERVAL);
        assert_eq!(pace.room(at(130)), usize::MAX, "no report came since");
    }
}
