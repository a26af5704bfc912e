//! POLE: an adapter that runs the production election as a process of the simulation.
//!
//! The attribute is the negated score, since a smaller score is better.
//!
//! Count for N processes, of which M = N - 1 run and detect the failure at the same time, with the best first;
//! Q = N/2 + 1 is a quorum. Every process proposes itself to N - 1 = M others, the M - 1 that are not best propose
//! the best to all, and each process answers a worse choice once, (M - 1)^2 times in all: 3M^2 - 3M + 1 proposals. A
//! process decides when Q hold the best, and answers each later proposal by a vote: the best M - Q, each other
//! (M - Q) + (M - 1). The M - 1 that are not best also send the best a vote when they decide, because a voter is missing.
//! Together 5M^2 - (4 + Q)M + 1. Delays: own proposals, proposals of the best = 2; no timer is involved. For the worst
//! case no formula is claimed; the table shows the largest count.
//!
//! Source: `crates/election`; Becker, Junqueira, Serafini 2011.

use pole_election::{
    Assessment, Cause, Config, Election, Host, Output, Proposal, Rank, Round, Score, Standing, Timer as ElectionTimer,
};
use pole_types::{Epoch, ServerId, Span, Voters, Zxid};

use super::following::{FollowMessage, Following, GATHER};
use super::{Actions, Algorithm, AlgorithmMessage, Event, ProcessConfig, Timer, majority, others};

#[derive(Clone, Debug)]
pub(super) struct Pole {
    me: usize,
    n: usize,
    leader: Option<usize>,
    suspected: Vec<bool>,
    election: Election,
    host: ElectionHost,
    following: Following,
}

/// Implements the callbacks of the election.
#[derive(Clone, Debug)]
struct ElectionHost {
    score: i64,
    round_trips: Vec<u64>,
}

#[derive(Clone, Debug)]
pub(super) enum Message {
    Election(Box<pole_election::Message>),
    Following(FollowMessage),
}

impl AlgorithmMessage for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Election(message) => match **message {
                pole_election::Message::Propose(_) => "P",
                pole_election::Message::Vote(_) => "V",
                pole_election::Message::Ask => "Ask",
            },
            Self::Following(follow_message) => follow_message.name(),
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Election(message) => match &**message {
                pole_election::Message::Propose(propose) => {
                    format!("P {} r{}", index_of(propose.choice.id), propose.round)
                }
                pole_election::Message::Vote(vote) => format!("V {} r{}", index_of(vote.choice.id), vote.round),
                pole_election::Message::Ask => "Ask".to_owned(),
            },
            Self::Following(follow_message) => follow_message.label(),
        }
    }

    fn is_upkeep(&self) -> bool {
        matches!(self, Self::Following(_))
    }
}

impl Host for ElectionHost {
    fn assess(&mut self, _: u64) -> Option<Assessment> {
        let rank = Rank::Known(Score::from(self.score));
        Some(Assessment { rank, version: Zxid::ZERO, fingerprint: 1, inputs: Vec::new() })
    }

    fn standing(&self) -> Standing {
        Standing::default()
    }

    fn round_trip(&self, peer: ServerId) -> Option<Span> {
        self.round_trips.get(index_of(peer)).copied().map(Span)
    }

    /// There is no gossip in this simulation.
    fn ranks_below(&self, _: ServerId, _: &Proposal) -> bool {
        false
    }

    fn validate(&self, _: &Proposal) -> Result<(), String> {
        Ok(())
    }
}

impl Algorithm for Pole {
    type Message = Message;

    fn new(config: &ProcessConfig) -> Self {
        let voters = Voters::new((0..config.n).map(id));
        let election_config = Config { timeout: Span(config.timeout), ..Config::new(id(config.me), voters) };
        Self {
            me: config.me,
            n: config.n,
            leader: config.leader,
            suspected: vec![false; config.n],
            election: Election::new(election_config),
            host: ElectionHost { score: -(config.attribute as i64), round_trips: config.round_trips.clone() },
            following: Following::new(config),
        }
    }

    fn restarted(&self, config: &ProcessConfig) -> Self {
        Self::new(config)
    }

