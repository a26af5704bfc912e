//! The rotating coordinator: round r belongs to process r mod N; a process that suspects its coordinator moves to the
//! next round.
//!
//! Processes send Support to the coordinator of the round, which sends Lead once it has a majority. Safety: a
//! coordinator leads after a majority has entered its round, and none of them accepts an earlier one any more.
//!
//! Count for N processes, the old leader crashed and all know it: N - 2 Support, N - 1 Lead = 2N - 3. Delays:
//! Support, Lead = 2. There is no other schedule, so best and worst are the same.
//!
//! Source: the coordinator of Chandra and Toueg 1996, without the value that they agree on.

use std::collections::BTreeSet;

use super::{Actions, Algorithm, AlgorithmMessage, Event, ProcessConfig, Timer, majority, others};

#[derive(Clone, Debug)]
pub(super) struct Rotating {
    me: usize,
    n: usize,
    attribute: u64,
    timeout: u64,
    suspected: BTreeSet<usize>,
    /// The current round; earlier ones are not accepted. Durable.
    round: u64,
    /// Whether, as far as we know, the coordinator of the round leads.
    led: bool,
    /// Our supporters, if we coordinate this round.
    supporters: BTreeSet<usize>,
}

#[derive(Clone, Debug)]
pub(super) enum Message {
    Support {
        round: u64,
    },
    /// The attribute is used by `santos`.
    Lead {
        round: u64,
        attribute: u64,
    },
    /// Rejects an old round with a later one.
    Later {
        round: u64,
    },
}

impl AlgorithmMessage for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Support { .. } => "Support",
            Self::Lead { .. } => "Lead",
            Self::Later { .. } => "Later",
        }
    }

    fn label(&self) -> String {
        let (Self::Support { round } | Self::Lead { round, .. } | Self::Later { round }) = self;
        format!("{} r{round}", self.name())
    }
}

impl Algorithm for Rotating {
    type Message = Message;

    fn new(config: &ProcessConfig) -> Self {
        Self {
            me: config.me,
            n: config.n,
            attribute: config.attribute,
            timeout: config.timeout,
            suspected: BTreeSet::new(),
            round: config.leader.unwrap_or(0) as u64,
            led: config.leader.is_some(),
            supporters: BTreeSet::new(),
        }
    }

    fn restarted(&self, config: &ProcessConfig) -> Self {
        Self { round: self.round, ..Self::new(config) }
    }

    fn step(&mut self, event: Event<Message>, out: &mut Actions<Message>) {
        match event {
            Event::Start => {}
            Event::Elect => self.next_round(out),
            Event::Suspects(other) => {
                self.suspected.insert(other);
                if self.coordinator() == other {
                    self.next_round(out);
                }
            }
            Event::Trusts(other) => {
                self.suspected.remove(&other);
                if self.leads().is_some() {
                    out.send(other, self.lead());
                }
            }
            Event::Received { from, message } => self.receive(from, &message, out),
            Event::Expired(_) => {
                if !self.led {
                    if self.coordinator() == self.me {
                        // A majority is missing: the others may not know of the round.
                        out.send_all(others(self.me, self.n), Message::Later { round: self.round });
                    }
                    self.send_support(out);
                }
            }
        }
    }

    fn leads(&self) -> Option<u64> {
        (self.led && self.coordinator() == self.me).then_some(self.round)
    }

    fn known_leader(&self) -> Option<usize> {
        self.led.then(|| self.coordinator())
    }

    fn accepts(&self, leader: usize, round: u64) -> bool {
        round >= self.round && self.coordinator_of(round) == leader
    }
}

impl Rotating {
    /// The next round whose coordinator is this process.
    pub(super) fn next_round_of(&self, process: usize) -> u64 {
        (self.round + 1..).find(|round| self.coordinator_of(*round) == process).unwrap_or(self.round)
    }

    pub(super) fn enter_round(&mut self, round: u64, out: &mut Actions<Message>) {
        if round > self.round || !self.led {
            self.round = round.max(self.round);
            self.led = false;
            self.supporters.clear();
            self.send_support(out);
        }
    }

    fn receive(&mut self, from: usize, message: &Message, out: &mut Actions<Message>) {
        match *message {
            Message::Support { round } => {
                if round < self.round {
                    return out.send(from, Message::Later { round: self.round });
                }
                if round > self.round {
                    self.enter_round(round, out);
                }
                self.receive_support(from, out);
            }
            Message::Lead { round, .. } if round < self.round => out.send(from, Message::Later { round: self.round }),
            Message::Lead { round, .. } => {
                self.round = round;
                self.led = true;
                out.cancel(SUPPORT);
            }
            Message::Later { round } => {
                if round > self.round {
                    self.enter_round(round, out);
                }
            }
        }
    }

    /// Moves to the next round whose coordinator is not suspected.
    fn next_round(&mut self, out: &mut Actions<Message>) {
        let rounds = self.round + 1..=self.round + self.n as u64;
        let next = rounds.into_iter().find(|round| !self.suspected.contains(&self.coordinator_of(*round)));
        self.enter_round(next.unwrap_or(self.round + 1), out);
    }

    fn send_support(&mut self, out: &mut Actions<Message>) {
        if self.coordinator() == self.me {
            self.receive_support(self.me, out);
        } else {
            out.send(self.coordinator(), Message::Support { round: self.round });
        }
        // Sent again, since it may be lost.
        out.arm(SUPPORT, 2 * self.timeout);
    }

    fn receive_support(&mut self, by: usize, out: &mut Actions<Message>) {
        let repeats = !self.supporters.insert(by);
        if self.led {
            // A repeated Support means that the announcement was lost.
            if repeats {
                out.send(by, self.lead());
            }
        } else if self.coordinator() == self.me && self.supporters.len() >= majority(self.n) {
            self.led = true;
            out.cancel(SUPPORT);
            out.send_all(others(self.me, self.n), self.lead());
        }
    }

    fn lead(&self) -> Message {
        Message::Lead { round: self.round, attribute: self.attribute }
    }

    fn coordinator(&self) -> usize {
        self.coordinator_of(self.round)
    }

    fn coordinator_of(&self, round: u64) -> usize {
        (round % self.n as u64) as usize
    }
}

const SUPPORT: Timer = Timer("nobody leads", 0);
