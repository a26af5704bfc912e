//! Sessions and time: who was heard, what the leader knows of it, and who is silent for too long.
//!
//! In: clients heard, the leader's confirmations, `now`. Out: reports to the leader; sessions to close.
//! Why a report: only the leader ends a session, so every server tells it whose clients it hears. And since a server
//! that is cut off must not keep its clients believing in sessions that the others may end, it has to know when it was
//! last believed: from the *sending* of the last report that the leader confirmed.
//! Holds: a session is closed only when the leader, established and running, had no word of it for its whole timeout and
//! a margin, and has had none since. Leaders that hand over to each other count as one.
//! Not here: what ends with a session (the state machine).

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use pole_election::Span;
use pole_oracle::Time;
use pole_zab::SessionId;

use crate::lease::margin;

/// Every server: whose clients were heard, and what the leader knows of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touches {
    /// Heard since the last report.
    heard: BTreeSet<SessionId>,
    next: u64,
    /// Reports without an answer, oldest first. A leader reports to itself, and a quorum answers: the number is that of
    /// its question whether they are still its own.
    sent: VecDeque<Report>,
}

#[derive(Clone, Debug)]
struct Report {
    id: u64,
    /// When it was sent.
    at: Time,
    sessions: Vec<SessionId>,
}

impl Touches {
    pub(crate) fn hear(&mut self, sessions: Vec<SessionId>) {
        self.heard.extend(sessions);
    }

    pub(crate) fn forget(&mut self, session: SessionId) {
        self.heard.remove(&session);
    }

    /// A report for the leader, unless there is nothing to say or the leader owes too many answers already.
    pub(crate) fn report(&mut self, now: Time) -> Option<(u64, Vec<SessionId>)> {
        if self.heard.is_empty() || self.sent.len() >= UNANSWERED_MAX {
            return None;
        }
        self.next += 1;
        let sessions: Vec<_> = core::mem::take(&mut self.heard).into_iter().collect();
        self.sent.push_back(Report { id: self.next, at: now, sessions: sessions.clone() });
        Some((self.next, sessions))
    }

    /// A leader's report to itself, which a quorum answers.
    pub(crate) fn report_to_quorum(&mut self, question: u64, now: Time) -> Vec<SessionId> {
        let sessions: Vec<_> = self.heard.iter().copied().collect();
        if self.sent.len() < UNANSWERED_MAX {
            self.heard.clear();
            self.sent.push_back(Report { id: question, at: now, sessions: sessions.clone() });
        }
        sessions
    }

    /// Everything up to `id` is answered: returns when the last of it was sent.
    pub(crate) fn answered(&mut self, id: u64) -> Option<Time> {
        let answered = self.sent.partition_point(|report| report.id <= id);
        self.sent.drain(..answered).next_back().map(|report| report.at)
    }

    /// Another leader, or the same over another link. What was not answered may not have been heard, so it is told again:
    /// a leader that goes on does not give every session its whole time, and whoever waits for its word to be known would
    /// wait for ever.
    pub(crate) fn led_anew(&mut self) {
        self.heard.extend(self.sent.drain(..).flat_map(|report| report.sessions));
    }
}

/// The leader: when each session will have been silent for too long.
///
/// Its clock is its own: it stands still while there is no leader, and a pause between two looks counts as one tick at
/// most, so that whoever slept does not find everybody late.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expiry {
    /// Its own time.
    clock: Time,
    /// When it last looked, in the server's time.
    looked: Time,
    /// What a pause counts at most.
    tick: Span,
    sessions: BTreeMap<SessionId, Tracked>,
    /// When to look at whom. A session that was heard in the meantime is entered again when its turn comes.
    turns: BTreeSet<(Time, SessionId)>,
}

#[derive(Clone, Copy, Debug)]
struct Tracked {
    /// Its timeout and the margin.
    patience: Span,
    deadline: Time,
    /// Its entry in [`Expiry::turns`], unless it was found.
    turn: Time,
    /// It was silent for too long, and its end was asked for.
    found: bool,
}

impl Expiry {
    /// A leader begins: every session has its whole time, or what the last leader said is left of it.
    pub(crate) fn begin(
        now: Time,
        tick: Span,
        sessions: Vec<(SessionId, Span)>,
        remaining: &BTreeMap<SessionId, Span>,
    ) -> Self {
        let mut expiry = Self { looked: now, tick, ..Self::default() };
        for (session, timeout) in sessions {
            let patience = timeout.saturating_add(margin(timeout));
            let left = remaining.get(&session).map_or(patience, |left| patience.min(*left));
            let deadline = expiry.read(now) + left;
            expiry.sessions.insert(session, Tracked { patience, deadline, turn: deadline, found: false });
            expiry.turns.insert((deadline, session));
        }
        expiry
    }

