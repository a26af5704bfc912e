//! The deterministic world in which every algorithm runs.
//!
//! Message delays are counted as follows. A message is one deeper than the event that caused it. An expired timer is
//! one deeper than the deepest message sent before it was armed. [`Action::NextDelay`] puts later messages behind
//! earlier ones. The delays of a run are the depth at which the last process reached its final view.
//!
//! All randomness comes from the seed, in the order of events, so the same case gives the same recording.
//!
//! Faults are defined in `case`, two leaders at once in `checker`.

use std::collections::BTreeMap;

use pole_topology::Link;

use super::checker::{SafetyChecker, Violation};

use super::{
    Action, Actions, Algorithm, AlgorithmMessage, Case, Detector, Event, Lines, Occurrence, ProcessConfig,
    RandomSource, Repair, Timer,
};
use pole_sim::Queue;
use pole_sim::Rng;
use pole_sim::recording::{ProcessView, Recording, Step, StepKind};

/// The result of a case.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Why the run ended.
    pub end: End,
    /// Messages of the election that were sent, by kind.
    pub sent: BTreeMap<&'static str, u64>,
    /// Messages of the normal operation of a leader.
    pub upkeep: u64,
    /// Message delays until the last process knew the leader.
    pub delays: u32,
    /// The leader on which all running processes agree at the end.
    pub leader: Option<usize>,
    /// Since when they agree, in nanoseconds.
    pub agreed_at: Option<u64>,
    /// How often agreement was reached: more than once if it was lost in between.
    pub agreements: u32,
    /// The largest number of processes that considered themselves leader at the same time.
    pub leaders_max: usize,
    /// Times with two leaders at once.
    pub violations: Vec<Violation>,
    /// The recording, if the case asks for one.
    pub recording: Option<Recording>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All processes agree, and no election message is in transit.
    Settled,
    /// No events are left, although not all agree or the case does not end on agreement.
    Quiet,
    /// The time limit was reached.
    OutOfTime,
    /// The event limit was reached: the election does not terminate.
    OutOfEvents,
}

impl Outcome {
    /// The number of election messages sent.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.sent.values().sum()
    }
}

/// Runs an algorithm through a case; `repair` and `pre_vote` select variants of the ring and of Raft.
#[must_use]
pub fn run<A: Algorithm>(case: &Case, repair: Repair, pre_vote: bool) -> Outcome {
    let mut simulation = Simulation::<A>::new(case, repair, pre_vote);
    let end = simulation.run();
    simulation.into_outcome(end)
}

struct Simulation<'a, A: Algorithm> {
    case: &'a Case,
    repair: Repair,
    pre_vote: bool,
    now: u64,
    queue: Queue<Pending<A::Message>>,
    hosts: Vec<Host<A>>,
    /// The side of a partition on which each process is.
    cut: Vec<bool>,
    /// By sender and receiver; empty if all messages have the same delay.
    links: Vec<Vec<Link>>,
    network: Rng,
    detection: Rng,
    timers_armed: u64,
    /// The number of election messages in transit.
    in_transit: usize,
    sent: BTreeMap<&'static str, u64>,
    upkeep: u64,
    agreed_at: Option<u64>,
    agreements: u32,
    checker: SafetyChecker,
    recording: Option<Recording>,
}

struct Host<A> {
    process: A,
    alive: bool,
    /// Armed timers: the number of the arming, and the depth of the expiry.
    timers: BTreeMap<Timer, (u64, u32)>,
    /// The last known leader and whether the process was done, and the depth of the step that changed this.
    settled: (Option<usize>, bool),
    depth: u32,
}

enum Pending<M> {
    Occurs(Occurrence),
    /// The accurate detector checks `whom` again at this time.
    DetectorCheck {
        who: usize,
        whom: usize,
    },
    Arrives {
        from: usize,
        to: usize,
        message: M,
        depth: u32,
        sent: u64,
    },
    Expires {
        who: usize,
        timer: Timer,
        number: u64,
    },
}

