//! Fast leader election of ZooKeeper: all processes send their vote to all others until a majority agrees.
//!
//! Votes are ordered by (epoch, zxid, id); the attribute stands for epoch and zxid. It terminates because votes only
//! grow in this order. After a majority agrees, a final wait allows for a better vote. For safety see `following`.
//!
//! Count for N processes, of which M = N - 1 run and detect the failure at the same time; each notification goes to
//! N - 1 others. Best: the best vote arrives first everywhere: M first votes and M - 1 second ones, (2M - 1)(N - 1)
//! messages. Worst: votes arrive from the worst to the best, and process i changes its vote M - 1 - i times:
//! M(M + 1)/2 votes in all, times N - 1: N(N - 1)^2/2. Delays: first vote, second vote, final wait = 3.
//!
//! Source: Medeiros 2012, and the behaviour of Apache ZooKeeper 3.8.

use std::collections::BTreeMap;

use super::following::{FollowMessage, Following, GATHER};
use super::{Actions, Algorithm, AlgorithmMessage, Event, ProcessConfig, Timer, majority, others};

#[derive(Clone, Debug)]
pub(super) struct Fle {
    me: usize,
    n: usize,
    timeout: u64,
    own: Vote,
    suspected: Vec<bool>,
    round: u64,
    vote: Vote,
    stage: Stage,
    following: Following,
}

/// Ordered by attribute, then by id; greater is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Vote {
    attribute: u64,
    id: usize,
}

#[derive(Clone, Debug)]
enum Stage {
    Looking {
        /// The votes of this round.
        votes: BTreeMap<usize, Vote>,
        /// The leaders of processes that are not looking, with the rounds in which they were elected.
        settled: BTreeMap<usize, (usize, u64)>,
        /// A majority has our vote, and the final wait has started.
        waiting: bool,
    },
    Settled,
}

#[derive(Clone, Debug)]
pub(super) enum Message {
    Notification { round: u64, vote: Vote, looking: bool },
    Following(FollowMessage),
}

impl AlgorithmMessage for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Notification { .. } => "Notification",
            Self::Following(follow_message) => follow_message.name(),
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Notification { round, vote, looking: true } => format!("Vote {} r{round}", vote.id),
            Self::Notification { round, vote, looking: false } => format!("Leader {} r{round}", vote.id),
            Self::Following(follow_message) => follow_message.label(),
        }
    }

    fn is_upkeep(&self) -> bool {
        matches!(self, Self::Following(_))
    }
}

impl Algorithm for Fle {
    type Message = Message;

    fn new(config: &ProcessConfig) -> Self {
        let own = Vote { attribute: config.attribute, id: config.me };
        let looking = Stage::Looking { votes: BTreeMap::new(), settled: BTreeMap::new(), waiting: false };
        Self {
            me: config.me,
            n: config.n,
            timeout: config.timeout,
            own,
            suspected: vec![false; config.n],
            round: u64::from(config.leader.is_some()),
            vote: config.leader.map_or(own, |id| Vote { attribute: config.attribute, id }),
            stage: if config.leader.is_some() { Stage::Settled } else { looking },
            following: Following::new(config),
        }
    }

    fn restarted(&self, config: &ProcessConfig) -> Self {
        Self::new(config)
    }

    fn step(&mut self, event: Event<Message>, out: &mut Actions<Message>) {
        match event {
            Event::Start => {}
            Event::Elect => self.start_election(out),
            Event::Suspects(other) => {
                self.suspected[other] = true;
                let leads = self.leads().is_some();
                let trusted = self.suspected.iter().filter(|is| !**is).count();
                let is_lost = self.known_leader() == Some(other) || (leads && trusted < majority(self.n));
                if is_lost {
                    self.start_election(out);
                }
            }
            Event::Trusts(other) => {
                self.suspected[other] = false;
                if matches!(self.stage, Stage::Looking { .. }) {
                    out.send(other, self.notification());
                }
            }
            Event::Received { from, message: Message::Following(follow_message) } => {
                if !self.with_following(out, |following, out| following.receive(from, &follow_message, out)) {
                    self.start_election(out);
                }
            }
            Event::Received { from, message: Message::Notification { round, vote, looking } } => match &self.stage {
                Stage::Settled if looking => out.send(from, self.notification()),
                Stage::Settled => {}
                Stage::Looking { .. } if looking => self.receive_vote(from, round, vote, out),
                Stage::Looking { .. } => self.receive_leader(from, round, vote, out),
            },
            Event::Expired(timer) if timer == FINAL => self.settle(self.vote.id, out),
            Event::Expired(timer) if timer == GATHER => self.start_election(out),
            Event::Expired(_) => {
                if matches!(self.stage, Stage::Looking { .. }) {
                    self.broadcast(out);
                    out.arm(RETRY, 2 * self.timeout);
                }
            }
        }
    }

