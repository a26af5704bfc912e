//! Claims about single candidates, event by event, against a store that is a few lines long.

use std::time::Duration;

use super::*;
use crate::record::{Listed, Record as _};
use crate::score::Value;
use crate::store::{Granted, Leased, Plain, Renewed, Swap, Swapped};

/// One candidate, and what the store would answer.
struct Script {
    election: Election,
    now: Time,
    effects: Vec<Effect>,
}

impl Script {
    fn new(id: &str) -> Self {
        let election = Election::new(Settings::new(id, 7)).unwrap();
        let mut script = Self { election, now: Time(1), effects: Vec::new() };
        script.event(Event::Score { value: Some(Value::from_milli(1000)), ttl: None, computed_ms: 0 });
        script.event(Event::Eligible(true));
        script
    }

    fn event(&mut self, event: Event) {
        self.effects.extend(self.election.step(self.now, event));
    }

    /// Lets time pass, with a timer whenever the candidate asked for one.
    fn pass(&mut self, ms: u64) {
        let end = self.now + Span::from_ms(ms);
        while let Some(at) = self.election.wake_at().filter(|at| *at <= end) {
            self.now = at;
            self.event(Event::Timer);
        }
        self.now = end;
    }

    /// The last operation that was sent and fits, with its number. Earlier effects are forgotten.
    fn sent(&mut self, fits: impl Fn(&Op) -> bool) -> (OpId, Op) {
        let found = self.effects.iter().rev().find_map(|effect| {
            if let Effect::Store(id, op) = effect { Some((*id, op.clone())).filter(|(_, op)| fits(op)) } else { None }
        });
        let found = found.unwrap_or_else(|| panic!("not sent: {:?}", self.effects));
        self.effects.clear();
        found
    }

    fn answer(&mut self, id: OpId, answer: Answer) {
        self.event(Event::Answer(id, answer));
    }

    fn grant(&mut self) -> LeaseId {
        let (id, op) = self.sent(|op| matches!(op, Op::Publish { .. }));
        let Op::Publish { lease, ttl, .. } = op else { unreachable!() };
        self.answer(id, Answer::Publish(Ok(Granted { ttl: Duration::from_nanos(ttl.0) })));
        lease
    }

    /// A candidate that is alone: it has looked, and takes over. Returns the swap.
    fn taking(id: &str) -> (Self, OpId, Leader) {
        let mut script = Self::new(id);
        script.event(Event::Watched(Target::Leader, None));
        script.event(Event::Watched(Target::Succession, None));
        script.grant();
        script.pass(2_000);
        let (swap, record) = script.look_and_take();
        (script, swap, record)
    }

    /// Answers the list with this candidate alone, so that it takes over at once.
    fn look_and_take(&mut self) -> (OpId, Leader) {
        let (list, _) = self.sent(|op| *op == Op::List);
        let own = Leased { lease: LeaseId(1), value: self.election.own.encode() };
        self.answer(list, Answer::List(Ok(vec![own])));
        // A long lease is not enough to lead.
        self.grant();
        let (swap, op) = self.sent(is_leader_swap);
        let Op::Swap(Swap { value, .. }) = op else { unreachable!() };
        (swap, Leader::decode(&value).unwrap())
    }

    fn leading(id: &str) -> (Self, Leader) {
        let (mut script, swap, record) = Self::taking(id);
        script.answer(swap, Answer::Swap(Ok(Swapped::Done(Revision(1)))));
        assert!(script.leads());
        let (review, _) = script.sent(|op| *op == Op::List);
        script.answer(review, Answer::List(Err(Error::Unavailable("not now".into()))));
        (script, record)
    }

    fn leads(&self) -> bool {
        self.election.term().is_some()
    }

    fn yielded(&self) -> Option<YieldReason> {
        self.effects
            .iter()
            .find_map(|effect| if let Effect::Yield { reason, .. } = effect { Some(reason.clone()) } else { None })
    }

    fn sees_leader(&mut self, record: &Leader, revision: u128) {
        let entry = Entry { value: record.encode(), revision: Revision(revision) };
        self.event(Event::Watched(Target::Leader, Some(entry)));
    }
}