    /// What is left to sessions, those that expire first before the others, at most [`REMAINING_MAX`]. A leader that hands
    /// over tells it to the next one; the time until that one serves is not counted.
    pub(crate) fn remaining(&self, now: Time) -> Vec<(SessionId, Span)> {
        let clock = self.read(now);
        let found =
            self.sessions.iter().filter(|(_, tracked)| tracked.found).map(|(session, _)| (*session, Span::ZERO));
        let left = |(_, session): &(Time, SessionId)| Some((*session, self.sessions.get(session)?.deadline - clock));
        found.chain(self.turns.iter().filter_map(left)).take(REMAINING_MAX).collect()
    }

    /// A session is opened or attached anew.
    pub(crate) fn track(&mut self, session: SessionId, timeout: Span, now: Time) {
        let patience = timeout.saturating_add(margin(timeout));
        let deadline = self.read(now) + patience;
        self.forget(session);
        self.sessions.insert(session, Tracked { patience, deadline, turn: deadline, found: false });
        self.turns.insert((deadline, session));
    }

    /// A session was heard.
    pub(crate) fn touch(&mut self, session: SessionId, now: Time) {
        let heard = self.read(now);
        if let Some(tracked) = self.sessions.get_mut(&session) {
            tracked.deadline = heard + tracked.patience;
            if core::mem::take(&mut tracked.found) {
                tracked.turn = tracked.deadline;
                self.turns.insert((tracked.turn, session));
            }
        }
    }

    /// Whether a session that was found silent still is: its end may have waited behind its next word.
    pub(crate) fn is_silent(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_none_or(|tracked| tracked.found)
    }

    /// A session has ended: nothing of it is kept, on followers too, where nobody's turn ever comes.
    pub(crate) fn forget(&mut self, session: SessionId) {
        if let Some(tracked) = self.sessions.remove(&session) {
            self.turns.remove(&(tracked.turn, session));
        }
    }

    /// Time goes on. Returns the sessions that were silent for too long, each once.
    pub(crate) fn advance(&mut self, now: Time) -> Vec<SessionId> {
        self.clock = self.read(now);
        self.looked = now;
        let mut expired = Vec::new();
        while let Some((turn, session)) = self.turns.first().copied().filter(|(turn, _)| *turn <= self.clock) {
            self.turns.remove(&(turn, session));
            match self.sessions.get_mut(&session) {
                None => {}
                Some(tracked) if tracked.deadline > self.clock => {
                    tracked.turn = tracked.deadline;
                    self.turns.insert((tracked.turn, session));
                }
                Some(tracked) => {
                    tracked.found = true;
                    expired.push(session);
                }
            }
        }
        expired
    }

    /// What its clock will say when it looks next. A word between two looks counts from when it came: from the last look
    /// on, the session would lose up to the time between two.
    fn read(&self, now: Time) -> Time {
        self.clock + (now - self.looked).min(self.tick)
    }
}

/// Sessions whose remaining time is told in a hand-over: 1 MB on the wire, a few milliseconds of work. With more of them the
/// rest begins anew, which keeps a dead session longer and harms no living one.
pub(crate) const REMAINING_MAX: usize = 65_536;

