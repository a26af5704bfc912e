//! The bully algorithm: a process that finds the coordinator dead asks all higher ids; if none answers, it becomes the
//! coordinator.
//!
//! Messages are Election to higher ids, Answer, and Coordinator to lower ids. It terminates because every Election
//! goes to higher ids, which are finite.
//!
//! Best case, if the second-highest process detects the failure: N - 2 Coordinator messages, one delay. Worst case,
//! if the lowest does: all N - 1 running processes start elections and the i-th highest sends i - 1 messages,
//! N(N - 1)/2 in all; five delays: Election, Answer, Election, timeout, Coordinator.
//!
//! It fails because it takes silence for a crash: a timeout that is too short, a partition or a wrong suspicion
//! creates a second coordinator.
//!
//! Source: Garcia-Molina 1982, as taught.

use std::collections::BTreeSet;

use super::{Actions, Algorithm, AlgorithmMessage, Event, ProcessConfig, Timer};

#[derive(Clone, Debug)]
pub(super) struct Bully {
    me: usize,
    n: usize,
    timeout: u64,
    suspected: BTreeSet<usize>,
    coordinator: Option<usize>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No election of our own.
    Idle,
    /// Election sent; no answer yet.
    Asked,
    /// A higher process runs and will announce the coordinator.
    Answered,
}

#[derive(Clone, Debug)]
pub(super) enum Message {
    Election,
    Answer,
    Coordinator,
}

impl AlgorithmMessage for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Election => "Election",
            Self::Answer => "Answer",
            Self::Coordinator => "Coordinator",
        }
    }

    fn label(&self) -> String {
        self.name().to_owned()
    }
}

impl Algorithm for Bully {
    type Message = Message;

    /// A coordinator needs no consent.
    fn needed(_: usize) -> usize {
        1
    }

    fn new(config: &ProcessConfig) -> Self {
        Self {
            me: config.me,
            n: config.n,
            timeout: config.timeout,
            suspected: BTreeSet::new(),
            coordinator: config.leader,
            stage: Stage::Idle,
        }
    }

    fn restarted(&self, config: &ProcessConfig) -> Self {
        Self { coordinator: None, ..Self::new(config) }
    }

    fn step(&mut self, event: Event<Message>, out: &mut Actions<Message>) {
        match event {
            Event::Start => {}
            Event::Elect => self.begin(out),
            Event::Suspects(other) => {
                self.suspected.insert(other);
                if self.coordinator == Some(other) && self.stage == Stage::Idle {
                    self.begin(out);
                }
            }
            Event::Trusts(other) => {
                self.suspected.remove(&other);
            }
            Event::Received { from, message: Message::Election } => {
                out.send(from, Message::Answer);
                if self.stage == Stage::Idle {
                    // The lecture counts our own election after the answer.
                    out.next_delay();
                    self.begin(out);
                }
            }
            Event::Received { message: Message::Answer, .. } => {
                if self.stage == Stage::Asked {
                    self.stage = Stage::Answered;
                    out.cancel(ANSWERS);
                    // The higher process may itself wait for answers and for the announcement of a still higher one.
                    out.arm(COORDINATOR, 3 * self.timeout);
                }
            }
            Event::Received { from, message: Message::Coordinator } => self.finish(from, out),
            Event::Expired(timer) if timer == ANSWERS => self.become_coordinator(out),
            Event::Expired(_) => self.begin(out),
        }
    }

    fn leads(&self) -> Option<u64> {
        (self.coordinator == Some(self.me)).then_some(0)
    }

    fn known_leader(&self) -> Option<usize> {
        self.coordinator
    }

    fn accepts(&self, leader: usize, _: u64) -> bool {
        self.coordinator == Some(leader)
    }

    fn done(&self) -> bool {
        self.stage == Stage::Idle
    }
}

impl Bully {
    fn begin(&mut self, out: &mut Actions<Message>) {
        self.coordinator = None;
        let higher = self.me + 1..self.n;
        if higher.clone().all(|other| self.suspected.contains(&other)) {
            return self.become_coordinator(out);
        }
        self.stage = Stage::Asked;
        // Also to suspected processes: the lecture counts those messages.
        out.send_all(higher, Message::Election);
        out.arm(ANSWERS, self.timeout);
    }

    fn become_coordinator(&mut self, out: &mut Actions<Message>) {
        self.finish(self.me, out);
        out.send_all(0..self.me, Message::Coordinator);
    }

    fn finish(&mut self, coordinator: usize, out: &mut Actions<Message>) {
        self.coordinator = Some(coordinator);
        self.stage = Stage::Idle;
        out.cancel(ANSWERS);
        out.cancel(COORDINATOR);
    }
}

const ANSWERS: Timer = Timer("no answer", 0);
const COORDINATOR: Timer = Timer("no coordinator", 0);
