//! Decides when a copy is whole, and what the operator has to do next. No I/O: answers of the servers go in, the next step
//! comes out.
//!
//! 1. The copy follows the leader and is level.
//! 2. All other servers of Apache are stopped. Without them the leader has no quorum and commits nothing more.
//! 3. The leader, which still serves for up to one tick, is asked for its last transaction, twice with a pause between.
//!    If both times it is one that the copy has, nothing is missing.
//! 4. The leader is stopped. The copy is whole.
//!
//! A server that comes back in between starts this again: nothing that was found before counts. If the leader steps down
//! before it could be asked, others have to be started again, because only a leader says what it has committed.
//!
//! The pause is for acknowledgements that arrived at the leader just before the last follower ended. It processes them
//! at once, and commits by them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pole_types::{Epoch, ServerId, Voters, Zxid};

use crate::{Answer, Mode};

/// Where the copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Its last transaction.
    pub last: Zxid,
    /// The last epoch that it adopted.
    pub epoch: Epoch,
    /// Whether it follows a leader now, and had everything when it connected.
    pub up_to_date: bool,
}

impl Position {
    /// The position as a leader of Apache states it: before the first transaction of its epoch, that of the epoch.
    #[must_use]
    pub fn reached(&self) -> Zxid {
        self.last.max(Zxid::new(self.epoch, 0))
    }
}

/// What has to happen next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing for the operator to do, for this reason.
    Wait(String),
    /// Nobody knows whether this server runs: reach it, or declare it as off.
    Unreachable(ServerId, String),
    /// Stop these servers, in any order.
    StopFollowers(Vec<ServerId>),
    /// Start so many of these servers again that there is a quorum.
    StartFollower(Vec<ServerId>),
    /// Stop the leader. The copy has everything up to this transaction, and there is no later one.
    StopLeader(ServerId, Zxid),
    /// The copy is whole, and nothing of Apache runs.
    Done(Zxid),
    /// It cannot be done like this.
    Refuse(String),
}

/// The course of a take-over.
#[derive(Clone, Debug)]
pub struct TakeOver {
    voters: Voters,
    /// Servers of which the operator says that they are off for good.
    assumed_down: BTreeSet<ServerId>,
    /// How long the leader's answer has to stay the same.
    pause: Duration,
    /// The leader's first answer without other servers, and when it came.
    reading: Option<(ServerId, Zxid, Duration)>,
    /// The leader, and the last transaction that there is.
    verified: Option<(ServerId, Zxid)>,
    /// Whether any server of Apache has answered.
    seen: bool,
}

impl TakeOver {
    /// A take-over from these voters, whose tick is known.
    #[must_use]
    pub fn new(voters: Voters, assumed_down: BTreeSet<ServerId>, tick: Duration) -> Self {
        // A leader without followers steps down at the end of a tick, so several pauses have to fit into one.
        let pause = (tick / 10).clamp(PAUSE_MIN, PAUSE_MAX);
        Self { voters, assumed_down, pause, reading: None, verified: None, seen: false }
    }

    /// The next step. `answers` are of all servers, asked since the last call; `now` is any clock that goes on.
    pub fn step(&mut self, now: Duration, position: Position, answers: &BTreeMap<ServerId, Answer>) -> Step {
        let is_down = |id: &ServerId, answer: &Answer| {
            *answer == Answer::Down || (self.assumed_down.contains(id) && matches!(answer, Answer::Unknown(_)))
        };
        let up: Vec<ServerId> = answers.iter().filter(|(id, answer)| !is_down(id, answer)).map(|(id, _)| *id).collect();
        self.seen |= answers.values().any(|answer| matches!(answer, Answer::Serving { .. } | Answer::NotServing));
        let is_unknown =
            |id: &ServerId, answer: &Answer| matches!(answer, Answer::Unknown(_)) && !self.assumed_down.contains(id);
        if let Some((id, Answer::Unknown(why))) = answers.iter().find(|(id, answer)| is_unknown(id, answer)) {
            // What was verified stays so: a machine that is switched off after its server was stopped looks like this.
            self.reading = None;
            return Step::Unreachable(*id, why.clone());
        }
        let alone = |id: &ServerId| matches!(answers.get(id), Some(Answer::Serving { mode: Mode::Standalone, .. }));
        if let Some(id) = up.iter().find(|id| alone(id)) {
            return Step::Refuse(format!("server {id} has no ensemble to observe: stop it and move in place"));
        }
        match self.verified {
            Some((leader, zxid)) => self.end(leader, zxid, position, answers, &up),
            None => self.compare(now, position, answers, up),
        }
    }

