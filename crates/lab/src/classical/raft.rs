//! Raft's votes: a term has at most one leader, because a process has one vote in a term.
//!
//! In: suspicions (the shortest election timeout has passed), random numbers for what a timeout is longer than that,
//! votes. Out: RequestVote, Vote, and Append, by which a leader makes itself known and stays so.
//! Why safe: two majorities share a process, and it votes once in a term, durably. Why live: timeouts are random, so that
//! soon one candidate is alone.
//! Count, one candidate, N processes, the old leader dead: N - 1 RequestVote, N - 2 Vote, N - 1 Append = 3N - 4; delays:
//! the random wait, RequestVote, Vote, Append = 4. With pre-vote N - 1 PreVote and N - 2 grants before: 5N - 7 and 6.
//! Worst: none; votes can split any number of times.
//! Source: Ongaro, Ousterhout 2014, section 5.2; pre-vote: Ongaro's thesis, section 9.6. The log is left out: all are
//! equally up to date.

use std::collections::BTreeSet;

use super::{Acts, Algorithm, Draws, Event, Setting, Timer, Word, majority, others};

/// A process.
#[derive(Clone, Debug)]
pub(super) struct Raft {
    me: usize,
    n: usize,
    timeout: u64,
    pre_vote: bool,
    draws: Draws,
    suspected: BTreeSet<usize>,
    /// Durable.
    term: u64,
    /// Durable: whom we voted for in this term.
    pub(super) voted: Option<usize>,
    leader: Option<usize>,
    /// The term whose leader our detector has given up: its heartbeats do not count any more.
    given_up: Option<u64>,
    role: Role,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Role {
    Follower,
    /// Would be voted for by these.
    Probing(BTreeSet<usize>),
    /// Was voted for by these.
    Candidate(BTreeSet<usize>),
    Leader,
}

#[derive(Clone, Debug)]
pub(super) enum Message {
    /// Would you vote for me in this term?
    PreVote {
        term: u64,
    },
    PreGranted {
        term: u64,
    },
    RequestVote {
        term: u64,
    },
    Vote {
        term: u64,
    },
    /// The term is over: here is a newer one.
    Newer {
        term: u64,
    },
    /// The leader speaks; `first`: for the first time.
    Append {
        term: u64,
        first: bool,
    },
}

impl Word for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::PreVote { .. } => "PreVote",
            Self::PreGranted { .. } => "PreGranted",
            Self::RequestVote { .. } => "RequestVote",
            Self::Vote { .. } => "Vote",
            Self::Newer { .. } => "Newer",
            Self::Append { .. } => "Append",
        }
    }

    fn label(&self) -> String {
        let (Self::PreVote { term }
        | Self::PreGranted { term }
        | Self::RequestVote { term }
        | Self::Vote { term }
        | Self::Newer { term }
        | Self::Append { term, .. }) = self;
        format!("{} t{term}", self.name())
    }

    fn is_upkeep(&self) -> bool {
        matches!(self, Self::Append { first: false, .. })
    }
}

impl Algorithm for Raft {
    type Message = Message;

    fn new(setting: &Setting) -> Self {
        let role = if setting.leader == Some(setting.me) { Role::Leader } else { Role::Follower };
        Self {
            me: setting.me,
            n: setting.n,
            timeout: setting.timeout,
            pre_vote: setting.pre_vote,
            draws: Draws::new(&setting.dice),
            suspected: BTreeSet::new(),
            term: u64::from(setting.leader.is_some()),
            voted: setting.leader,
            leader: setting.leader,
            given_up: None,
            role,
        }
    }

    fn reborn(&self, setting: &Setting) -> Self {
        Self { term: self.term, voted: self.voted, leader: None, role: Role::Follower, ..Self::new(setting) }
    }

    fn step(&mut self, event: Event<Message>, out: &mut Acts<Message>) {
        match event {
            Event::Start if self.role == Role::Leader => out.arm(HEARTBEAT, self.timeout / 4),
            Event::Start => {}
            Event::Elect => self.waits(0, out),
            Event::Suspects(other) => {
                self.suspected.insert(other);
                if self.leader == Some(other) {
                    self.given_up = Some(self.term);
                    self.waits(0, out);
                }
            }
            Event::Trusts(other) => {
                self.suspected.remove(&other);
                self.given_up = None;
            }
            Event::Received { from, message } => self.receive(from, &message, out),
            Event::Expired(timer) if timer == HEARTBEAT => {
                if self.role == Role::Leader {
                    out.send_all(others(self.me, self.n), Message::Append { term: self.term, first: false });
                    out.arm(HEARTBEAT, self.timeout / 4);
                }
            }
            Event::Expired(_) if self.role == Role::Leader => {}
            Event::Expired(_) if self.pre_vote => self.probe(out),
            Event::Expired(_) => self.stand(out),
        }
    }

    fn leads(&self) -> Option<u64> {
        (self.role == Role::Leader).then_some(self.term)
    }

    fn believes(&self) -> Option<usize> {
        self.leader
    }

    /// A follower takes the word of whoever speaks in its term or a newer one: that there is only one such process is
    /// what the votes are for.
    fn accepts(&self, leader: usize, term: u64) -> bool {
        let is_mine = leader == self.me && self.role == Role::Leader;
        term > self.term || (term == self.term && (is_mine || self.role != Role::Leader))
    }
}