impl<'a, A: Algorithm> Simulation<'a, A> {
    fn new(case: &'a Case, repair: Repair, pre_vote: bool) -> Self {
        let rng = Rng::new(case.seed);
        let names = (0..case.n).map(|who| who.to_string()).collect();
        let mut simulation = Self {
            case,
            repair,
            pre_vote,
            now: 0,
            queue: Queue::default(),
            hosts: Vec::new(),
            cut: vec![false; case.n],
            links: links(case),
            network: rng.fork("network", 0),
            detection: rng.fork("detection", 0),
            timers_armed: 0,
            in_transit: 0,
            sent: BTreeMap::new(),
            upkeep: 0,
            agreed_at: None,
            agreements: 0,
            checker: SafetyChecker::default(),
            recording: case.record.then(|| Recording { names, steps: Vec::new() }),
        };
        for who in 0..case.n {
            let process = A::new(&simulation.config(who));
            simulation.hosts.push(Host {
                process,
                alive: true,
                timers: BTreeMap::new(),
                settled: (None, true),
                depth: 0,
            });
        }
        simulation
    }

    fn config(&self, me: usize) -> ProcessConfig {
        let case = self.case;
        let mut rng = Rng::new(case.seed).fork("dice", me as u64);
        let random_numbers = match case.random {
            RandomSource::Seeded => (0..RANDOM_NUMBERS).map(|_| rng.any()).collect(),
            RandomSource::First(first) => vec![if me == first { 0 } else { u64::MAX }],
        };
        let rtt = |other: usize| match &case.lines {
            Lines::Unit(delay) => 2 * delay,
            Lines::Of(_) => self.links[me][other].rtt_ns,
        };
        ProcessConfig {
            me,
            n: case.n,
            attribute: case.attributes.get(me).copied().unwrap_or(0),
            leader: case.leader,
            timeout: case.timeout,
            lease: case.lease,
            repair: self.repair,
            pre_vote: self.pre_vote,
            round_trips: (0..case.n).map(rtt).collect(),
            random_numbers,
        }
    }

    fn run(&mut self) -> End {
        for who in 0..self.case.n {
            self.step(who, Event::Start, 0, StepKind::Started(who));
        }
        for (at, occurrence) in &self.case.occurrences {
            self.queue.push(*at, Pending::Occurs(occurrence.clone()));
        }
        for _ in 0..self.case.events_max {
            let Some((at, pending)) = self.queue.pop(self.case.until) else {
                return if self.queue.pop(u64::MAX).is_some() { End::OutOfTime } else { End::Quiet };
            };
            self.now = at;
            self.dispatch(pending);
            if self.case.ends_settled && self.is_settled() {
                return End::Settled;
            }
        }
        End::OutOfEvents
    }

    /// Whether all processes agree and are done, no election message is in transit, and all occurrences of the case
    /// have happened.
    fn is_settled(&self) -> bool {
        let last = self.case.occurrences.iter().map(|(at, _)| *at).max().unwrap_or(0);
        self.in_transit == 0
            && self.now >= last
            && self.agreed_at.is_some()
            && self.hosts.iter().filter(|host| host.alive).all(|host| host.process.done())
    }

    fn dispatch(&mut self, pending: Pending<A::Message>) {
        match pending {
            Pending::Occurs(occurrence) => self.apply(occurrence),
            Pending::DetectorCheck { who, whom } => self.detector_check(who, whom),
            Pending::Arrives { from, to, message, depth, sent } => {
                self.in_transit -= usize::from(!message.is_upkeep());
                let label = if self.recording.is_some() { message.label() } else { String::new() };
                if !self.hosts[to].alive || self.cut[from] != self.cut[to] {
                    return self.record(depth, StepKind::Lost { from, to, label });
                }
                let kind = StepKind::Received { from, to, label, sent: Some(sent) };
                self.step(to, Event::Received { from, message }, depth, kind);
            }
            Pending::Expires { who, timer, number } => {
                let Some((_, depth)) =
                    self.hosts[who].timers.get(&timer).copied().filter(|(armed, _)| *armed == number)
                else {
                    return;
                };
                self.hosts[who].timers.remove(&timer);
                self.step(who, Event::Expired(timer), depth, StepKind::Expired { who, timer: timer.0 });
            }
        }
    }

