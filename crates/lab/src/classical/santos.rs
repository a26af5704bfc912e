//! Latency-aware rotation: a rotating coordinator that gives way to whoever is better, until nobody is.
//!
//! In: as `rotating`, and how good each process would be. Out: as `rotating`; Better from those who would be better than
//! the leader, and Next from a leader that gives way to the first of them in the order of rotation.
//! Why: finds the leader of least consensus latency, without knowing all figures beforehand. Its price is the elections
//! in between, each with the recovery that comes after an election.
//! Count, N processes, M = N - 1 of them alive and in the know: best, if the first in turn is the best, 2N - 3 messages and
//! three delays: Support, Lead, and the wait that nobody is better. Worst, if each in turn is better than the one before:
//! M elections; the first costs 2M - 1, the k-th after it M - k Better, M Next, M - 1 Support and M Lead: (7M^2 - 5M)/2 in
//! all; and 3 + 4(M - 1) delays: Support, Lead, the wait for Better; then each time Next and the same again.
//! Source: Santos, Hutle, Schiper 2009, in the short form in which the paper on POLE tells it (section 6).

use std::collections::BTreeSet;

use super::rotating::{self, Rotating};
use super::{Acts, Algorithm, Event, Setting, Timer, Word, others};

/// A process.
#[derive(Clone, Debug)]
pub(super) struct Santos {
    me: usize,
    n: usize,
    attribute: u64,
    timeout: u64,
    turns: Rotating,
    /// While we lead and wait to hear of them: who would be better.
    better: Option<BTreeSet<usize>>,
}

#[derive(Clone, Debug)]
pub(super) enum Message {
    Turn(rotating::Message),
    /// I would be better than you.
    Better {
        round: u64,
    },
    /// I give way: on to this round.
    Next {
        round: u64,
    },
}

impl Word for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Turn(message) => message.name(),
            Self::Better { .. } => "Better",
            Self::Next { .. } => "Next",
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Turn(message) => message.label(),
            Self::Better { round } | Self::Next { round } => format!("{} r{round}", self.name()),
        }
    }
}

impl Algorithm for Santos {
    type Message = Message;

    fn new(setting: &Setting) -> Self {
        Self {
            me: setting.me,
            n: setting.n,
            attribute: setting.attribute,
            timeout: setting.timeout,
            turns: Rotating::new(setting),
            better: None,
        }
    }

    fn reborn(&self, setting: &Setting) -> Self {
        Self { turns: self.turns.reborn(setting), ..Self::new(setting) }
    }

    fn step(&mut self, event: Event<Message>, out: &mut Acts<Message>) {
        match event {
            Event::Start => self.turn(Event::Start, out),
            Event::Elect => self.turn(Event::Elect, out),
            Event::Suspects(other) => self.turn(Event::Suspects(other), out),
            Event::Trusts(other) => self.turn(Event::Trusts(other), out),
            Event::Received { from, message: Message::Turn(message) } => {
                let announced = match message {
                    rotating::Message::Lead { round, attribute } => Some((round, attribute)),
                    rotating::Message::Support { .. } | rotating::Message::Later { .. } => None,
                };
                self.turn(Event::Received { from, message }, out);
                if let Some((round, attribute)) = announced
                    && self.turns.believes() == Some(from)
                    && self.attribute > attribute
                {
                    out.send(from, Message::Better { round });
                }
            }
            Event::Received { from, message: Message::Better { round } } => {
                if let Some(better) = &mut self.better
                    && self.turns.leads() == Some(round)
                {
                    better.insert(from);
                }
            }
            Event::Received { message: Message::Next { round }, .. } => self.goes_to(round, out),
            Event::Expired(timer) if timer == COMPARE => self.compares(out),
            Event::Expired(timer) => self.turn(Event::Expired(timer), out),
        }
    }

    fn leads(&self) -> Option<u64> {
        self.turns.leads()
    }

    fn believes(&self) -> Option<usize> {
        self.turns.believes()
    }

    fn accepts(&self, leader: usize, round: u64) -> bool {
        self.turns.accepts(leader, round)
    }

    /// The leader does not know yet whether it is the last.
    fn done(&self) -> bool {
        self.better.is_none()
    }
}

impl Santos {
    fn turn(&mut self, event: Event<rotating::Message>, out: &mut Acts<Message>) {
        let led = self.turns.leads();
        let mut acts = Acts::new();
        self.turns.step(event, &mut acts);
        out.extend(acts, Message::Turn);
        match self.turns.leads() {
            None => self.better = None,
            leads if leads != led => {
                self.better = Some(BTreeSet::new());
                out.arm(COMPARE, self.timeout);
            }
            Some(_) => {}
        }
    }

    /// Whoever is better has said so: on to the first of them after us.
    fn compares(&mut self, out: &mut Acts<Message>) {
        let Some(better) = self.better.take() else { return };
        let next = better.into_iter().map(|process| self.turns.next_round_of(process)).min();
        if let Some(round) = next {
            out.send_all(others(self.me, self.n), Message::Next { round });
            // As everybody else does, after Next.
            out.then();
            self.goes_to(round, out);
        }
    }

    fn goes_to(&mut self, round: u64, out: &mut Acts<Message>) {
        let mut acts = Acts::new();
        self.turns.enters(round, &mut acts);
        out.extend(acts, Message::Turn);
        if self.turns.leads().is_none() {
            self.better = None;
        }
    }
}

const COMPARE: Timer = Timer("nobody else is better", 0);
