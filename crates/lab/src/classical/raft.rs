//! Raft's election: a term has at most one leader, because a process has one vote per term.
//!
//! A suspicion stands for the end of the shortest election timeout; random numbers determine how much longer a
//! timeout is. Messages are RequestVote, Vote, and Append, by which a leader announces itself and stays leader.
//!
//! Safety: two majorities share a process, which votes once per term, durably. Liveness: timeouts are random, so soon
//! one candidate is alone.
//!
//! Count for one candidate, N processes, the old leader crashed: N - 1 RequestVote, N - 2 Vote, N - 1
//! Append = 3N - 4. Delays: the random wait, RequestVote, Vote, Append = 4. Pre-vote adds N - 1 PreVote and N - 2
//! grants: 5N - 7 and 6. There is no worst case: votes can split any number of times.
//!
//! Source: Ongaro, Ousterhout 2014, section 5.2; pre-vote: Ongaro's thesis, section 9.6. The log is left out: all
//! processes are equally up to date.

use std::collections::BTreeSet;

use super::{Actions, Algorithm, AlgorithmMessage, Event, ProcessConfig, RandomNumbers, Timer, majority, others};

#[derive(Clone, Debug)]
pub(super) struct Raft {
    me: usize,
    n: usize,
    timeout: u64,
    pre_vote: bool,
    random: RandomNumbers,
    suspected: BTreeSet<usize>,
    /// The current term. Durable.
    term: u64,
    /// The process that got our vote in this term. Durable.
    pub(super) voted: Option<usize>,
    leader: Option<usize>,
    /// The term whose leader our detector suspects: its heartbeats are ignored.
    given_up: Option<u64>,
    role: Role,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Role {
    Follower,
    /// Collects pre-votes; these were granted.
    Probing(BTreeSet<usize>),
    /// Collects votes; these were granted.
    Candidate(BTreeSet<usize>),
    Leader,
}

#[derive(Clone, Debug)]
pub(super) enum Message {
    /// Asks whether the receiver would vote for the sender in this term.
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
    /// Rejects an old term with a newer one.
    Newer {
        term: u64,
    },
    /// The leader's heartbeat; `first` marks its announcement.
    Append {
        term: u64,
        first: bool,
    },
}

impl AlgorithmMessage for Message {
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

    fn new(config: &ProcessConfig) -> Self {
        let role = if config.leader == Some(config.me) { Role::Leader } else { Role::Follower };
        Self {
            me: config.me,
            n: config.n,
            timeout: config.timeout,
            pre_vote: config.pre_vote,
            random: RandomNumbers::new(&config.random_numbers),
            suspected: BTreeSet::new(),
            term: u64::from(config.leader.is_some()),
            voted: config.leader,
            leader: config.leader,
            given_up: None,
            role,
        }
    }

    fn restarted(&self, config: &ProcessConfig) -> Self {
        Self { term: self.term, voted: self.voted, leader: None, role: Role::Follower, ..Self::new(config) }
    }

    fn step(&mut self, event: Event<Message>, out: &mut Actions<Message>) {
        match event {
            Event::Start if self.role == Role::Leader => out.arm(HEARTBEAT, self.timeout / 4),
            Event::Start => {}
            Event::Elect => self.arm_election_timer(0, out),
            Event::Suspects(other) => {
                self.suspected.insert(other);
                if self.leader == Some(other) {
                    self.given_up = Some(self.term);
                    self.arm_election_timer(0, out);
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
            Event::Expired(_) if self.pre_vote => self.start_pre_vote(out),
            Event::Expired(_) => self.start_candidacy(out),
        }
    }

    fn leads(&self) -> Option<u64> {
        (self.role == Role::Leader).then_some(self.term)
    }

    fn known_leader(&self) -> Option<usize> {
        self.leader
    }

    /// A follower accepts any leader of its term or a newer one: the votes ensure that there is only one.
    fn accepts(&self, leader: usize, term: u64) -> bool {
        let is_mine = leader == self.me && self.role == Role::Leader;
        term > self.term || (term == self.term && (is_mine || self.role != Role::Leader))
    }
}

impl Raft {
    fn receive(&mut self, from: usize, message: &Message, out: &mut Actions<Message>) {
        match *message {
            Message::PreVote { term } => {
                // Changes no state: a partitioned process cannot increase the terms of the others.
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
                        self.start_candidacy(out);
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
                    self.arm_election_timer(2 * self.timeout, out);
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
                        self.become_leader(out);
                    }
                }
            }
            Message::Newer { term } => {
                if term > self.term {
                    self.follow(term, None, out);
                    self.arm_election_timer(0, out);
                }
            }
            Message::Append { term, .. } if term < self.term => out.send(from, Message::Newer { term: self.term }),
            Message::Append { term, .. } if self.given_up == Some(term) => {}
            Message::Append { term, .. } => self.follow(term, Some(from), out),
        }
    }