    fn apply(&mut self, occurrence: Occurrence) {
        match occurrence {
            Occurrence::Elect(who) => self.step(who, Event::Elect, 0, StepKind::Called(who)),
            Occurrence::Crash(who) => {
                self.hosts[who].alive = false;
                self.hosts[who].timers.clear();
                self.check_agreement();
                self.record(0, StepKind::Crashed(who));
                self.detect((0..self.case.n).map(|other| (other, who)));
            }
            Occurrence::Restart(who) => self.restart(who),
            Occurrence::Suspects { who, whom } => self.suspect(who, whom),
            Occurrence::Trusts { who, whom } => self.trust(who, whom),
            Occurrence::Cut(side) => {
                side.iter().for_each(|who| self.cut[*who] = true);
                self.record(0, StepKind::Cut(side));
                self.detect_all();
            }
            Occurrence::Heal => {
                self.cut.fill(false);
                self.record(0, StepKind::Healed);
                self.detect_all();
            }
        }
    }

    fn restart(&mut self, who: usize) {
        let config = ProcessConfig { leader: None, ..self.config(who) };
        let host = &mut self.hosts[who];
        host.process = host.process.restarted(&config);
        host.alive = true;
        self.step(who, Event::Start, 0, StepKind::Started(who));
        self.step(who, Event::Elect, 0, StepKind::Called(who));
        self.detect((0..self.case.n).flat_map(|other| [(other, who), (who, other)]));
    }

    fn detect_all(&mut self) {
        let n = self.case.n;
        self.detect((0..n).flat_map(|who| (0..n).map(move |whom| (who, whom))));
    }

    /// Schedules checks of these pairs by the perfect detector.
    fn detect(&mut self, pairs: impl Iterator<Item = (usize, usize)>) {
        let Detector::Perfect { after, spread } = self.case.detector else { return };
        for (who, whom) in pairs.filter(|(who, whom)| who != whom) {
            let at = self.now + after + self.detection.below(spread.max(1));
            self.queue.push(at, Pending::DetectorCheck { who, whom });
        }
    }

    fn detector_check(&mut self, who: usize, whom: usize) {
        if self.hosts[whom].alive && self.cut[who] == self.cut[whom] {
            self.trust(who, whom);
        } else {
            self.suspect(who, whom);
        }
    }

    fn suspect(&mut self, who: usize, whom: usize) {
        if self.hosts[who].alive {
            self.step(who, Event::Suspects(whom), 0, StepKind::Suspects { who, whom });
        }
    }

    fn trust(&mut self, who: usize, whom: usize) {
        if self.hosts[who].alive {
            self.step(who, Event::Trusts(whom), 0, StepKind::Trusts { who, whom });
        }
    }

    /// Steps one process and executes its actions.
    fn step(&mut self, who: usize, event: Event<A::Message>, depth: u32, kind: StepKind) {
        let mut actions = Actions::new();
        self.hosts[who].process.step(event, &mut actions);
        self.record(depth, kind);
        // The depth of the cause of the next message, and of the deepest message so far.
        let (mut level, mut reached) = (depth, depth);
        for action in actions.0 {
            match action {
                Action::Send { to, message } => {
                    reached = reached.max(level + 1);
                    self.send(who, to, message, level + 1);
                }
                Action::NextDelay => level = reached,
                Action::Arm { timer, after } => {
                    self.timers_armed += 1;
                    let number = self.timers_armed;
                    self.hosts[who].timers.insert(timer, (number, reached + 1));
                    self.queue.push(self.now + after, Pending::Expires { who, timer, number });
                }
                Action::Cancel(timer) => {
                    self.hosts[who].timers.remove(&timer);
                }
            }
        }
        let host = &mut self.hosts[who];
        let settled = (host.process.known_leader(), host.process.done());
        if host.settled != settled {
            host.settled = settled;
            host.depth = depth;
        }
        self.check_agreement();
    }

