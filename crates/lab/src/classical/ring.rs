//! Ring election, Chang and Roberts as taught: the best attribute goes round, and comes back to its owner.
//!
//! In: a call for an election, messages of the predecessor, suspicions. Out: messages to the successor.
//! Why it ends: only the best attribute passes everybody. N - 1 messages at most to reach the best, N for its Election to
//! come round, N for Elected: 3N - 1; 2N if the best calls.
//! Holds: with several initiators, only the run of the highest of the newest round completes.
//! Where it fails: the would-be leader dies after its Election has passed, and the message goes round for ever. Repair 1:
//! its predecessor waits for Elected. Repair 2: any failure detector; one that errs starts runs for ever. And a suspected
//! process is left out of the ring: if it lives, it still thinks that it leads.
//! Ours to add: rounds, so that a run that is started again is told from the one that it replaces.

use std::collections::BTreeSet;

use super::{Acts, Algorithm, Event, Repair, Setting, Timer, Word};

/// A process on the ring.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    me: usize,
    n: usize,
    attribute: u64,
    repair: Repair,
    timeout: u64,
    /// Left out of the ring.
    suspected: BTreeSet<usize>,
    elected: Option<usize>,
    /// The highest run heard of, "in cache": messages of lower ones are suppressed.
    run: Run,
    /// The leader whose failure called that run.
    without: Option<usize>,
    /// What was last passed on in that run.
    passed: Option<Candidate>,
    /// Our Elected message is under way.
    announcing: bool,
    /// Repair 1: we precede the would-be leader, and wait for its Elected message.
    awaiting: bool,
}

/// A run of the election. A new call outranks whatever its caller has heard of; among calls of a round, the higher id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    round: u64,
    initiator: usize,
}

/// A would-be leader: the higher attribute is better, then the higher id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    attribute: u64,
    id: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Message {
    /// `without`: the leader whose failure called the run. All close the ring over it, or a message would be lost there.
    Election {
        run: Run,
        candidate: Candidate,
        without: Option<usize>,
    },
    Elected {
        run: Run,
        id: usize,
    },
}

impl Word for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Election { .. } => "Election",
            Self::Elected { .. } => "Elected",
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Election { run, candidate, .. } => format!("Election {} (by {})", candidate.id, run.initiator),
            Self::Elected { run, id } => format!("Elected {id} (by {})", run.initiator),
        }
    }
}

impl Algorithm for Ring {
    type Message = Message;

    /// Nobody is asked.
    fn needed(_: usize) -> usize {
        1
    }

    fn new(setting: &Setting) -> Self {
        Self {
            me: setting.me,
            n: setting.n,
            attribute: setting.attribute,
            repair: setting.repair,
            timeout: setting.timeout,
            suspected: BTreeSet::new(),
            elected: setting.leader,
            run: Run::default(),
            without: None,
            passed: None,
            announcing: false,
            awaiting: false,
        }
    }

    fn reborn(&self, setting: &Setting) -> Self {
        // The round is durable, or the ring would take its first call for an old one.
        Self { run: self.run, elected: None, ..Self::new(setting) }
    }

    fn step(&mut self, event: Event<Message>, out: &mut Acts<Message>) {
        match event {
            Event::Start => {}
            Event::Elect => self.call(None, out),
            Event::Suspects(other) => {
                self.suspected.insert(other);
                let would_be = self.elected.is_none() && self.passed.is_some_and(|passed| passed.id == other);
                if self.elected == Some(other) {
                    self.call(Some(other), out);
                } else if self.repair == Repair::Detector && would_be {
                    self.call(None, out);
                }
            }
            Event::Trusts(other) => {
                self.suspected.remove(&other);
            }
            Event::Received { message: Message::Election { run, candidate, without }, .. } => {
                self.election(run, candidate, without, out);
            }
            Event::Received { message: Message::Elected { run, id }, .. } => self.is_elected(run, id, out),
            Event::Expired(_) => {
                // The Elected message did not come: the would-be leader is dead for us.
                self.suspected.extend(self.passed.map(|passed| passed.id));
                self.call(None, out);
            }
        }
    }