    fn step(&mut self, event: Event<Message>, out: &mut Actions<Message>) {
        match event {
            Event::Start => self.init(),
            Event::Elect => self.start_election(Cause::Start, out),
            Event::Suspects(other) => {
                self.suspected[other] = true;
                let trusted = self.suspected.iter().filter(|is| !**is).count();
                if self.known_leader() == Some(other) {
                    self.start_election(Cause::LeaderLost, out);
                } else if self.leads().is_some() && trusted < majority(self.n) {
                    self.start_election(Cause::QuorumLost, out);
                }
                self.with_election(out, |election, host, outputs| election.link_down(id(other), host, outputs));
            }
            Event::Trusts(other) => {
                self.suspected[other] = false;
                self.with_election(out, |election, _, outputs| {
                    election.link_up(id(other));
                    election.propose_to(id(other), outputs);
                });
            }
            Event::Received { from, message: Message::Election(message) } => {
                self.with_election(out, |election, host, outputs| {
                    // All messages come from elections of the same ensemble, so none is refused.
                    let _ = election.receive(id(from), *message, host, outputs);
                });
            }
            Event::Received { from, message: Message::Following(follow_message) } => {
                let leads = self.leads().is_some();
                if !self.with_following(out, |following, out| following.receive(from, &follow_message, out)) {
                    self.start_election(if leads { Cause::QuorumLost } else { Cause::LeaderLost }, out);
                }
            }
            Event::Expired(timer) if timer == GATHER => {
                // As in the service, an elected server that could not lead is demoted for a while.
                if let Some(leader) = self.election.leader() {
                    self.with_election(out, |election, host, outputs| election.demote(leader, host, outputs));
                }
                self.start_election(Cause::Retry, out);
            }
            Event::Expired(timer) => {
                let election_timer =
                    NAMES.iter().find(|(_, name)| *name == timer).map(|(election_timer, _)| *election_timer);
                if let Some(election_timer) = election_timer {
                    self.with_election(out, |election, host, outputs| election.expired(election_timer, host, outputs));
                }
            }
        }
    }

    fn leads(&self) -> Option<u64> {
        let round = self.election.round();
        (self.known_leader() == Some(self.me)).then_some(round.epoch << 16 | u64::from(round.failed))
    }

    fn known_leader(&self) -> Option<usize> {
        self.election.leader().map(index_of)
    }

    /// A server takes part only in the broadcast of its own leader.
    fn accepts(&self, leader: usize, _: u64) -> bool {
        self.known_leader() == Some(leader)
    }
}

impl Pole {
    /// Opens all links. The leader, if there is one, is established in the first epoch.
    fn init(&mut self) {
        others(self.me, self.n).for_each(|other| self.election.link_up(id(other)));
        if let Some(leader) = self.leader {
            let choice = Proposal {
                id: id(leader),
                rank: Rank::Unknown,
                version: Zxid::ZERO,
                fingerprint: 0,
                standing: Standing::default(),
                inputs: Vec::new(),
            };
            self.election.adopt(Round { epoch: 1, failed: 0 }, choice);
            self.election.established(Epoch(1));
        }
    }

    fn start_election(&mut self, cause: Cause, out: &mut Actions<Message>) {
        self.with_following(out, Following::election_started);
        self.with_election(out, |election, host, outputs| election.start(cause, host, outputs));
    }

    fn with_election(
        &mut self,
        out: &mut Actions<Message>,
        act: impl FnOnce(&mut Election, &mut ElectionHost, &mut Vec<Output>),
    ) {
        let mut outputs = Vec::new();
        act(&mut self.election, &mut self.host, &mut outputs);
        for output in outputs {
            match output {
                Output::Send { to, message } => out.send(index_of(to), Message::Election(Box::new(message))),
                Output::Arm { timer, after } => out.arm(timer_for(timer), after.0),
                Output::Cancel(timer) => out.cancel(timer_for(timer)),
                Output::Elected(elected) => {
                    self.with_following(out, |following, out| following.elected(index_of(elected.leader), out));
                }
                // Scores are plain numbers here and never invalid.
                Output::Invalid { .. } => {}
            }
        }
    }

    fn with_following<T>(
        &mut self,
        out: &mut Actions<Message>,
        act: impl FnOnce(&mut Following, &mut Actions<FollowMessage>) -> T,
    ) -> T {
        let mut actions = Actions::new();
        let answer = act(&mut self.following, &mut actions);
        out.extend(actions, Message::Following);
        if self.following.is_established() {
            // Stands for the epoch that the agreement would assign.
            self.election.established(Epoch(self.election.round().epoch as u32));
        }
        answer
    }
}

fn id(index: usize) -> ServerId {
    ServerId(index as u64 + 1)
}

fn index_of(id: ServerId) -> usize {
    id.0 as usize - 1
}

fn timer_for(timer: ElectionTimer) -> Timer {
    match timer {
        ElectionTimer::Wait => WAIT,
        ElectionTimer::Retry => RETRY,
        ElectionTimer::Score => SCORE,
    }
}

const WAIT: Timer = Timer("no more proposals", 0);
const RETRY: Timer = Timer("propose again", 0);
const SCORE: Timer = Timer("no score", 0);
const NAMES: [(ElectionTimer, Timer); 3] =
    [(ElectionTimer::Wait, WAIT), (ElectionTimer::Retry, RETRY), (ElectionTimer::Score, SCORE)];