impl Raft {
    fn receive(&mut self, from: usize, message: &Message, out: &mut Acts<Message>) {
        match *message {
            Message::PreVote { term } => {
                // Changes nothing here: a process that is cut off cannot drive up the terms of the others.
                let is_lost = self.leader.is_none_or(|leader| self.suspected.contains(&leader));
                if term > self.term && is_lost && self.role != Role::Leader {
                    out.send(from, Message::PreGranted { term });
                }
            }
            Message::PreGranted { term } => {
                if let Role::Probing(granted) = &mut self.role
                    && term == self.term + 1
                {
                    granted.insert(from);
                    if granted.len() >= majority(self.n) {
                        self.stand(out);
                    }
                }
            }
            Message::RequestVote { term } => {
                if term > self.term {
                    self.follow(term, None, out);
                }
                if term == self.term && self.voted.is_none_or(|voted| voted == from) {
                    self.voted = Some(from);
                    out.send(from, Message::Vote { term });
                    self.waits(2 * self.timeout, out);
                } else {
                    out.send(from, Message::Newer { term: self.term });
                }
            }
            Message::Vote { term } => {
                if let Role::Candidate(votes) = &mut self.role
                    && term == self.term
                {
                    votes.insert(from);
                    if votes.len() >= majority(self.n) {
                        self.wins(out);
                    }
                }
            }
            Message::Newer { term } => {
                if term > self.term {
                    self.follow(term, None, out);
                    self.waits(0, out);
                }
            }
            Message::Append { term, .. } if term < self.term => out.send(from, Message::Newer { term: self.term }),
            Message::Append { term, .. } if self.given_up == Some(term) => {}
            Message::Append { term, .. } => self.follow(term, Some(from), out),
        }
    }

    fn probe(&mut self, out: &mut Acts<Message>) {
        self.leader = None;
        self.role = Role::Probing(BTreeSet::from([self.me]));
        out.send_all(others(self.me, self.n), Message::PreVote { term: self.term + 1 });
        self.waits(2 * self.timeout, out);
    }

    fn stand(&mut self, out: &mut Acts<Message>) {
        self.term += 1;
        self.voted = Some(self.me);
        self.leader = None;
        self.role = Role::Candidate(BTreeSet::from([self.me]));
        out.send_all(others(self.me, self.n), Message::RequestVote { term: self.term });
        self.waits(2 * self.timeout, out);
    }

    fn wins(&mut self, out: &mut Acts<Message>) {
        self.role = Role::Leader;
        self.leader = Some(self.me);
        out.cancel(ELECTION);
        out.send_all(others(self.me, self.n), Message::Append { term: self.term, first: true });
        out.arm(HEARTBEAT, self.timeout / 4);
    }

    fn follow(&mut self, term: u64, leader: Option<usize>, out: &mut Acts<Message>) {
        if term > self.term {
            self.voted = None;
        }
        self.term = term;
        self.leader = leader;
        self.role = Role::Follower;
        out.cancel(HEARTBEAT);
        out.cancel(ELECTION);
    }

    /// T is twice the timeout, and so is the range of what is random.
    fn waits(&mut self, at_least: u64, out: &mut Acts<Message>) {
        let random = self.draws.below(2 * self.timeout);
        out.arm(ELECTION, at_least + random);
    }
}

const ELECTION: Timer = Timer("election timeout", 0);
const HEARTBEAT: Timer = Timer("heartbeat", 0);

#[cfg(test)]
mod tests {
    use super::super::{Case, Dice, Happening, Outcome, Repair, run};
    use super::*;
    use crate::sim::MS;

    /// A process that forgets whom it voted for, as one that does not write its vote to disk.
    struct Forgetful(Raft);

    impl Algorithm for Forgetful {
        type Message = Message;

        fn new(setting: &Setting) -> Self {
            Self(Raft::new(setting))
        }

        fn reborn(&self, setting: &Setting) -> Self {
            Self(self.0.reborn(setting))
        }

        fn step(&mut self, event: Event<Message>, out: &mut Acts<Message>) {
            if self.0.role == Role::Follower {
                self.0.voted = None;
            }
            self.0.step(event, out);
        }

        fn leads(&self) -> Option<u64> {
            self.0.leads()
        }

        fn believes(&self) -> Option<usize> {
            self.0.believes()
        }

        fn accepts(&self, leader: usize, generation: u64) -> bool {
            self.0.accepts(leader, generation)
        }
    }

    /// Two of three stand in the same term at the same moment, and ask the third.
    fn two_candidates<A: Algorithm>() -> Outcome {
        let mut case = Case::counting(3);
        case.dice = Dice::First(0);
        case.happenings.push((0, Happening::Elect(1)));
        case.happenings.push((2 * case.timeout - 1, Happening::Elect(0)));
        (case.until, case.ends_settled) = (5 * case.timeout, false);
        assert_eq!(case.timeout, 5 * MS);
        run::<A>(&case, Repair::None, false)
    }

    #[test]
    fn the_judge_catches_a_process_that_votes_twice_in_a_term() {
        let honest = two_candidates::<Raft>();
        assert_eq!((honest.violations.len(), honest.leader.is_some()), (0, true));
        let forgetful = two_candidates::<Forgetful>();
        let violation = forgetful.violations.first().expect("two leaders in one term");
        assert_eq!(violation.leaders, [(0, vec![0, 2]), (1, vec![1, 2])]);
    }
}
