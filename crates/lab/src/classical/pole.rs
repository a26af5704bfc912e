//! POLE: the production election, as a process of the arena. An adapter, not a copy.
//!
//! In: the arena's events. Out: what `pole_election` puts out. The attribute is the score, turned round: there, smaller is
//! better.
//! Count, N processes, M = N - 1 of them alive and in the know at once, Q = N/2 + 1 a quorum, the best first: every
//! process proposes itself to N - 1 = M others, the M - 1 that are not best propose the best to all, and whoever hears a
//! worse choice answers once, (M - 1)^2 times in all: 3M^2 - 3M + 1 proposals. A process decides when Q hold the best, and
//! answers each proposal that comes after by a vote: the best M - Q, each other (M - Q) + (M - 1). Together
//! 5M^2 - (5 + Q)M + 2. Delays: own proposals, proposals of the best = 2: nobody waits for a timer.
//! Worst: no formula is claimed; the table shows the most that was seen.
//! Source: `crates/election`; Becker, Junqueira, Serafini 2011.

use pole_election::{
    Assessment, Cause, Config, Election, Epoch, Host, Output, Proposal, Rank, Round, Score, ServerId, Span, Standing,
    Timer as Named, Voters, Zxid,
};

use super::following::{Following, GATHER, Hail};
use super::{Acts, Algorithm, Event, Setting, Timer, Word, majority, others};

/// A server.
#[derive(Clone, Debug)]
pub(super) struct Pole {
    me: usize,
    n: usize,
    leader: Option<usize>,
    suspected: Vec<bool>,
    election: Election,
    host: Scored,
    following: Following,
}

/// What the server around an election answers.
#[derive(Clone, Debug)]
struct Scored {
    score: i64,
    round_trips: Vec<u64>,
}

#[derive(Clone, Debug)]
pub(super) enum Message {
    Election(Box<pole_election::Message>),
    Hail(Hail),
}

impl Word for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Election(message) => match **message {
                pole_election::Message::Propose(_) => "P",
                pole_election::Message::Vote(_) => "V",
            },
            Self::Hail(hail) => hail.name(),
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Election(message) => match &**message {
                pole_election::Message::Propose(propose) => {
                    format!("P {} r{}", place(propose.choice.id), propose.round)
                }
                pole_election::Message::Vote(vote) => format!("V {} r{}", place(vote.choice.id), vote.round),
            },
            Self::Hail(hail) => hail.label(),
        }
    }

    fn is_upkeep(&self) -> bool {
        matches!(self, Self::Hail(_))
    }
}

impl Host for Scored {
    fn assess(&mut self, _: u64) -> Option<Assessment> {
        let rank = Rank::Known(Score::from(self.score));
        Some(Assessment { rank, version: Zxid::ZERO, fingerprint: 1, inputs: Vec::new() })
    }

    fn standing(&self) -> Standing {
        Standing::default()
    }

    fn round_trip(&self, peer: ServerId) -> Option<Span> {
        self.round_trips.get(place(peer)).copied().map(Span)
    }

    /// No gossip in the arena.
    fn ranks_below(&self, _: ServerId, _: &Proposal) -> bool {
        false
    }

    fn validate(&self, _: &Proposal) -> Result<(), String> {
        Ok(())
    }
}

impl Algorithm for Pole {
    type Message = Message;

    fn new(setting: &Setting) -> Self {
        let voters = Voters::new((0..setting.n).map(id));
        let config = Config { timeout: Span(setting.timeout), ..Config::new(id(setting.me), voters) };
        Self {
            me: setting.me,
            n: setting.n,
            leader: setting.leader,
            suspected: vec![false; setting.n],
            election: Election::new(config),
            host: Scored { score: -(setting.attribute as i64), round_trips: setting.round_trips.clone() },
            following: Following::new(setting),
        }
    }

    fn reborn(&self, setting: &Setting) -> Self {
        Self::new(setting)
    }

