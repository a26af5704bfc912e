//! Session activity and expiry.
//!
//! Only the leader ends a session, so every server reports to it which sessions were active. A server that is cut off
//! must not let its clients rely on sessions that the leader may have ended, so it has to know when it was last
//! confirmed: that is the time at which the last confirmed report was *sent*.
//!
//! Invariant: a session is closed only if the leader, established and running, knew of no activity for its whole
//! timeout and a margin, and has learned of none since. Leaders that hand over to each other count as one.
//!
//! What ends along with a session is up to the state machine.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use pole_types::{SessionId, Span, Time};

use crate::lease::margin;

/// On every server: which sessions were active, and what the leader knows of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touches {
    /// Sessions active since the last report.
    active: BTreeSet<SessionId>,
    next: u64,
    /// Unanswered reports, oldest first. A leader reports to itself, and a quorum confirms: the number is then that of
    /// the ping.
    sent: VecDeque<Report>,
}

#[derive(Clone, Debug)]
struct Report {
    id: u64,
    at: Time,
    sessions: Vec<SessionId>,
}

impl Touches {
    pub(crate) fn record(&mut self, sessions: Vec<SessionId>) {
        self.active.extend(sessions);
    }

    pub(crate) fn forget(&mut self, session: SessionId) {
        self.active.remove(&session);
    }

    /// Returns a report for the leader, unless there is nothing to report or too many reports are unanswered.
    pub(crate) fn report(&mut self, now: Time) -> Option<(u64, Vec<SessionId>)> {
        if self.active.is_empty() || self.sent.len() >= UNANSWERED_MAX {
            return None;
        }
        self.next += 1;
        let sessions: Vec<_> = core::mem::take(&mut self.active).into_iter().collect();
        self.sent.push_back(Report { id: self.next, at: now, sessions: sessions.clone() });
        Some((self.next, sessions))
    }

    /// Returns a leader's report to itself, which a quorum confirms by answering the ping.
    pub(crate) fn report_to_quorum(&mut self, ping: u64, now: Time) -> Vec<SessionId> {
        let sessions: Vec<_> = self.active.iter().copied().collect();
        if self.sent.len() < UNANSWERED_MAX {
            self.active.clear();
            self.sent.push_back(Report { id: ping, at: now, sessions: sessions.clone() });
        }
        sessions
    }

    /// Records that everything up to `id` is answered. Returns when the last of these reports was sent.
    pub(crate) fn answered(&mut self, id: u64) -> Option<Time> {
        let answered = self.sent.partition_point(|report| report.id <= id);
        self.sent.drain(..answered).next_back().map(|report| report.at)
    }

    /// There is another leader, or the same one over another link. Unanswered reports may be lost, so their sessions
    /// are reported again. Otherwise a leader that continues would not restart their timeouts, and a client that waits
    /// for a confirmation would wait forever.
    pub(crate) fn leader_changed(&mut self) {
        self.active.extend(self.sent.drain(..).flat_map(|report| report.sessions));
    }
}

/// On the leader: when each session expires.
///
/// It has its own clock, which stands still while there is no leader. The time between two checks counts as one tick at
/// most, so a leader that was paused does not find all sessions expired.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expiry {
    /// The time of its own clock.
    clock: Time,
    /// When the clock was last advanced, in the server's time.
    advanced_at: Time,
    /// The maximum by which the clock advances at once.
    tick: Span,
    sessions: BTreeMap<SessionId, TrackedSession>,
    /// When to check which session. A session that was active in the meantime is queued again when it is checked.
    queue: BTreeSet<(Time, SessionId)>,
}

#[derive(Clone, Copy, Debug)]
struct TrackedSession {
    /// The session's timeout plus the margin.
    timeout: Span,
    deadline: Time,
    /// Its key in [`Expiry::queue`], unless `is_silent`.
    queued_at: Time,
    /// It has expired, and its end was requested.
    is_silent: bool,
}

impl Expiry {
    /// Starts the clock of a new leader: every session has its whole timeout, or the rest of it that the last leader
    /// sent.
    pub(crate) fn begin(
        now: Time,
        tick: Span,
        sessions: Vec<(SessionId, Span)>,
        remaining: &BTreeMap<SessionId, Span>,
    ) -> Self {
        let mut expiry = Self { advanced_at: now, tick, ..Self::default() };
        for (session, timeout) in sessions {
            let timeout = timeout.saturating_add(margin(timeout));
            let left = remaining.get(&session).map_or(timeout, |left| timeout.min(*left));
            let deadline = expiry.clock_at(now) + left;
            expiry
                .sessions
                .insert(session, TrackedSession { timeout, deadline, queued_at: deadline, is_silent: false });
            expiry.queue.insert((deadline, session));
        }
        expiry
    }

