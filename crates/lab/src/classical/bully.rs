//! The bully algorithm: whoever finds the coordinator dead asks all higher ids; if none answers, it is the coordinator.
//!
//! In: suspicions, messages, two timeouts. Out: Election to higher ids, Answer, Coordinator to lower ids.
//! Why it ends: every Election climbs, and ids are finite. Best, if the second-highest finds out: N - 2 Coordinator
//! messages, one delay. Worst, if the lowest does: all N - 1 that live begin elections, the i-th highest sends i - 1
//! messages: N(N - 1)/2 of them, five delays: Election, Answer, Election, timeout, Coordinator.
//! Where it fails: it takes silence for death. A timeout that is too short, a partition or a wrong suspicion makes a
//! second coordinator.
//! Source: Garcia-Molina 1982, as taught.

use std::collections::BTreeSet;

use super::{Acts, Algorithm, Event, Setting, Timer, Word};

/// A process.
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
    /// Election sent; nobody has answered.
    Asked,
    /// Somebody higher lives and will tell us.
    Answered,
}

#[derive(Clone, Debug)]
pub(super) enum Message {
    Election,
    Answer,
    Coordinator,
}

impl Word for Message {
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

    /// Nobody is asked.
    fn needed(_: usize) -> usize {
        1
    }

    fn new(setting: &Setting) -> Self {
        Self {
            me: setting.me,
            n: setting.n,
            timeout: setting.timeout,
            suspected: BTreeSet::new(),
            coordinator: setting.leader,
            stage: Stage::Idle,
        }
    }

    fn reborn(&self, setting: &Setting) -> Self {
        Self { coordinator: None, ..Self::new(setting) }
    }

    fn step(&mut self, event: Event<Message>, out: &mut Acts<Message>) {
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
                    // As the lecture counts: first the answer, then our own election.
                    out.then();
                    self.begin(out);
                }
            }
            Event::Received { message: Message::Answer, .. } => {
                if self.stage == Stage::Asked {
                    self.stage = Stage::Answered;
                    out.cancel(ANSWERS);
                    // A higher process may have to wait for answers itself, and be told by a still higher one.
                    out.arm(COORDINATOR, 3 * self.timeout);
                }
            }
            Event::Received { from, message: Message::Coordinator } => self.ends(from, out),
            Event::Expired(timer) if timer == ANSWERS => self.leads_now(out),
            Event::Expired(_) => self.begin(out),
        }
    }

    fn leads(&self) -> Option<u64> {
        (self.coordinator == Some(self.me)).then_some(0)
    }

    fn believes(&self) -> Option<usize> {
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
    fn begin(&mut self, out: &mut Acts<Message>) {
        self.coordinator = None;
        let higher = self.me + 1..self.n;
        if higher.clone().all(|other| self.suspected.contains(&other)) {
            return self.leads_now(out);
        }
        self.stage = Stage::Asked;
        // To all of them, the suspected too: the lecture counts those messages.
        out.send_all(higher, Message::Election);
        out.arm(ANSWERS, self.timeout);
    }

    fn leads_now(&mut self, out: &mut Acts<Message>) {
        self.ends(self.me, out);
        out.send_all(0..self.me, Message::Coordinator);
    }

    fn ends(&mut self, coordinator: usize, out: &mut Acts<Message>) {
        self.coordinator = Some(coordinator);
        self.stage = Stage::Idle;
        out.cancel(ANSWERS);
        out.cancel(COORDINATOR);
    }
}

const ANSWERS: Timer = Timer("no answer", 0);
const COORDINATOR: Timer = Timer("no coordinator", 0);