    fn step(&mut self, event: Event<Message>, out: &mut Acts<Message>) {
        match event {
            Event::Start => self.starts(),
            Event::Elect => self.calls(Cause::Start, out),
            Event::Suspects(other) => {
                self.suspected[other] = true;
                let trusted = self.suspected.iter().filter(|is| !**is).count();
                if self.believes() == Some(other) {
                    self.calls(Cause::LeaderLost, out);
                } else if self.leads().is_some() && trusted < majority(self.n) {
                    self.calls(Cause::QuorumLost, out);
                }
                self.elects(out, |election, host, outputs| election.link_down(id(other), host, outputs));
            }
            Event::Trusts(other) => {
                self.suspected[other] = false;
                self.elects(out, |election, _, outputs| {
                    election.link_up(id(other));
                    election.propose_to(id(other), outputs);
                });
            }
            Event::Received { from, message: Message::Election(message) } => {
                self.elects(out, |election, host, outputs| {
                    // What the arena carries comes from elections of the same ensemble, so it is never refused.
                    let _ = election.receive(id(from), *message, host, outputs);
                });
            }
            Event::Received { from, message: Message::Hail(hail) } => {
                let leads = self.leads().is_some();
                if !self.follows(out, |following, out| following.hailed(from, &hail, out)) {
                    self.calls(if leads { Cause::QuorumLost } else { Cause::LeaderLost }, out);
                }
            }
            Event::Expired(timer) if timer == GATHER => {
                // As the service does: whoever was chosen and could not lead is passed over for a while.
                if let Some(leader) = self.election.leader() {
                    self.elects(out, |election, host, outputs| election.demote(leader, host, outputs));
                }
                self.calls(Cause::Retry, out);
            }
            Event::Expired(timer) => {
                let named = NAMES.iter().find(|(_, name)| *name == timer).map(|(named, _)| *named);
                if let Some(named) = named {
                    self.elects(out, |election, host, outputs| election.expired(named, host, outputs));
                }
            }
        }
    }

    fn leads(&self) -> Option<u64> {
        let round = self.election.round();
        (self.believes() == Some(self.me)).then_some(round.epoch << 16 | u64::from(round.failed))
    }

    fn believes(&self) -> Option<usize> {
        self.election.leader().map(place)
    }

    /// A server takes part in the broadcast of the one leader that it has, and of no other.
    fn accepts(&self, leader: usize, _: u64) -> bool {
        self.believes() == Some(leader)
    }
}

impl Pole {
    /// All links are open; the leader, if there is one, is established in the first epoch.
    fn starts(&mut self) {
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

    fn calls(&mut self, cause: Cause, out: &mut Acts<Message>) {
        self.follows(out, Following::electing);
        self.elects(out, |election, host, outputs| election.start(cause, host, outputs));
    }

    fn elects(&mut self, out: &mut Acts<Message>, act: impl FnOnce(&mut Election, &mut Scored, &mut Vec<Output>)) {
        let mut outputs = Vec::new();
        act(&mut self.election, &mut self.host, &mut outputs);
        for output in outputs {
            match output {
                Output::Send { to, message } => out.send(place(to), Message::Election(Box::new(message))),
                Output::Arm { timer, after } => out.arm(named(timer), after.0),
                Output::Cancel(timer) => out.cancel(named(timer)),
                Output::Elected(elected) => {
                    self.follows(out, |following, out| following.chosen(place(elected.leader), out));
                }
                // Scores here are plain numbers.
                Output::Invalid { .. } => {}
            }
        }
    }

    fn follows<T>(&mut self, out: &mut Acts<Message>, act: impl FnOnce(&mut Following, &mut Acts<Hail>) -> T) -> T {
        let mut acts = Acts::new();
        let answer = act(&mut self.following, &mut acts);
        out.extend(acts, Message::Hail);
        if self.following.is_established() {
            // The epoch that the agreement would give it; here, the number of the round.
            self.election.established(Epoch(self.election.round().epoch as u32));
        }
        answer
    }
}

fn id(place: usize) -> ServerId {
    ServerId(place as u64 + 1)
}

fn place(id: ServerId) -> usize {
    id.0 as usize - 1
}

fn named(timer: Named) -> Timer {
    match timer {
        Named::Wait => WAIT,
        Named::Retry => RETRY,
        Named::Score => SCORE,
    }
}

const WAIT: Timer = Timer("no more proposals", 0);
const RETRY: Timer = Timer("propose again", 0);
const SCORE: Timer = Timer("no score", 0);
const NAMES: [(Named, Timer); 3] = [(Named::Wait, WAIT), (Named::Retry, RETRY), (Named::Score, SCORE)];