    /// Forgets what was found: something has changed.
    fn start_over(&mut self) {
        (self.reading, self.verified) = (None, None);
    }

    fn compare(
        &mut self,
        now: Duration,
        position: Position,
        answers: &BTreeMap<ServerId, Answer>,
        up: Vec<ServerId>,
    ) -> Step {
        let leading = answers.iter().find_map(|(id, answer)| match answer {
            Answer::Serving { mode: Mode::Leader, zxid, .. } => Some((*id, *zxid)),
            Answer::Serving { .. } | Answer::NotServing | Answer::Down | Answer::Unknown(_) => None,
        });
        let Some((leader, zxid)) = leading else {
            self.reading = None;
            return self.without_leader(&up);
        };
        let others: Vec<ServerId> = up.into_iter().filter(|id| *id != leader).collect();
        if !others.is_empty() {
            self.reading = None;
            if !position.up_to_date {
                return Step::Wait(format!("the copy is at {:#x}, the leader at {:#x}", position.last.0, zxid.0));
            }
            return Step::StopFollowers(others);
        }
        if self.voters.is_quorum([leader]) {
            return Step::Refuse(format!(
                "server {leader} is a quorum alone and may commit at any time: stop it and move in place"
            ));
        }
        if zxid > position.reached() {
            self.reading = None;
            return Step::Wait(format!("the copy is at {:#x}, the leader at {:#x}", position.last.0, zxid.0));
        }
        match self.reading {
            Some((from, first, at)) if (from, first) == (leader, zxid) => {
                if now.saturating_sub(at) < self.pause {
                    return Step::Wait("comparing".to_owned());
                }
                self.verified = Some((leader, zxid));
                Step::StopLeader(leader, zxid)
            }
            Some(_) | None => {
                self.reading = Some((leader, zxid, now));
                Step::Wait("comparing".to_owned())
            }
        }
    }

    fn without_leader(&self, up: &[ServerId]) -> Step {
        let voters_up: BTreeSet<ServerId> = up.iter().copied().filter(|id| self.voters.contains(*id)).collect();
        if self.voters.is_quorum(voters_up.iter().copied()) {
            return Step::Wait("the servers of Apache elect a leader".to_owned());
        }
        let down: Vec<ServerId> = self.voters.iter().filter(|id| !voters_up.contains(id)).collect();
        match self.seen {
            true => Step::StartFollower(down),
            false => Step::Refuse(
                "no server of Apache runs, so nobody says whether the copy is whole: start Apache again, follow it, and \
                 run this before it is stopped; or move in place"
                    .to_owned(),
            ),
        }
    }

    fn end(
        &mut self,
        leader: ServerId,
        zxid: Zxid,
        position: Position,
        answers: &BTreeMap<ServerId, Answer>,
        up: &[ServerId],
    ) -> Step {
        if up.iter().any(|id| *id != leader) {
            self.start_over();
            return Step::Wait("a server of Apache was started again".to_owned());
        }
        match answers.get(&leader) {
            Some(Answer::Down) if position.reached() >= zxid => Step::Done(position.last),
            Some(Answer::Serving { mode: Mode::Leader, zxid: now, .. }) if *now > zxid => {
                self.start_over();
                Step::Wait(format!("the leader has committed {:#x}", now.0))
            }
            Some(Answer::Serving { .. } | Answer::NotServing | Answer::Unknown(_)) => Step::StopLeader(leader, zxid),
            Some(Answer::Down) | None => Step::Refuse(format!(
                "the copy is at {:#x}, and the leader was at {:#x}: start Apache again",
                position.last.0, zxid.0
            )),
        }
    }
}