    fn leads(&self) -> Option<u64> {
        (self.elected == Some(self.me)).then_some(self.run.round)
    }

    fn believes(&self) -> Option<usize> {
        self.elected
    }

    fn accepts(&self, leader: usize, _: u64) -> bool {
        self.elected == Some(leader)
    }

    fn done(&self) -> bool {
        !self.announcing
    }
}

impl Ring {
    fn call(&mut self, without: Option<usize>, out: &mut Acts<Message>) {
        self.enter(Run { round: self.run.round + 1, initiator: self.me }, without, out);
        self.pass(self.own(), out);
    }

    fn election(&mut self, run: Run, candidate: Candidate, without: Option<usize>, out: &mut Acts<Message>) {
        if run < self.run {
            return;
        }
        if run > self.run {
            self.enter(run, without, out);
        }
        if candidate.id == self.me {
            if self.elected.is_none() {
                self.elected = Some(self.me);
                self.announcing = true;
                self.forward(Message::Elected { run, id: self.me }, out);
            }
        } else if candidate > self.own() {
            self.pass(candidate, out);
        } else if self.passed.is_none() {
            self.pass(self.own(), out);
        }
    }

    fn is_elected(&mut self, run: Run, id: usize, out: &mut Acts<Message>) {
        if run < self.run {
            return;
        }
        self.run = run;
        (self.announcing, self.awaiting) = (false, false);
        out.cancel(ELECTED);
        if id == self.me {
            return;
        }
        self.elected = Some(id);
        let starts_again = match self.repair {
            Repair::None => false,
            Repair::Predecessor => self.suspected.contains(&id) && self.precedes(id),
            Repair::Detector => self.suspected.contains(&id),
        };
        if starts_again {
            self.call(Some(id), out);
        } else {
            self.forward(Message::Elected { run, id }, out);
        }
    }

    fn enter(&mut self, run: Run, without: Option<usize>, out: &mut Acts<Message>) {
        self.run = run;
        self.without = without;
        self.suspected.extend(without.filter(|dead| *dead != self.me));
        self.elected = None;
        self.passed = None;
        (self.announcing, self.awaiting) = (false, false);
        out.cancel(ELECTED);
    }

    fn pass(&mut self, candidate: Candidate, out: &mut Acts<Message>) {
        self.passed = Some(candidate);
        if self.repair == Repair::Detector && self.suspected.contains(&candidate.id) {
            return self.call(None, out);
        }
        self.forward(Message::Election { run: self.run, candidate, without: self.without }, out);
        if self.repair == Repair::Predecessor && self.precedes(candidate.id) && !self.awaiting {
            // Twice round the ring, and something. Not anew when the message comes by again, or it would never run out.
            self.awaiting = true;
            out.arm(ELECTED, self.timeout * (2 * self.n as u64 + 2));
        }
    }

    fn forward(&mut self, message: Message, out: &mut Acts<Message>) {
        match self.clockwise().find(|other| !self.suspected.contains(other)) {
            Some(next) => out.send(next, message),
            // Alone.
            None => (self.elected, self.announcing) = (Some(self.me), false),
        }
    }

    /// Whether that process is the next on the ring, if it lives.
    fn precedes(&self, id: usize) -> bool {
        self.clockwise().find(|other| *other == id || !self.suspected.contains(other)) == Some(id)
    }

    fn clockwise(&self) -> impl Iterator<Item = usize> + use<> {
        let (me, n) = (self.me, self.n);
        (1..n).map(move |step| (me + step) % n)
    }

    fn own(&self) -> Candidate {
        Candidate { attribute: self.attribute, id: self.me }
    }
}

const ELECTED: Timer = Timer("no Elected message", 0);
