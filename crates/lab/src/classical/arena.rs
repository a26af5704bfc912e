//! The arena: one deterministic world in which every algorithm runs.
//!
//! In: a [`Case`]. Out: an [`Outcome`].
//! How delays are counted: what a process sends is one deeper than what made it send; an expired timer is one deeper than
//! the deepest message sent before it was armed; [`Act::Then`] puts what follows behind what went before. The delays of a
//! run are the depth at which the last process came to its final belief.
//! Holds: all chance comes from the seed, in the order of events; the same case gives the same record.
//! Not here: what goes wrong (`case`), two leaders at once (`judge`).

use std::collections::BTreeMap;

use pole_topology::Link;

use super::judge::{Judge, Violation};

use super::{Act, Acts, Algorithm, Case, Detector, Dice, Event, Happening, Lines, Repair, Setting, Timer, Word};
use crate::recording::{ProcessView, Recording, Step, StepKind};
use crate::rng::Rng;
use crate::sim::Queue;

/// What came of a case.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Why the run ended.
    pub end: End,
    /// Messages of the election that were sent, by kind.
    pub sent: BTreeMap<&'static str, u64>,
    /// Messages of the leader's daily work.
    pub upkeep: u64,
    /// Message delays until the last process knew.
    pub delays: u32,
    /// The leader that all who live agree on at the end.
    pub leader: Option<usize>,
    /// Since when they do, in nanoseconds.
    pub agreed_at: Option<u64>,
    /// How often agreement was reached: more than once, if it was lost.
    pub agreements: u32,
    /// The most processes that believed at once that they lead.
    pub believers_max: usize,
    /// Two leaders at once.
    pub violations: Vec<Violation>,
    /// The record, if it was asked for.
    pub recording: Option<Recording>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All agree, and nothing of the election is under way.
    Settled,
    /// Nothing more happens, though not all agree, or the case did not ask to end before.
    Quiet,
    /// The time was up.
    OutOfTime,
    /// So many events, and no end: it runs for ever.
    OutOfEvents,
}

impl Outcome {
    /// Messages of the election that were sent.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.sent.values().sum()
    }
}

/// Runs an algorithm through a case; `repair` and `pre_vote` choose a variant of the ring and of Raft.
#[must_use]
pub fn run<A: Algorithm>(case: &Case, repair: Repair, pre_vote: bool) -> Outcome {
    let mut arena = Arena::<A>::new(case, repair, pre_vote);
    let end = arena.run();
    arena.into_outcome(end)
}

struct Arena<'a, A: Algorithm> {
    case: &'a Case,
    repair: Repair,
    pre_vote: bool,
    now: u64,
    queue: Queue<Due<A::Message>>,
    hosts: Vec<Host<A>>,
    /// On which side of a cut each process is.
    cut: Vec<bool>,
    /// By sender and receiver; empty if all messages take as long.
    links: Vec<Vec<Link>>,
    network: Rng,
    detection: Rng,
    timers_armed: u64,
    /// Messages of the election that are under way.
    under_way: usize,
    sent: BTreeMap<&'static str, u64>,
    upkeep: u64,
    agreed_at: Option<u64>,
    agreements: u32,
    judge: Judge,
    recording: Option<Recording>,
}

struct Host<A> {
    process: A,
    alive: bool,
    /// Timers that run: the number of the arming, and how deep their expiry is.
    timers: BTreeMap<Timer, (u64, u32)>,
    /// What the process last believed and whether it was done, and how deep the step was that made it so.
    settled: (Option<usize>, bool),
    depth: u32,
}