/// Acknowledgements that have arrived are processed within a fraction of this.
const PAUSE_MAX: Duration = Duration::from_millis(150);
const PAUSE_MIN: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_secs(2);
    const Z: Zxid = Zxid(0x1_0000_0009);

    fn take_over() -> TakeOver {
        TakeOver::new(Voters::new([1, 2, 3].map(ServerId)), BTreeSet::new(), TICK)
    }

    fn at(last: Zxid) -> Position {
        Position { last, epoch: Epoch(1), up_to_date: true }
    }

    fn serving(mode: Mode, zxid: Zxid) -> Answer {
        Answer::Serving { mode, zxid, version: "3.8.4".to_owned() }
    }

    fn answers(three: [Answer; 3]) -> BTreeMap<ServerId, Answer> {
        (1..).map(ServerId).zip(three).collect()
    }

    fn running() -> BTreeMap<ServerId, Answer> {
        answers([serving(Mode::Follower, Z), serving(Mode::Leader, Z), serving(Mode::Follower, Z)])
    }

    fn leader_alone(zxid: Zxid) -> BTreeMap<ServerId, Answer> {
        answers([Answer::Down, serving(Mode::Leader, zxid), Answer::Down])
    }

    fn all_down() -> BTreeMap<ServerId, Answer> {
        answers([Answer::Down, Answer::Down, Answer::Down])
    }

    const LEADER: ServerId = ServerId(2);

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn is_wait(step: &Step) -> bool {
        matches!(step, Step::Wait(_))
    }

    #[test]
    fn followers_first_then_two_equal_answers_then_the_leader() {
        let mut take_over = take_over();
        assert_eq!(take_over.step(ms(0), at(Z), &running()), Step::StopFollowers([1, 3].map(ServerId).to_vec()));
        assert!(is_wait(&take_over.step(ms(10), at(Z), &leader_alone(Z))));
        assert!(is_wait(&take_over.step(ms(100), at(Z), &leader_alone(Z))), "too early");
        assert_eq!(take_over.step(ms(160), at(Z), &leader_alone(Z)), Step::StopLeader(LEADER, Z));
        let stepped_down = answers([Answer::Down, Answer::NotServing, Answer::Down]);
        assert_eq!(take_over.step(ms(170), at(Z), &stepped_down), Step::StopLeader(LEADER, Z));
        let gone = Position { up_to_date: false, ..at(Z) };
        assert_eq!(take_over.step(ms(180), gone, &all_down()), Step::Done(Z));
    }

    #[test]
    fn a_copy_that_is_not_level_stops_nobody() {
        let behind = Position { up_to_date: false, ..at(Z) };
        assert!(is_wait(&take_over().step(ms(0), behind, &running())));
    }

    #[test]
    fn the_leader_is_not_stopped_while_the_copy_lacks_something() {
        let (mut take_over, behind) = (take_over(), at(Zxid(Z.0 - 1)));
        for time in [0, 1_000, 2_000] {
            assert!(is_wait(&take_over.step(ms(time), behind, &leader_alone(Z))));
        }
        assert!(is_wait(&take_over.step(ms(2_010), at(Z), &leader_alone(Z))), "the pause begins now");
        assert_eq!(take_over.step(ms(2_200), at(Z), &leader_alone(Z)), Step::StopLeader(LEADER, Z));
    }

    #[test]
    fn a_late_commit_begins_the_comparison_again() {
        let (mut take_over, later) = (take_over(), Zxid(Z.0 + 1));
        assert!(is_wait(&take_over.step(ms(0), at(Z), &leader_alone(Z))));
        assert!(is_wait(&take_over.step(ms(200), at(later), &leader_alone(later))));
        assert_eq!(take_over.step(ms(400), at(later), &leader_alone(later)), Step::StopLeader(LEADER, later));
        let latest = Zxid(Z.0 + 2);
        assert!(is_wait(&take_over.step(ms(500), at(later), &leader_alone(latest))), "even after it was verified");
        assert!(is_wait(&take_over.step(ms(510), at(later), &leader_alone(latest))));
    }

    #[test]
    fn a_server_that_comes_back_voids_what_was_found() {
        let mut take_over = take_over();
        take_over.step(ms(0), at(Z), &leader_alone(Z));
        assert_eq!(take_over.step(ms(200), at(Z), &leader_alone(Z)), Step::StopLeader(LEADER, Z));
        let back = answers([Answer::NotServing, serving(Mode::Leader, Z), Answer::Down]);
        assert!(is_wait(&take_over.step(ms(210), at(Z), &back)));
        assert!(matches!(take_over.step(ms(220), at(Z), &all_down()), Step::StartFollower(_)), "not done");
    }

    #[test]
    fn a_leader_that_stepped_down_unasked_needs_a_follower_again() {
        let mut take_over = take_over();
        take_over.step(ms(0), at(Z), &running());
        let stepped_down = answers([Answer::Down, Answer::NotServing, Answer::Down]);
        let step = take_over.step(ms(10), at(Z), &stepped_down);
        assert_eq!(step, Step::StartFollower([1, 3].map(ServerId).to_vec()));
        let electing = answers([Answer::NotServing, Answer::NotServing, Answer::Down]);
        assert!(is_wait(&take_over.step(ms(20), at(Z), &electing)));
    }

    #[test]
    fn an_ensemble_that_was_stopped_before_is_refused() {
        assert!(matches!(take_over().step(ms(0), at(Z), &all_down()), Step::Refuse(_)));
    }

    #[test]
    fn an_unreachable_server_may_run_unless_the_operator_says_otherwise() {
        let unknown = || Answer::Unknown("timed out".to_owned());
        let seen = answers([unknown(), serving(Mode::Leader, Z), Answer::Down]);
        let step = take_over().step(ms(0), at(Z), &seen);
        assert_eq!(step, Step::Unreachable(ServerId(1), "timed out".to_owned()));
        let mut told = TakeOver::new(Voters::new([1, 2, 3].map(ServerId)), [ServerId(1)].into(), TICK);
        told.step(ms(0), at(Z), &seen);
        assert_eq!(told.step(ms(200), at(Z), &seen), Step::StopLeader(LEADER, Z));
        let off = answers([Answer::Down, unknown(), Answer::Down]);
        assert!(matches!(told.step(ms(210), at(Z), &off), Step::Unreachable(LEADER, _)), "not done, and not forgotten");
        assert_eq!(told.step(ms(220), at(Z), &all_down()), Step::Done(Z));
    }

    #[test]
    fn a_new_epoch_without_transactions_is_level() {
        let mut take_over = take_over();
        let (position, zxid) = (Position { last: Z, epoch: Epoch(2), up_to_date: true }, Zxid(0x2_0000_0000));
        take_over.step(ms(0), position, &leader_alone(zxid));
        assert_eq!(take_over.step(ms(200), position, &leader_alone(zxid)), Step::StopLeader(LEADER, zxid));
        let older = Position { epoch: Epoch(1), ..position };
        assert!(is_wait(&self::take_over().step(ms(0), older, &leader_alone(zxid))));
    }

    #[test]
    fn a_leader_that_is_a_quorum_alone_and_a_standalone_server_are_refused() {
        let mut one = TakeOver::new(Voters::new([LEADER]), BTreeSet::new(), TICK);
        let answers = |mode| BTreeMap::from([(LEADER, serving(mode, Z))]);
        assert!(matches!(one.step(ms(0), at(Z), &answers(Mode::Leader)), Step::Refuse(_)));
        assert!(matches!(one.step(ms(0), at(Z), &answers(Mode::Standalone)), Step::Refuse(_)));
    }
}
