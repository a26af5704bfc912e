//! Properties of the check: a correct service is never accused, whatever its clients do and whichever replies are lost.

use proptest::prelude::*;

use super::super::history::{Op, Outcome, State};
use super::*;

/// One step of a run.
#[derive(Clone, Debug)]
struct Step {
    session: usize,
    key: usize,
    act: Act,
    answer_takes: At,
}

#[derive(Clone, Debug)]
enum Act {
    Write,
    /// The reply is lost. The write took effect or not.
    WriteUnanswered {
        happens: bool,
    },
    /// Reads a state that is up to `back` versions old, if the session has not seen a newer one.
    Read {
        back: usize,
    },
    ReadSynced,
}

fn step() -> impl Strategy<Value = Step> {
    let act = prop_oneof![
        Just(Act::Write),
        any::<bool>().prop_map(|happens| Act::WriteUnanswered { happens }),
        (0_usize..3).prop_map(|back| Act::Read { back }),
        Just(Act::ReadSynced),
    ];
    (0_usize..3, 0_usize..2, act, 1_u64..60).prop_map(|(session, key, act, answer_takes)| Step {
        session,
        key,
        act,
        answer_takes,
    })
}

/// Runs the steps on a correct service, which has one list of states for each key.
fn run(steps: &[Step]) -> Vec<Op> {
    let first = State { value: 0, version: 0, zxid: 0 };
    let mut keys = [vec![first], vec![first]];
    let mut seen = [[0_usize; 2]; 3];
    let mut ops = Vec::new();
    for (number, step) in (1..).zip(steps) {
        let states = &mut keys[step.key];
        let asked = number * 10;
        let answered = asked + step.answer_takes;
        let next = State { value: number, version: states.len() as i32, zxid: number as i64 };
        let write = Kind::Write { key: step.key, value: number };
        let (kind, shown) = match step.act {
            Act::Write => {
                states.push(next);
                (write, Some(states.len() - 1))
            }
            Act::WriteUnanswered { happens } => {
                states.extend(happens.then_some(next));
                (write, None)
            }
            Act::Read { back } => {
                let oldest = seen[step.session][step.key];
                let index = (states.len() - 1).saturating_sub(back).max(oldest);
                (Kind::Read { key: step.key, synced: false }, Some(index))
            }
            Act::ReadSynced => (Kind::Read { key: step.key, synced: true }, Some(states.len() - 1)),
        };
        let outcome = match shown {
            Some(index) => {
                seen[step.session][step.key] = index;
                Outcome::State { answered, state: states[index] }
            }
            None => Outcome::Unknown,
        };
        ops.push(Op { session: step.session, asked, kind, outcome });
    }
    ops
}

proptest! {
    #[test]
    fn a_correct_service_is_never_accused(steps in prop::collection::vec(step(), 0..60)) {
        let history = History { ops: run(&steps), ..History::default() };
        prop_assert_eq!(violations(&history), []);
    }

    #[test]
    fn a_service_that_loses_the_last_write_is_always_detected(steps in prop::collection::vec(step(), 0..60)) {
        let write = |session| Step { session, key: 0, act: Act::Write, answer_takes: 1 };
        let mut ops = run(&[steps, vec![write(0)]].concat());
        let Outcome::State { state, answered } = ops[ops.len() - 1].outcome else { panic!("the last step is a write") };
        // A read after a sync then shows the version before.
        let outcome = Outcome::State { answered: answered + 2, state: State { version: state.version - 1, ..state } };
        ops.push(Op { session: 2, asked: answered + 1, kind: Kind::Read { key: 0, synced: true }, outcome });
        let found = violations(&History { ops, ..History::default() });
        prop_assert!(found.iter().any(|violation| matches!(violation, Violation::Lost { key: 0, .. })), "{:?}", found);
    }
}