    fn start_pre_vote(&mut self, out: &mut Actions<Message>) {
        self.leader = None;
        self.role = Role::Probing(BTreeSet::from([self.me]));
        out.send_all(others(self.me, self.n), Message::PreVote { term: self.term + 1 });
        self.arm_election_timer(2 * self.timeout, out);
    }

    fn start_candidacy(&mut self, out: &mut Actions<Message>) {
        self.term += 1;
        self.voted = Some(self.me);
        self.leader = None;
        self.role = Role::Candidate(BTreeSet::from([self.me]));
        out.send_all(others(self.me, self.n), Message::RequestVote { term: self.term });
        self.arm_election_timer(2 * self.timeout, out);
    }

    fn become_leader(&mut self, out: &mut Actions<Message>) {
        self.role = Role::Leader;
        self.leader = Some(self.me);
        out.cancel(ELECTION);
        out.send_all(others(self.me, self.n), Message::Append { term: self.term, first: true });
        out.arm(HEARTBEAT, self.timeout / 4);
    }

    fn follow(&mut self, term: u64, leader: Option<usize>, out: &mut Actions<Message>) {
        if term > self.term {
            self.voted = None;
        }
        self.term = term;
        self.leader = leader;
        self.role = Role::Follower;
        out.cancel(HEARTBEAT);
        out.cancel(ELECTION);
    }

    /// Arms the election timer with a random time of up to twice the timeout on top of `at_least`.
    fn arm_election_timer(&mut self, at_least: u64, out: &mut Actions<Message>) {
        let random = self.random.below(2 * self.timeout);
        out.arm(ELECTION, at_least + random);
    }
}

const ELECTION: Timer = Timer("election timeout", 0);
const HEARTBEAT: Timer = Timer("heartbeat", 0);

#[cfg(test)]
mod tests {
    use super::super::{Case, Occurrence, Outcome, RandomSource, Repair, run};
    use super::*;
    use pole_sim::MS;

    /// A process that forgets its vote, like one that does not write it to disk.
    struct Forgetful(Raft);

    impl Algorithm for Forgetful {
        type Message = Message;

        fn new(config: &ProcessConfig) -> Self {
            Self(Raft::new(config))
        }

        fn restarted(&self, config: &ProcessConfig) -> Self {
            Self(self.0.restarted(config))
        }

        fn step(&mut self, event: Event<Message>, out: &mut Actions<Message>) {
            if self.0.role == Role::Follower {
                self.0.voted = None;
            }
            self.0.step(event, out);
        }

        fn leads(&self) -> Option<u64> {
            self.0.leads()
        }

        fn known_leader(&self) -> Option<usize> {
            self.0.known_leader()
        }

        fn accepts(&self, leader: usize, generation: u64) -> bool {
            self.0.accepts(leader, generation)
        }
    }

    /// Two of three processes become candidates in the same term at the same time and ask the third.
    fn two_candidates<A: Algorithm>() -> Outcome {
        let mut case = Case::counting(3);
        case.random = RandomSource::First(0);
        case.occurrences.push((0, Occurrence::Elect(1)));
        case.occurrences.push((2 * case.timeout - 1, Occurrence::Elect(0)));
        (case.until, case.ends_settled) = (5 * case.timeout, false);
        assert_eq!(case.timeout, 5 * MS);
        run::<A>(&case, Repair::None, false)
    }

    #[test]
    fn the_checker_catches_a_process_that_votes_twice_in_a_term() {
        let honest = two_candidates::<Raft>();
        assert_eq!((honest.violations.len(), honest.leader.is_some()), (0, true));
        let forgetful = two_candidates::<Forgetful>();
        let violation = forgetful.violations.first().expect("two leaders in one term");
        assert_eq!(violation.leaders, [(0, vec![0, 2]), (1, vec![1, 2])]);
    }
}