/// A leader that answers is never asked for more than a few; one that does not gets no more to read.
const UNANSWERED_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const TICK: Span = Span::from_ms(100);
    /// With the margin, 1300 ms.
    const TIMEOUT: Span = Span::from_ms(1_200);

    fn at(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    /// Looks at every tick up to `until`, and says when the session was found silent.
    fn expires(expiry: &mut Expiry, from: u64, until: u64) -> Option<u64> {
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
        assert!(expiry.sessions.is_empty() && expiry.turns.is_empty());
    }

    #[test]
    fn after_a_hand_over_a_session_has_what_was_left_to_it() {
        const B: SessionId = SessionId(2);
        let mut old = Expiry::begin(at(0), TICK, [(A, TIMEOUT), (B, TIMEOUT)].into(), &BTreeMap::new());
        (1..=8).for_each(|n| drop(old.advance(at(n * 100))));
        old.touch(B, at(850));
        let remaining: BTreeMap<_, _> = old.remaining(at(850)).into_iter().collect();
        assert_eq!(remaining, [(A, Span::from_ms(450)), (B, Span::from_ms(1_300))].into());
        // The next leader has a clock of its own, and needed a while to take over.
        let mut new = Expiry::begin(at(5_000), TICK, [(A, TIMEOUT)].into(), &remaining);
        assert_eq!(expires(&mut new, 5_000, 9_000), Some(5_500));
    }

    #[test]
    fn a_session_that_was_found_silent_has_nothing_left() {
        let mut old = Expiry::begin(at(0), TICK, [(A, TIMEOUT)].into(), &BTreeMap::new());
        assert_eq!(expires(&mut old, 0, 5_000), Some(1_300));
        assert_eq!(old.remaining(at(1_300)), [(A, Span::ZERO)]);
    }

    #[test]
    fn more_time_than_a_session_has_is_not_believed() {
        let told = [(A, Span::from_ms(60_000))].into();
        let mut expiry = Expiry::begin(at(0), TICK, [(A, TIMEOUT)].into(), &told);
        assert_eq!(expires(&mut expiry, 0, 5_000), Some(1_300));
    }

    #[test]
    fn a_silent_session_expires_after_its_timeout_and_once() {
        let mut expiry = Expiry::begin(at(0), TICK, [(A, TIMEOUT)].into(), &BTreeMap::new());
        assert_eq!(expires(&mut expiry, 0, 5_000), Some(1_300));
        assert_eq!(expires(&mut expiry, 1_300, 5_000), None);
    }

    #[test]
    fn a_session_that_is_heard_after_it_was_found_silent_has_its_whole_time_again() {
        let mut expiry = Expiry::begin(at(0), TICK, [(A, TIMEOUT)].into(), &BTreeMap::new());
        assert_eq!(expires(&mut expiry, 0, 5_000), Some(1_300));
        assert!(expiry.is_silent(A));
        expiry.touch(A, at(1_350));
        assert!(!expiry.is_silent(A));
        assert_eq!(expires(&mut expiry, 1_350, 5_000), Some(2_700));
    }

    #[test]
    fn a_session_that_is_heard_has_its_whole_time_again() {
        let mut expiry = Expiry::begin(at(0), TICK, [(A, TIMEOUT)].into(), &BTreeMap::new());
        assert_eq!(expires(&mut expiry, 0, 900), None);
        expiry.touch(A, at(900));
        assert_eq!(expires(&mut expiry, 900, 5_000), Some(2_200));
    }

    #[test]
    fn a_word_between_two_looks_counts_from_when_it_came() {
        let mut expiry = Expiry::begin(at(0), TICK, [(A, TIMEOUT)].into(), &BTreeMap::new());
        assert_eq!(expires(&mut expiry, 0, 900), None);
        expiry.touch(A, at(999));
        assert_eq!(expires(&mut expiry, 900, 5_000), Some(2_300), "2200 is 99 ms early");
    }

    #[test]
    fn a_session_that_ended_and_came_back_is_looked_at_in_its_own_time() {
        let mut expiry = Expiry::begin(at(0), TICK, [(A, TIMEOUT)].into(), &BTreeMap::new());
        expiry.forget(A);
        assert_eq!(expires(&mut expiry, 0, 500), None);
        expiry.track(A, TIMEOUT, at(500));
        assert_eq!(expires(&mut expiry, 500, 5_000), Some(1_800));
    }

    #[test]
    fn a_pause_of_the_leader_counts_as_one_tick() {
        let mut expiry = Expiry::begin(at(0), TICK, [(A, TIMEOUT)].into(), &BTreeMap::new());
        assert_eq!(expiry.advance(at(60_000)), []);
        expiry.looked = at(0);
        assert_eq!(expires(&mut expiry, 0, 5_000), Some(1_200));
    }

    #[test]
    fn what_was_not_answered_is_told_again_over_the_next_link() {
        let mut touches = Touches::default();
        touches.hear([A].into());
        touches.report(at(1)).expect("a report");
        touches.led_anew();
        let (id, sessions) = touches.report(at(2)).expect("the same again");
        assert_eq!((sessions, touches.answered(id)), ([A].into(), Some(at(2))));
        touches.led_anew();
        assert_eq!(touches.report(at(3)), None, "it was answered");
    }

    #[test]
    fn a_report_is_confirmed_from_its_sending() {
        let mut touches = Touches::default();
        assert_eq!(touches.report(at(1)), None, "nobody was heard");
        touches.hear([A].into());
        let (first, sessions) = touches.report(at(2)).expect("a report");
        assert_eq!(sessions, [A]);
        touches.hear([A].into());
        let (second, _) = touches.report(at(3)).expect("a report");
        assert_eq!(touches.answered(second), Some(at(3)));
        assert_eq!(touches.answered(first), None, "it is older than what is known");
    }
}