fn is_leader_swap(op: &Op) -> bool {
    matches!(op, Op::Swap(Swap { record: Plain::Leader, .. }))
}

#[test]
fn the_deadline_is_counted_from_before_the_renewal_was_sent() {
    let (mut script, _) = Script::leading("a");
    script.effects.clear();
    script.pass(3_400);
    let sent = script.now;
    let (renew, _) = script.sent(|op| matches!(op, Op::Renew { .. }));
    // The answer takes its time, and that time does not count.
    script.pass(2_000);
    script.answer(renew, Answer::Renew(Ok(Renewed::Extended)));
    let (_, deadline) = script.election.term().unwrap();
    assert!(deadline <= sent + Span::from_ms(9_900), "10 s less 1 % after it was sent, not after the answer");
}

#[test]
fn a_leader_that_is_not_renewed_yields_at_its_deadline_and_gives_up_its_lease() {
    let (mut script, record) = Script::leading("a");
    let (_, deadline) = script.election.term().unwrap();
    script.effects.clear();
    script.pass((deadline - script.now).as_us() / 1000 + 1);
    assert_eq!(script.yielded(), Some(YieldReason::DeadlinePassed));
    let (_, op) = script.sent(|op| matches!(op, Op::Withdraw(_)));
    assert_eq!(op, Op::Withdraw(record.lease));
    assert!(!script.leads());
}

#[test]
fn a_late_answer_does_not_revive_a_term() {
    let (mut script, _) = Script::leading("a");
    script.effects.clear();
    script.pass(3_400);
    let (renew, _) = script.sent(|op| matches!(op, Op::Renew { .. }));
    // The process is stopped: no timer runs. The renewal had reached the store.
    script.now = script.now + Span::from_ms(20_000);
    script.answer(renew, Answer::Renew(Ok(Renewed::Extended)));
    assert_eq!(script.yielded(), Some(YieldReason::DeadlinePassed));
    assert!(!script.effects.iter().any(|effect| matches!(effect, Effect::Extend { .. })));
}

#[test]
fn a_take_over_with_an_unknown_result_leads_only_when_a_read_says_so() {
    let (mut script, swap, record) = Script::taking("a");
    script.answer(swap, Answer::Swap(Err(Error::Unavailable("lost".into()))));
    assert!(!script.leads());
    script.pass(1_000);
    let (read, _) = script.sent(|op| *op == Op::Read(Target::Leader));
    let entry = Entry { value: record.encode(), revision: Revision(1) };
    script.answer(read, Answer::Read(Ok(Some(entry))));
    assert!(script.leads());
}

/// etcd's `Campaign`: the lease ended between its grant and the take-over.
#[test]
fn a_take_over_without_a_lease_begins_anew_with_another_lease() {
    let (mut script, swap, record) = Script::taking("a");
    script.answer(swap, Answer::Swap(Ok(Swapped::LeaseGone)));
    assert!(!script.leads());
    script.pass(1_000);
    assert_ne!(script.grant(), record.lease);
}

#[test]
fn an_old_report_does_not_end_a_term_but_a_read_does() {
    let (mut script, record) = Script::leading("a");
    script.effects.clear();
    script.event(Event::Watched(Target::Leader, None));
    assert!(script.leads());
    let (read, _) = script.sent(|op| *op == Op::Read(Target::Leader));
    let entry = Entry { value: record.encode(), revision: Revision(1) };
    script.answer(read, Answer::Read(Ok(Some(entry))));
    assert!(script.leads());
    // This time the store has really gone back.
    script.event(Event::Watched(Target::Leader, None));
    let (read, _) = script.sent(|op| *op == Op::Read(Target::Leader));
    script.answer(read, Answer::Read(Ok(None)));
    assert_eq!(script.yielded(), Some(YieldReason::Superseded));
}

#[test]
fn tokens_increase_although_the_store_has_lost_them() {
    let (mut script, first) = Script::leading("a");
    script.event(Event::Watched(Target::Leader, None));
    let (read, _) = script.sent(|op| *op == Op::Read(Target::Leader));
    script.answer(read, Answer::Read(Ok(None)));
    script.event(Event::Released(first.token));
    // The lease of the term was given up; another one is needed, then the same way again.
    script.pass(1_000);
    script.grant();
    script.pass(3_000);
    let (_, second) = script.look_and_take();
    assert_eq!((first.token, second.token), (Token::new(0, 1), Token::new(1, 1)));
}