    fn leads(&self) -> Option<u64> {
        (self.known_leader() == Some(self.me)).then_some(self.round)
    }

    fn known_leader(&self) -> Option<usize> {
        matches!(self.stage, Stage::Settled).then_some(self.vote.id)
    }

    /// A process takes part only in the actions of its own leader.
    fn accepts(&self, leader: usize, _: u64) -> bool {
        self.known_leader() == Some(leader)
    }
}

impl Fle {
    fn start_election(&mut self, out: &mut Actions<Message>) {
        self.with_following(out, Following::election_started);
        out.cancel(FINAL);
        self.round += 1;
        self.vote = self.own;
        self.stage = Stage::Looking { votes: BTreeMap::new(), settled: BTreeMap::new(), waiting: false };
        self.broadcast(out);
        out.arm(RETRY, 2 * self.timeout);
    }

    fn receive_vote(&mut self, from: usize, round: u64, vote: Vote, out: &mut Actions<Message>) {
        if round < self.round {
            return out.send(from, self.notification());
        }
        let Stage::Looking { votes, .. } = &mut self.stage else { return };
        let better = if round > self.round {
            votes.clear();
            self.round = round;
            Some(vote.max(self.own))
        } else {
            Some(vote).filter(|vote| *vote > self.vote)
        };
        votes.insert(from, vote);
        if let Some(better) = better {
            self.change_vote(better, out);
        }
        self.count_votes(out);
    }

    /// Handles a notification of a process that has a leader.
    fn receive_leader(&mut self, from: usize, round: u64, vote: Vote, out: &mut Actions<Message>) {
        let Stage::Looking { votes, settled, .. } = &mut self.stage else { return };
        settled.insert(from, (vote.id, round));
        let named = settled.values().filter(|(leader, _)| *leader == vote.id).count();
        // The leader itself must be among them, or a crashed leader would be followed again.
        let confirmed = settled.get(&vote.id).is_some_and(|(leader, _)| *leader == vote.id);
        if named >= majority(self.n) && confirmed && !self.suspected[vote.id] {
            self.round = round;
            self.vote = vote;
            return self.settle(vote.id, out);
        }
        if round == self.round && !self.suspected[vote.id] {
            votes.insert(from, vote);
            if vote > self.vote {
                self.change_vote(vote, out);
            }
            self.count_votes(out);
        }
    }

    fn change_vote(&mut self, vote: Vote, out: &mut Actions<Message>) {
        self.vote = vote;
        if let Stage::Looking { waiting, .. } = &mut self.stage {
            *waiting = false;
            out.cancel(FINAL);
        }
        self.broadcast(out);
    }

    /// Starts the final wait once a majority has our vote.
    fn count_votes(&mut self, out: &mut Actions<Message>) {
        let Stage::Looking { votes, waiting, .. } = &mut self.stage else { return };
        let same = votes.values().filter(|vote| **vote == self.vote).count() + 1;
        if same >= majority(self.n) && !*waiting {
            *waiting = true;
            out.arm(FINAL, self.timeout);
        }
    }

    fn settle(&mut self, leader: usize, out: &mut Actions<Message>) {
        self.stage = Stage::Settled;
        out.cancel(FINAL);
        out.cancel(RETRY);
        self.with_following(out, |following, out| following.elected(leader, out));
    }

    fn broadcast(&self, out: &mut Actions<Message>) {
        out.send_all(others(self.me, self.n), self.notification());
    }

    fn notification(&self) -> Message {
        let looking = matches!(self.stage, Stage::Looking { .. });
        Message::Notification { round: self.round, vote: self.vote, looking }
    }

    fn with_following<T>(
        &mut self,
        out: &mut Actions<Message>,
        act: impl FnOnce(&mut Following, &mut Actions<FollowMessage>) -> T,
    ) -> T {
        let mut actions = Actions::new();
        let answer = act(&mut self.following, &mut actions);
        out.extend(actions, Message::Following);
        answer
    }
}

const FINAL: Timer = Timer("no better vote", 0);
const RETRY: Timer = Timer("tell again", 0);