enum Due<M> {
    Happens(Happening),
    /// The detector is asked again when the time has come: it is accurate.
    Notices {
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

impl<'a, A: Algorithm> Arena<'a, A> {
    fn new(case: &'a Case, repair: Repair, pre_vote: bool) -> Self {
        let rng = Rng::new(case.seed);
        let names = (0..case.n).map(|who| who.to_string()).collect();
        let mut arena = Self {
            case,
            repair,
            pre_vote,
            now: 0,
            queue: Queue::new(),
            hosts: Vec::new(),
            cut: vec![false; case.n],
            links: links(case),
            network: rng.fork("network", 0),
            detection: rng.fork("detection", 0),
            timers_armed: 0,
            under_way: 0,
            sent: BTreeMap::new(),
            upkeep: 0,
            agreed_at: None,
            agreements: 0,
            judge: Judge::default(),
            recording: case.records.then(|| Recording { names, steps: Vec::new() }),
        };
        for who in 0..case.n {
            let process = A::new(&arena.setting(who));
            arena.hosts.push(Host { process, alive: true, timers: BTreeMap::new(), settled: (None, true), depth: 0 });
        }
        arena
    }

    fn setting(&self, me: usize) -> Setting {
        let case = self.case;
        let mut rng = Rng::new(case.seed).fork("dice", me as u64);
        let dice = match case.dice {
            Dice::Seeded => (0..DICE).map(|_| rng.any()).collect(),
            Dice::First(first) => vec![if me == first { 0 } else { u64::MAX }],
        };
        let rtt = |other: usize| match &case.lines {
            Lines::Unit(delay) => 2 * delay,
            Lines::Of(_) => self.links[me][other].rtt_ns,
        };
        Setting {
            me,
            n: case.n,
            attribute: case.attributes.get(me).copied().unwrap_or(0),
            leader: case.leader,
            timeout: case.timeout,
            lease: case.lease,
            repair: self.repair,
            pre_vote: self.pre_vote,
            round_trips: (0..case.n).map(rtt).collect(),
            dice,
        }
    }

    fn run(&mut self) -> End {
        for who in 0..self.case.n {
            self.step(who, Event::Start, 0, StepKind::Started(who));
        }
        for (at, happening) in &self.case.happenings {
            self.queue.push(*at, Due::Happens(happening.clone()));
        }
        for _ in 0..self.case.events_max {
            let Some((at, due)) = self.queue.pop(self.case.until) else {
                return if self.queue.pop(u64::MAX).is_some() { End::OutOfTime } else { End::Quiet };
            };
            self.now = at;
            self.meet(due);
            if self.case.ends_settled && self.is_settled() {
                return End::Settled;
            }
        }
        End::OutOfEvents
    }

    /// All agree, have nothing left to do, and nothing of the election is under way; and whatever the case has in store has
    /// happened, or there would be nothing to agree on.
    fn is_settled(&self) -> bool {
        let last = self.case.happenings.iter().map(|(at, _)| *at).max().unwrap_or(0);
        self.under_way == 0
            && self.now >= last
            && self.agreed_at.is_some()
            && self.hosts.iter().filter(|host| host.alive).all(|host| host.process.done())
    }

    fn meet(&mut self, due: Due<A::Message>) {
        match due {
            Due::Happens(happening) => self.happens(happening),
            Due::Notices { who, whom } => self.notices(who, whom),
            Due::Arrives { from, to, message, depth, sent } => {
                self.under_way -= usize::from(!message.is_upkeep());
                let label = if self.recording.is_some() { message.label() } else { String::new() };
                if !self.hosts[to].alive || self.cut[from] != self.cut[to] {
                    return self.note(depth, StepKind::Lost { from, to, label });
                }
                let what = StepKind::Received { from, to, label, sent: Some(sent) };
                self.step(to, Event::Received { from, message }, depth, what);
            }
            Due::Expires { who, timer, number } => {
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

    fn happens(&mut self, happening: Happening) {
        match happening {
            Happening::Elect(who) => self.step(who, Event::Elect, 0, StepKind::Called(who)),
            Happening::Crash(who) => {
                self.hosts[who].alive = false;
                self.hosts[who].timers.clear();
                self.look();
                self.note(0, StepKind::Crashed(who));
                self.detect((0..self.case.n).map(|other| (other, who)));
            }
            Happening::Restart(who) => self.restart(who),
            Happening::Suspects { who, whom } => self.suspects(who, whom),
            Happening::Trusts { who, whom } => self.trusts(who, whom),
            Happening::Cut(side) => {
                side.iter().for_each(|who| self.cut[*who] = true);
                self.note(0, StepKind::Cut(side));
                self.detect_all();
            }
            Happening::Heal => {
                self.cut.fill(false);
                self.note(0, StepKind::Healed);
                self.detect_all();
            }
        }
    }

    fn restart(&mut self, who: usize) {
        let setting = Setting { leader: None, ..self.setting(who) };
        let host = &mut self.hosts[who];
        host.process = host.process.reborn(&setting);
        host.alive = true;
        self.step(who, Event::Start, 0, StepKind::Started(who));
        self.step(who, Event::Elect, 0, StepKind::Called(who));
        self.detect((0..self.case.n).flat_map(|other| [(other, who), (who, other)]));
    }

    fn detect_all(&mut self) {
        let n = self.case.n;
        self.detect((0..n).flat_map(|who| (0..n).map(move |whom| (who, whom))));
    }

    /// The perfect detector will look at these pairs.
    fn detect(&mut self, pairs: impl Iterator<Item = (usize, usize)>) {
        let Detector::Perfect { after, spread } = self.case.detector else { return };
        for (who, whom) in pairs.filter(|(who, whom)| who != whom) {
            let at = self.now + after + self.detection.below(spread.max(1));
            self.queue.push(at, Due::Notices { who, whom });
        }
    }

    fn notices(&mut self, who: usize, whom: usize) {
        if self.hosts[whom].alive && self.cut[who] == self.cut[whom] {
            self.trusts(who, whom);
        } else {
            self.suspects(who, whom);
        }
    }

    fn suspects(&mut self, who: usize, whom: usize) {
        if self.hosts[who].alive {
            self.step(who, Event::Suspects(whom), 0, StepKind::Suspects { who, whom });
        }
    }

    fn trusts(&mut self, who: usize, whom: usize) {
        if self.hosts[who].alive {
            self.step(who, Event::Trusts(whom), 0, StepKind::Trusts { who, whom });
        }
    }

    /// One event of one process, and what it does about it.
    fn step(&mut self, who: usize, event: Event<A::Message>, depth: u32, what: StepKind) {
        let mut acts = Acts::new();
        self.hosts[who].process.step(event, &mut acts);
        self.note(depth, what);
        // How deep the cause is of what is sent, and how deep the deepest message.
        let (mut level, mut reached) = (depth, depth);
        for act in acts.0 {
            match act {
                Act::Send { to, message } => {
                    reached = reached.max(level + 1);
                    self.send(who, to, message, level + 1);
                }
                Act::Then => level = reached,
                Act::Arm { timer, after } => {
                    self.timers_armed += 1;
                    let number = self.timers_armed;
                    self.hosts[who].timers.insert(timer, (number, reached + 1));
                    self.queue.push(self.now + after, Due::Expires { who, timer, number });
                }
                Act::Cancel(timer) => {
                    self.hosts[who].timers.remove(&timer);
                }
            }
        }
        let host = &mut self.hosts[who];
        let settled = (host.process.believes(), host.process.done());
        if host.settled != settled {
            host.settled = settled;
            host.depth = depth;
        }
        self.look();
    }

    fn send(&mut self, from: usize, to: usize, message: A::Message, depth: u32) {
        if message.is_upkeep() {
            self.upkeep += 1;
        } else {
            *self.sent.entry(message.name()).or_default() += 1;
        }
        if self.recording.is_some() {
            let label = message.label();
            self.note(depth, StepKind::Sent { from, to, label });
        }
        let case = self.case;
        // Always the same number of draws, so that a loss shifts nothing.
        let (random, late) = (self.network.any(), self.network.below(case.late_by.max(1)));
        let [is_lost, is_doubled, is_late] = [case.lost_per_mille, case.doubled_per_mille, case.late_per_mille]
            .map(|chance| self.network.per_mille(chance));
        if is_lost || self.cut[from] != self.cut[to] {
            if self.recording.is_some() {
                let label = message.label();
                self.note(depth, StepKind::Lost { from, to, label });
            }
            return;
        }
        let delay = match &case.lines {
            Lines::Unit(delay) => *delay,
            Lines::Of(_) => self.links[from][to].delay(random),
        };
        let at = self.now + delay + if is_late { late } else { 0 };
        for _ in 0..1 + usize::from(is_doubled) {
            self.under_way += usize::from(!message.is_upkeep());
            self.queue.push(at, Due::Arrives { from, to, message: message.clone(), depth, sent: self.now });
        }
    }

    /// Who agrees, and whether two lead.
    fn look(&mut self) {
        if self.agreed().is_none() {
            self.agreed_at = None;
        } else if self.agreed_at.is_none() {
            self.agreed_at = Some(self.now);
            self.agreements += 1;
        }
        let living = self.hosts.iter().enumerate().filter(|(_, host)| host.alive);
        self.judge.look(self.now, self.case.n, living.map(|(who, host)| (who, &host.process)));
    }

    /// The living leader that all who live believe in.
    fn agreed(&self) -> Option<usize> {
        let mut living = self.hosts.iter().filter(|host| host.alive);
        let leader = living.next()?.process.believes()?;
        let host = self.hosts.get(leader).filter(|host| host.alive && host.process.leads().is_some())?;
        (host.alive && living.all(|host| host.process.believes() == Some(leader))).then_some(leader)
    }

    fn note(&mut self, depth: u32, what: StepKind) {
        let Some(recording) = &mut self.recording else { return };
        let view = |host: &Host<A>| ProcessView {
            alive: host.alive,
            leader: host.process.believes().filter(|_| host.alive),
            leads: host.process.leads().filter(|_| host.alive),
            ..ProcessView::default()
        };
        let views = self.hosts.iter().map(view).collect();
        recording.steps.push(Step { at: self.now, depth, kind: what, views });
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
            believers_max: self.judge.believers_max,
            violations: self.judge.violations,
            recording: self.recording,
        }
    }
}

fn links(case: &Case) -> Vec<Vec<Link>> {
    let Lines::Of(topology) = &case.lines else { return Vec::new() };
    let link = |a: usize, b: usize| topology.link(a as u64 + 1, b as u64 + 1).unwrap_or(Link::LOOPBACK);
    (0..case.n).map(|a| (0..case.n).map(|b| link(a, b)).collect()).collect()
}

/// How many random numbers a process gets: enough for a few elections without repeating itself.
const DICE: usize = 32;