    /// The time left to sessions, those that expire first before the others, at most [`REMAINING_MAX`]. A leader that
    /// hands over sends this to the next one; the time until that one serves is not counted.
    pub(crate) fn remaining(&self, now: Time) -> Vec<(SessionId, Span)> {
        let clock = self.clock_at(now);
        let silent =
            self.sessions.iter().filter(|(_, tracked)| tracked.is_silent).map(|(session, _)| (*session, Span::ZERO));
        let left = |(_, session): &(Time, SessionId)| Some((*session, self.sessions.get(session)?.deadline - clock));
        silent.chain(self.queue.iter().filter_map(left)).take(REMAINING_MAX).collect()
    }

    /// Tracks a session that was opened or attached again.
    pub(crate) fn track(&mut self, session: SessionId, timeout: Span, now: Time) {
        let timeout = timeout.saturating_add(margin(timeout));
        let deadline = self.clock_at(now) + timeout;
        self.forget(session);
        self.sessions.insert(session, TrackedSession { timeout, deadline, queued_at: deadline, is_silent: false });
        self.queue.insert((deadline, session));
    }

    /// Records activity of a session.
    pub(crate) fn touch(&mut self, session: SessionId, now: Time) {
        let active_at = self.clock_at(now);
        if let Some(tracked) = self.sessions.get_mut(&session) {
            tracked.deadline = active_at + tracked.timeout;
            if core::mem::take(&mut tracked.is_silent) {
                tracked.queued_at = tracked.deadline;
                self.queue.insert((tracked.queued_at, session));
            }
        }
    }

    /// Whether an expired session is still silent. It may have become active before its end was proposed.
    pub(crate) fn is_silent(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_none_or(|tracked| tracked.is_silent)
    }

    /// Removes a session that has ended.
    pub(crate) fn forget(&mut self, session: SessionId) {
        if let Some(tracked) = self.sessions.remove(&session) {
            self.queue.remove(&(tracked.queued_at, session));
        }
    }

    /// Advances the clock. Returns the sessions that have expired, each once.
    pub(crate) fn advance(&mut self, now: Time) -> Vec<SessionId> {
        self.clock = self.clock_at(now);
        self.advanced_at = now;
        let mut expired = Vec::new();
        while let Some((queued_at, session)) =
            self.queue.first().copied().filter(|(queued_at, _)| *queued_at <= self.clock)
        {
            self.queue.remove(&(queued_at, session));
            match self.sessions.get_mut(&session) {
                None => {}
                Some(tracked) if tracked.deadline > self.clock => {
                    tracked.queued_at = tracked.deadline;
                    self.queue.insert((tracked.queued_at, session));
                }
                Some(tracked) => {
                    tracked.is_silent = true;
                    expired.push(session);
                }
            }
        }
        expired
    }

    /// The time of the clock at `now`. Activity between two checks counts from when it happened: counted from the last
    /// check, the session would lose up to the time between two checks.
    fn clock_at(&self, now: Time) -> Time {
        self.clock + (now - self.advanced_at).min(self.tick)
    }
}

/// The maximum number of sessions whose remaining time is sent in a hand-over: 1 MB on the wire, a few milliseconds of
/// work. The others start with their whole timeout, which keeps dead sessions longer and harms no living one.
pub(crate) const REMAINING_MAX: usize = 65_536;