    fn send(&mut self, from: usize, to: usize, message: A::Message, depth: u32) {
        if message.is_upkeep() {
            self.upkeep += 1;
        } else {
            *self.sent.entry(message.name()).or_default() += 1;
        }
        if self.recording.is_some() {
            let label = message.label();
            self.record(depth, StepKind::Sent { from, to, label });
        }
        let case = self.case;
        // Always the same number of draws, so that a loss does not change later draws.
        let (random, late) = (self.network.any(), self.network.below(case.late_by.max(1)));
        let [is_lost, is_doubled, is_late] = [case.lost_per_mille, case.doubled_per_mille, case.late_per_mille]
            .map(|chance| self.network.per_mille(chance));
        if is_lost || self.cut[from] != self.cut[to] {
            if self.recording.is_some() {
                let label = message.label();
                self.record(depth, StepKind::Lost { from, to, label });
            }
            return;
        }
        let delay = match &case.lines {
            Lines::Unit(delay) => *delay,
            Lines::Of(_) => self.links[from][to].delay(random),
        };
        let at = self.now + delay + if is_late { late } else { 0 };
        for _ in 0..1 + usize::from(is_doubled) {
            self.in_transit += usize::from(!message.is_upkeep());
            self.queue.push(at, Pending::Arrives { from, to, message: message.clone(), depth, sent: self.now });
        }
    }

    /// Updates the agreement, and checks for two leaders.
    fn check_agreement(&mut self) {
        if self.agreed().is_none() {
            self.agreed_at = None;
        } else if self.agreed_at.is_none() {
            self.agreed_at = Some(self.now);
            self.agreements += 1;
        }
        let running = self.hosts.iter().enumerate().filter(|(_, host)| host.alive);
        self.checker.check(self.now, self.case.n, running.map(|(who, host)| (who, &host.process)));
    }

    /// The running leader on which all running processes agree.
    fn agreed(&self) -> Option<usize> {
        let mut running = self.hosts.iter().filter(|host| host.alive);
        let leader = running.next()?.process.known_leader()?;
        let host = self.hosts.get(leader).filter(|host| host.alive && host.process.leads().is_some())?;
        (host.alive && running.all(|host| host.process.known_leader() == Some(leader))).then_some(leader)
    }

    fn record(&mut self, depth: u32, kind: StepKind) {
        let Some(recording) = &mut self.recording else { return };
        let view = |host: &Host<A>| ProcessView {
            alive: host.alive,
            leader: host.process.known_leader().filter(|_| host.alive),
            leads: host.process.leads().filter(|_| host.alive),
            ..ProcessView::default()
        };
        let views = self.hosts.iter().map(view).collect();
        recording.steps.push(Step { at: self.now, depth, kind, views });
    }

    fn into_outcome(self, end: End) -> Outcome {
        let delays = self.hosts.iter().filter(|host| host.alive).map(|host| host.depth).max().unwrap_or(0);
        Outcome {
            end,
            delays,
            leader: self.agreed(),
            sent: self.sent,
            upkeep: self.upkeep,
            agreed_at: self.agreed_at,
            agreements: self.agreements,
            leaders_max: self.checker.leaders_max,
            violations: self.checker.violations,
            recording: self.recording,
        }
    }
}

fn links(case: &Case) -> Vec<Vec<Link>> {
    let Lines::Of(topology) = &case.lines else { return Vec::new() };
    let link = |a: usize, b: usize| topology.link(a as u64 + 1, b as u64 + 1).unwrap_or(Link::LOOPBACK);
    (0..case.n).map(|a| (0..case.n).map(|b| link(a, b)).collect()).collect()
}

/// The number of random numbers of a process: enough for a few elections without repetition.
const RANDOM_NUMBERS: usize = 32;
