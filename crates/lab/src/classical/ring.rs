//! Ring election, Chang and Roberts as taught: the best attribute travels round the ring back to its owner.
//!
//! It terminates because only the best attribute passes every process: at most N - 1 messages to reach the best
//! process, N for its Election to come round, N for Elected: 3N - 1; 2N if the best process calls the election. With
//! several initiators only the run of the highest one of the newest round completes.
//!
//! It fails if the would-be leader crashes after its Election has passed: the message then circulates forever. Repair
//! 1: its predecessor waits for Elected. Repair 2: any failure detector; one that errs restarts runs forever. A
//! suspected process is left out of the ring; if it runs, it still considers itself leader.
//!
//! Our addition: rounds, which distinguish a restarted run from the one that it replaces.

use std::collections::BTreeSet;

use super::{Actions, Algorithm, AlgorithmMessage, Event, ProcessConfig, Repair, Timer};

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
    /// The highest run seen; messages of lower ones are suppressed.
    run: Run,
    /// The leader whose failure caused that run.
    without: Option<usize>,
    /// The candidate last passed on in that run.
    passed: Option<Candidate>,
    /// Our Elected message is in transit.
    announcing: bool,
    /// Repair 1: we precede the would-be leader and wait for its Elected message.
    awaiting: bool,
}

/// A run of the election. A new call outranks every run that its caller has seen; within a round the higher id wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    round: u64,
    initiator: usize,
}

/// A candidate, ordered by attribute, then by id; greater is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    attribute: u64,
    id: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Message {
    /// `without` is the leader whose failure caused the run. All processes skip it, or a message would be lost there.
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

impl AlgorithmMessage for Message {
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

    /// A leader needs no consent.
    fn needed(_: usize) -> usize {
        1
    }

    fn new(config: &ProcessConfig) -> Self {
        Self {
            me: config.me,
            n: config.n,
            attribute: config.attribute,
            repair: config.repair,
            timeout: config.timeout,
            suspected: BTreeSet::new(),
            elected: config.leader,
            run: Run::default(),
            without: None,
            passed: None,
            announcing: false,
            awaiting: false,
        }
    }

    fn restarted(&self, config: &ProcessConfig) -> Self {
        // The round is durable, or the ring would take the first call after a restart for an old one.
        Self { run: self.run, elected: None, ..Self::new(config) }
    }

    fn step(&mut self, event: Event<Message>, out: &mut Actions<Message>) {
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
                self.receive_election(run, candidate, without, out);
            }
            Event::Received { message: Message::Elected { run, id }, .. } => self.receive_elected(run, id, out),
            Event::Expired(_) => {
                // The Elected message did not come: suspect the would-be leader.
                self.suspected.extend(self.passed.map(|passed| passed.id));
                self.call(None, out);
            }
        }
    }

    fn leads(&self) -> Option<u64> {
        (self.elected == Some(self.me)).then_some(self.run.round)
    }

    fn known_leader(&self) -> Option<usize> {
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
    fn call(&mut self, without: Option<usize>, out: &mut Actions<Message>) {
        self.enter(Run { round: self.run.round + 1, initiator: self.me }, without, out);
        self.pass(self.own(), out);
    }

    fn receive_election(&mut self, run: Run, candidate: Candidate, without: Option<usize>, out: &mut Actions<Message>) {
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

    fn receive_elected(&mut self, run: Run, id: usize, out: &mut Actions<Message>) {
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
        let restarts = match self.repair {
            Repair::None => false,
            Repair::Predecessor => self.suspected.contains(&id) && self.precedes(id),
            Repair::Detector => self.suspected.contains(&id),
        };
        if restarts {
            self.call(Some(id), out);
        } else {
            self.forward(Message::Elected { run, id }, out);
        }
    }

    fn enter(&mut self, run: Run, without: Option<usize>, out: &mut Actions<Message>) {
        self.run = run;
        self.without = without;
        self.suspected.extend(without.filter(|dead| *dead != self.me));
        self.elected = None;
        self.passed = None;
        (self.announcing, self.awaiting) = (false, false);
        out.cancel(ELECTED);
    }

    fn pass(&mut self, candidate: Candidate, out: &mut Actions<Message>) {
        self.passed = Some(candidate);
        if self.repair == Repair::Detector && self.suspected.contains(&candidate.id) {
            return self.call(None, out);
        }
        self.forward(Message::Election { run: self.run, candidate, without: self.without }, out);
        if self.repair == Repair::Predecessor && self.precedes(candidate.id) && !self.awaiting {
            // A bit more than twice round the ring. Not restarted when the message passes again, or it would never
            // expire.
            self.awaiting = true;
            out.arm(ELECTED, self.timeout * (2 * self.n as u64 + 2));
        }
    }

    fn forward(&mut self, message: Message, out: &mut Actions<Message>) {
        match self.clockwise().find(|other| !self.suspected.contains(other)) {
            Some(next) => out.send(next, message),
            // No other process is left.
            None => (self.elected, self.announcing) = (Some(self.me), false),
        }
    }

    /// Whether that process is our successor on the ring, if it runs.
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