/// The maximum number of unanswered reports. A leader that answers never reaches it, and one that does not answer gets
/// no more to read.
const UNANSWERED_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const TICK: Span = Span::from_ms(100);
    /// 1300 ms with the margin.
    const TIMEOUT: Span = Span::from_ms(1_200);

    fn at(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    /// Advances the clock at every tick up to `until`, and returns when the session expired.
    fn first_expiry(expiry: &mut Expiry, from: u64, until: u64) -> Option<u64> {
        (from / 100 + 1..=until / 100).map(|n| n * 100).find(|ms| expiry.advance(at(*ms)) == [A])
    }

    #[test]
    fn nothing_is_kept_of_sessions_that_ended() {
        let mut expiry = Expiry::default();
        for number in 0..1_000 {
            let session = SessionId(number);
            expiry.track(session, Span::from_ms(4_000), Time(0));
            expiry.track(session, Span::from_ms(6_000), Time(1));
            expiry.touch(session, Time(2));
            expiry.forget(session);
        }
        assert!(expiry.sessions.is_empty() && expiry.queue.is_empty());
    }

    #[test]
    fn after_a_hand_over_a_session_keeps_its_remaining_time() {
        const B: SessionId = SessionId(2);
        let mut old = Expiry::begin(at(0), TICK, [(A, TIMEOUT), (B, TIMEOUT)].into(), &BTreeMap::new());
        (1..=8).for_each(|n| drop(old.advance(at(n * 100))));
        old.touch(B, at(850));
        let remaining: BTreeMap<_, _> = old.remaining(at(850)).into_iter().collect();
        assert_eq!(remaining, [(A, Span::from_ms(450)), (B, Span::from_ms(1_300))].into());
        // The next leader has its own clock, and needed a while to take over.
        let mut new = Expiry::begin(at(5_000), TICK, [(A, TIMEOUT)].into(), &remaining);
        assert_eq!(first_expiry(&mut new, 5_000, 9_000), Some(5_500));
    }

    #[test]
    fn an_expired_session_has_no_time_left() {
        let mut old = Expiry::begin(at(0), TICK, [(A, TIMEOUT)].into(), &BTreeMap::new());
        assert_eq!(first_expiry(&mut old, 0, 5_000), Some(1_300));
        assert_eq!(old.remaining(at(1_300)), [(A, Span::ZERO)]);
    }

    #[test]
    fn more_remaining_time_than_the_timeout_is_ignored() {
        let remaining = [(A, Span::from_ms(60_000))].into();
        let mut expiry = Expiry::begin(at(0), TICK, [(A, TIMEOUT)].into(), &remaining);
        assert_eq!(first_expiry(&mut expiry, 0, 5_000), Some(1_300));
    }

    #[test]
    fn a_silent_session_expires_after_its_timeout_and_once() {
        let mut expiry = Expiry::begin(at(0), TICK, [(A, TIMEOUT)].into(), &BTreeMap::new());
        assert_eq!(first_expiry(&mut expiry, 0, 5_000), Some(1_300));
        assert_eq!(first_expiry(&mut expiry, 1_300, 5_000), None);
    }

    #[test]
    fn a_session_active_after_it_expired_has_its_whole_timeout_again() {
        let mut expiry = Expiry::begin(at(0), TICK, [(A, TIMEOUT)].into(), &BTreeMap::new());
        assert_eq!(first_expiry(&mut expiry, 0, 5_000), Some(1_300));
        assert!(expiry.is_silent(A));
        expiry.touch(A, at(1_350));
        assert!(!expiry.is_silent(A));
        assert_eq!(first_expiry(&mut expiry, 1_350, 5_000), Some(2_700));
    }

    #[test]
    fn an_active_session_has_its_whole_timeout_again() {
        let mut expiry = Expiry::begin(at(0), TICK, [(A, TIMEOUT)].into(), &BTreeMap::new());
        assert_eq!(first_expiry(&mut expiry, 0, 900), None);
        expiry.touch(A, at(900));
        assert_eq!(first_expiry(&mut expiry, 900, 5_000), Some(2_200));
    }

    #[test]
    fn activity_between_two_checks_counts_from_when_it_happened() {
        let mut expiry = Expiry::begin(at(0), TICK, [(A, TIMEOUT)].into(), &BTreeMap::new());
        assert_eq!(first_expiry(&mut expiry, 0, 900), None);
        expiry.touch(A, at(999));
        assert_eq!(first_expiry(&mut expiry, 900, 5_000), Some(2_300), "2200 is 99 ms early");
    }

    #[test]
    fn a_session_that_ended_and_returned_has_its_own_deadline() {
        let mut expiry = Expiry::begin(at(0), TICK, [(A, TIMEOUT)].into(), &BTreeMap::new());
        expiry.forget(A);
        assert_eq!(first_expiry(&mut expiry, 0, 500), None);
        expiry.track(A, TIMEOUT, at(500));
        assert_eq!(first_expiry(&mut expiry, 500, 5_000), Some(1_800));
    }

    #[test]
    fn a_pause_of_the_leader_counts_as_one_tick() {
        let mut expiry = Expiry::begin(at(0), TICK, [(A, TIMEOUT)].into(), &BTreeMap::new());
        assert_eq!(expiry.advance(at(60_000)), []);
        expiry.advanced_at = at(0);
        assert_eq!(first_expiry(&mut expiry, 0, 5_000), Some(1_200));
    }

    #[test]
    fn unanswered_reports_are_repeated_over_the_next_link() {
        let mut touches = Touches::default();
        touches.record([A].into());
        touches.report(at(1)).expect("a report");
        touches.leader_changed();
        let (id, sessions) = touches.report(at(2)).expect("the same again");
        assert_eq!((sessions, touches.answered(id)), ([A].into(), Some(at(2))));
        touches.leader_changed();
        assert_eq!(touches.report(at(3)), None, "it was answered");
    }

    #[test]
    fn a_confirmation_counts_from_when_the_report_was_sent() {
        let mut touches = Touches::default();
        assert_eq!(touches.report(at(1)), None, "no session was active");
        touches.record([A].into());
        let (first, sessions) = touches.report(at(2)).expect("a report");
        assert_eq!(sessions, [A]);
        touches.record([A].into());
        let (second, _) = touches.report(at(3)).expect("a report");
        assert_eq!(touches.answered(second), Some(at(3)));
        assert_eq!(touches.answered(first), None, "it is older than what is known");
    }
}
