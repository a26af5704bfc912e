//! The rotating coordinator: round r belongs to process r mod N; whoever finds its coordinator dead goes to the next round.
//!
//! In: suspicions, messages. Out: Support to the coordinator of the round, Lead from it once a majority is there.
//! Why safe: a coordinator leads when a majority has come to its round, and none of them obeys an earlier one any more.
//! Count, N processes, the old leader dead and everybody knows: N - 2 Support, N - 1 Lead = 2N - 3; delays: Support, Lead
//! = 2. There is no other schedule, so that best and worst are the same.
//! Source: the coordinator of Chandra and Toueg 1996, without the value that they agree on.

use std::collections::BTreeSet;

use super::{Acts, Algorithm, Event, Setting, Timer, Word, majority, others};

/// A process.
#[derive(Clone, Debug)]
pub(super) struct Rotating {
    me: usize,
    n: usize,
    attribute: u64,
    timeout: u64,
    suspected: BTreeSet<usize>,
    /// Durable: we obey no earlier one.
    round: u64,
    /// Whether its coordinator leads, as far as we know.
    led: bool,
    /// Who supports us in this round, if it is ours.
    supporters: BTreeSet<usize>,
}

#[derive(Clone, Debug)]
pub(super) enum Message {
    Support {
        round: u64,
    },
    /// The attribute is for `santos`.
    Lead {
        round: u64,
        attribute: u64,
    },
    /// The round is over: here is a later one.
    Later {
        round: u64,
    },
}

impl Word for Message {
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

    fn new(setting: &Setting) -> Self {
        Self {
            me: setting.me,
            n: setting.n,
            attribute: setting.attribute,
            timeout: setting.timeout,
            suspected: BTreeSet::new(),
            round: setting.leader.unwrap_or(0) as u64,
            led: setting.leader.is_some(),
            supporters: BTreeSet::new(),
        }
    }

    fn reborn(&self, setting: &Setting) -> Self {
        Self { round: self.round, ..Self::new(setting) }
    }

    fn step(&mut self, event: Event<Message>, out: &mut Acts<Message>) {
        match event {
            Event::Start => {}
            Event::Elect => self.goes_on(out),
            Event::Suspects(other) => {
                self.suspected.insert(other);
                if self.coordinator() == other {
                    self.goes_on(out);
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
                        // Not enough have come: they may not know of the round.
                        out.send_all(others(self.me, self.n), Message::Later { round: self.round });
                    }
                    self.supports(out);
                }
            }
        }
    }

    fn leads(&self) -> Option<u64> {
        (self.led && self.coordinator() == self.me).then_some(self.round)
    }

    fn believes(&self) -> Option<usize> {
        self.led.then(|| self.coordinator())
    }

    fn accepts(&self, leader: usize, round: u64) -> bool {
        round >= self.round && self.owner(round) == leader
    }
}

impl Rotating {
    /// The next round whose coordinator is this process.
    pub(super) fn next_round_of(&self, process: usize) -> u64 {
        (self.round + 1..).find(|round| self.owner(*round) == process).unwrap_or(self.round)
    }

    pub(super) fn enters(&mut self, round: u64, out: &mut Acts<Message>) {
        if round > self.round || !self.led {
            self.round = round.max(self.round);
            self.led = false;
            self.supporters.clear();
            self.supports(out);
        }
    }

    fn receive(&mut self, from: usize, message: &Message, out: &mut Acts<Message>) {
        match *message {
            Message::Support { round } => {
                if round < self.round {
                    return out.send(from, Message::Later { round: self.round });
                }
                if round > self.round {
                    self.enters(round, out);
                }
                self.is_supported(from, out);
            }
            Message::Lead { round, .. } if round < self.round => out.send(from, Message::Later { round: self.round }),
            Message::Lead { round, .. } => {
                self.round = round;
                self.led = true;
                out.cancel(SUPPORT);
            }
            Message::Later { round } => {
                if round > self.round {
                    self.enters(round, out);
                }
            }
        }
    }

    /// To the next round whose coordinator seems to live.
    fn goes_on(&mut self, out: &mut Acts<Message>) {
        let rounds = self.round + 1..=self.round + self.n as u64;
        let next = rounds.into_iter().find(|round| !self.suspected.contains(&self.owner(*round)));
        self.enters(next.unwrap_or(self.round + 1), out);
    }

    fn supports(&mut self, out: &mut Acts<Message>) {
        if self.coordinator() == self.me {
            self.is_supported(self.me, out);
        } else {
            out.send(self.coordinator(), Message::Support { round: self.round });
        }
        // It may be lost.
        out.arm(SUPPORT, 2 * self.timeout);
    }

    fn is_supported(&mut self, by: usize, out: &mut Acts<Message>) {
        let repeats = !self.supporters.insert(by);
        if self.led {
            // Whoever asks again has missed the announcement.
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
        self.owner(self.round)
    }

    fn owner(&self, round: u64) -> usize {
        (round % self.n as u64) as usize
    }
}

const SUPPORT: Timer = Timer("nobody leads", 0);