#[test]
fn a_resignation_is_written_only_after_the_application_has_stopped() {
    let (mut script, record) = Script::leading("a");
    script.effects.clear();
    script.event(Event::Resign { to: Some("b".into()) });
    assert_eq!(script.yielded(), Some(YieldReason::Resigned));
    script.pass(1_000);
    let swapped = script.effects.iter().any(|effect| matches!(effect, Effect::Store(_, op) if is_leader_swap(op)));
    assert!(!swapped, "the application still works");
    script.event(Event::Released(record.token));
    let (_, op) = script.sent(is_leader_swap);
    let Op::Swap(Swap { value, .. }) = op else { unreachable!() };
    let resigned = Leader::decode(&value).unwrap();
    assert_eq!((resigned.resigned, resigned.successor), (true, Some("b".into())));
}

#[test]
fn an_operator_can_ask_the_leader_to_resign() {
    let (mut script, record) = Script::leading("a");
    script.effects.clear();
    let request = Some(crate::record::ResignRequest { to: None });
    script.sees_leader(&Leader { request, ..record }, 2);
    assert_eq!(script.yielded(), Some(YieldReason::Resigned));
}

/// The second on the list leaves the first one a stagger of time.
#[test]
fn the_list_decides_whose_turn_it_is() {
    let waited = |id: &str| {
        let (_, record) = Script::leading("leader");
        let mut script = Script::new(id);
        script.sees_leader(&record, 1);
        let listed = |id: &str| Listed { id: id.into(), priority: 0, score: None };
        let list = ["x", "y", "z"].map(listed).to_vec();
        let succession = Succession {
            format: FORMAT,
            token: record.token,
            by: "leader".into(),
            list,
            candidates: 4,
            decision: String::new(),
        };
        let entry = Entry { value: succession.encode(), revision: Revision(9) };
        script.event(Event::Watched(Target::Succession, Some(entry)));
        script.grant();
        script.event(Event::Watched(Target::Lease(record.lease), None));
        let vacant = script.now;
        while !script
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::Store(_, op) if is_leader_swap(op) || *op == Op::List))
        {
            script.pass(1);
        }
        (script.now - vacant).as_us() / 1000
    };
    let stagger = Timing::default().stagger.as_us() / 1000;
    assert_eq!(waited("x"), 0);
    assert!((stagger..stagger + 2).contains(&waited("y")), "{}", waited("y"));
    assert!((2 * stagger..2 * stagger + 2).contains(&waited("z")), "{}", waited("z"));
    assert!(waited("w") > 4 * stagger, "not on the list: {}", waited("w"));
}

#[test]
fn a_record_of_another_program_is_never_overwritten() {
    let mut script = Script::new("a");
    let entry = Entry { value: bytes::Bytes::from_static(b"mine"), revision: Revision(1) };
    script.event(Event::Watched(Target::Leader, Some(entry)));
    script.event(Event::Watched(Target::Succession, None));
    script.pass(600_000);
    assert!(script.effects.iter().any(|effect| matches!(effect, Effect::Trouble(Error::Damaged(_)))));
    assert!(!script.effects.iter().any(|effect| matches!(effect, Effect::Store(..))), "{:?}", script.effects);
}

#[test]
fn a_score_and_a_priority_expire_by_themselves() {
    let mut script = Script::new("a");
    script.event(Event::Priority { value: 5, ttl: Some(Span::from_ms(500)) });
    script.event(Event::Score { value: Some(Value::from_milli(3)), ttl: Some(Span::from_ms(900)), computed_ms: 0 });
    assert_eq!((script.election.own.priority, script.election.own.score), (5, Some(Value::from_milli(3))));
    script.pass(600);
    assert_eq!((script.election.own.priority, script.election.own.score.is_some()), (0, true));
    script.pass(400);
    assert_eq!(script.election.own.score, None);
}
