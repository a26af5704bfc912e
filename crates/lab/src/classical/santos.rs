//! Latency-aware rotation: a rotating coordinator that resigns in favour of a better process until none is better.
//!
//! In addition to the messages of `rotating`, processes that would be better than the leader send Better, and a
//! leader that resigns sends Next, with the round of the first of them in the order of rotation.
//!
//! It finds the leader with the lowest consensus latency without knowing all latencies beforehand, at the price of the
//! elections in between, each followed by a recovery.
//!
//! Count for N processes, of which M = N - 1 run and know of the failure. Best, if the first in turn is the best:
//! 2N - 3 messages and three delays: Support, Lead, and the wait for better processes. Worst, if each in turn is
//! better than the one before: M elections; the first costs 2M - 1, the k-th after it M - k Better, M Next, M - 1
//! Support and M Lead: (7M^2 - 5M)/2 in all; and 3 + 4(M - 1) delays: Support, Lead, the wait for Better; then each
//! time Next and the same again.
//!
//! Source: Santos, Hutle, Schiper 2009, in the short form given by the paper on POLE (section 6).

use std::collections::BTreeSet;

use super::rotating::{self, Rotating};
use super::{Actions, Algorithm, AlgorithmMessage, Event, ProcessConfig, Timer, others};

#[derive(Clone, Debug)]
pub(super) struct Santos {
    me: usize,
    n: usize,
    attribute: u64,
    timeout: u64,
    rotation: Rotating,
    /// The better processes known so far, while we lead and wait for them.
    better: Option<BTreeSet<usize>>,
}

#[derive(Clone, Debug)]
pub(super) enum Message {
    Rotation(rotating::Message),
    /// The sender would be a better leader.
    Better {
        round: u64,
    },
    /// The leader resigns: move to this round.
    Next {
        round: u64,
    },
}

impl AlgorithmMessage for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Rotation(message) => message.name(),
            Self::Better { .. } => "Better",
            Self::Next { .. } => "Next",
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Rotation(message) => message.label(),
            Self::Better { round } | Self::Next { round } => format!("{} r{round}", self.name()),
        }
    }
}

impl Algorithm for Santos {
    type Message = Message;

    fn new(config: &ProcessConfig) -> Self {
        Self {
            me: config.me,
            n: config.n,
            attribute: config.attribute,
            timeout: config.timeout,
            rotation: Rotating::new(config),
            better: None,
        }
    }

    fn restarted(&self, config: &ProcessConfig) -> Self {
        Self { rotation: self.rotation.restarted(config), ..Self::new(config) }
    }

    fn step(&mut self, event: Event<Message>, out: &mut Actions<Message>) {
        match event {
            Event::Start => self.step_rotation(Event::Start, out),
            Event::Elect => self.step_rotation(Event::Elect, out),
            Event::Suspects(other) => self.step_rotation(Event::Suspects(other), out),
            Event::Trusts(other) => self.step_rotation(Event::Trusts(other), out),
            Event::Received { from, message: Message::Rotation(message) } => {
                let announced = match message {
                    rotating::Message::Lead { round, attribute } => Some((round, attribute)),
                    rotating::Message::Support { .. } | rotating::Message::Later { .. } => None,
                };
                self.step_rotation(Event::Received { from, message }, out);
                if let Some((round, attribute)) = announced
                    && self.rotation.known_leader() == Some(from)
                    && self.attribute > attribute
                {
                    out.send(from, Message::Better { round });
                }
            }
            Event::Received { from, message: Message::Better { round } } => {
                if let Some(better) = &mut self.better
                    && self.rotation.leads() == Some(round)
                {
                    better.insert(from);
                }
            }
            Event::Received { message: Message::Next { round }, .. } => self.enter_round(round, out),
            Event::Expired(timer) if timer == COMPARE => self.compare(out),
            Event::Expired(timer) => self.step_rotation(Event::Expired(timer), out),
        }
    }

    fn leads(&self) -> Option<u64> {
        self.rotation.leads()
    }

    fn known_leader(&self) -> Option<usize> {
        self.rotation.known_leader()
    }

    fn accepts(&self, leader: usize, round: u64) -> bool {
        self.rotation.accepts(leader, round)
    }

    /// Not done while the leader waits for better processes.
    fn done(&self) -> bool {
        self.better.is_none()
    }
}

impl Santos {
    fn step_rotation(&mut self, event: Event<rotating::Message>, out: &mut Actions<Message>) {
        let led = self.rotation.leads();
        let mut actions = Actions::new();
        self.rotation.step(event, &mut actions);
        out.extend(actions, Message::Rotation);
        match self.rotation.leads() {
            None => self.better = None,
            leads if leads != led => {
                self.better = Some(BTreeSet::new());
                out.arm(COMPARE, self.timeout);
            }
            Some(_) => {}
        }
    }

    /// The wait for better processes is over: resigns in favour of the first one in the order of rotation.
    fn compare(&mut self, out: &mut Actions<Message>) {
        let Some(better) = self.better.take() else { return };
        let next = better.into_iter().map(|process| self.rotation.next_round_of(process)).min();
        if let Some(round) = next {
            out.send_all(others(self.me, self.n), Message::Next { round });
            // Like all others, we move after Next.
            out.next_delay();
            self.enter_round(round, out);
        }
    }

    fn enter_round(&mut self, round: u64, out: &mut Actions<Message>) {
        let mut actions = Actions::new();
        self.rotation.enter_round(round, &mut actions);
        out.extend(actions, Message::Rotation);
        if self.rotation.leads().is_none() {
            self.better = None;
        }
    }
}

const COMPARE: Timer = Timer("nobody else is better", 0);
