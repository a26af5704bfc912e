//! The queue of events, the network, the faults and the checks.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use pole_oracle::ResignConfig;
use pole_types::{Span, Time};

use super::client::{Client, DriftingClock};
use super::random::Random;
use super::store::ModelStore;
use crate::election::{Answer, Effect, Event, Op, OpId, Strategy, YieldReason};
use crate::record::{Leader, Record};
use crate::score::Value;
use crate::store::{Entry, Error, Granted, LeaseId, Plain, Swap, Target};
use crate::timing::Timing;
use crate::token::Token;

/// The result of one seed.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What was violated, with the virtual time.
    pub violation: Option<String>,
    /// Terms, by how often a candidate began to lead.
    pub terms: u64,
    /// Faults that were injected.
    pub faults: u64,
    /// Store operations that arrived.
    pub operations: u64,
    /// States that watches delivered.
    pub wake_ups: u64,
    /// Events that were handled.
    pub events: u64,
    /// Virtual seconds.
    pub seconds: u64,
    /// One line for each step, if asked for.
    pub trace: String,
}

/// Runs one seed. The same seed gives the same outcome, byte for byte.
#[must_use]
pub fn run(seed: u64, trace: bool) -> Outcome {
    let mut random = Random::new(seed);
    let timing = Timing::for_ttl(Duration::from_millis(random.between(500, 4_000)));
    let strategy = if random.chance(150) { Strategy::FirstCome } else { Strategy::BestScore };
    let clients = random.between(2, 9);
    let mut world = World::new(random, clients as usize, timing, strategy, trace);
    world.loss_permille = world.random.below(60);
    world.slow_permille = world.random.below(150);
    world.run_faults();
    world.run_recovery();
    world.outcome.seconds = world.now / SECOND;
    world.outcome
}

pub(super) struct World {
    pub(super) now: u64,
    pub(super) random: Random,
    pub(super) timing: Timing,
    strategy: Strategy,
    pub(super) store: ModelStore,
    store_clock: DriftingClock,
    /// Messages that arrive before this time are lost.
    pub(super) store_up_at: u64,
    pub(super) clients: Vec<Client>,
    pub(super) queue: BTreeMap<(u64, u64), What>,
    sequence: u64,
    /// The watches of each record.
    pub(super) watches: BTreeMap<Target, BTreeMap<usize, SimWatch>>,
    /// The operations that were not answered yet, with the answer that their time-out gives.
    open: BTreeMap<(usize, u64, OpId), Answer>,
    pub(super) loss_permille: u64,
    /// Messages that take up to twice a lease.
    pub(super) slow_permille: u64,
    pub(super) latency: (u64, u64),
    highest: Token,
    trace: bool,
    pub(super) outcome: Outcome,
}

/// A watch in the store.
pub(super) struct SimWatch {
    start: u64,
    number: u64,
    /// The state that was sent last.
    sent: Option<Option<Entry>>,
    /// When the last report arrives; later ones do not overtake it.
    arrives: u64,
    /// Whether a report was lost. Then the connection is broken, and the client hears of that.
    broken: bool,
}

/// Something that happens at a time.
pub(super) enum What {
    /// An event of a client. The second number is the start that it belongs to.
    Client(usize, u64, Event),
    /// The timer with that number.
    Timer(usize, u64),
    /// An operation arrives at the store.
    Arrive(usize, u64, OpId, Op),
    /// An operation was not answered in time.
    TimeOut(usize, u64, OpId),
    /// A watch begins at the store.
    Watch(usize, u64, Target, u64),
    /// A report of a watch arrives.
    Report(usize, u64, Target, u64, Option<Entry>),
    /// A lease may end.
    Expire(LeaseId),
    /// The application has stopped.
    Stopped(usize, u64, Token),
    Resume(usize),
    Cut(usize, u64),
    Boot(usize),
    Fault,
}

impl World {
    pub(super) fn new(mut random: Random, clients: usize, timing: Timing, strategy: Strategy, trace: bool) -> Self {
        let store_clock = DriftingClock::random(&mut random);
        let client = |number: usize| Client::new(format!("c{number:05}"), DriftingClock::random(&mut random));
        let clients = (0..clients).map(client).collect();
        Self {
            now: 0,
            random,
            timing,
            strategy,
            store: ModelStore::default(),
            store_clock,
            store_up_at: 0,
            clients,
            queue: BTreeMap::new(),
            sequence: 0,
            watches: BTreeMap::new(),
            open: BTreeMap::new(),
            loss_permille: 0,
            slow_permille: 0,
            latency: (100_000, 5_000_000),
            highest: Token::ZERO,
            trace,
            outcome: Outcome::default(),
        }
    }

    pub(super) fn run_until(&mut self, until: u64) {
        while self.outcome.violation.is_none() {
            let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= until) else { break };
            let ((at, _), what) = entry.remove_entry();
            assert!(at >= self.now, "time does not go back: {at} after {}", self.now);
            self.now = at;
            self.outcome.events += 1;
            self.handle(what);
        }
        self.now = self.now.max(until);
    }

    pub(super) fn at(&mut self, at: u64, what: What) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), what);
    }

    fn handle(&mut self, what: What) {
        match what {
            What::Client(client, start, event) => self.deliver(client, start, event),
            What::Timer(client, number) => {
                if self.clients[client].timer == number {
                    let start = self.clients[client].start;
                    self.deliver(client, start, Event::Timer);
                }
            }
            What::Arrive(client, start, id, op) => self.arrive(client, start, id, op),
            What::TimeOut(client, start, id) => {
                if let Some(answer) = self.open.remove(&(client, start, id)) {
                    self.deliver(client, start, Event::Answer(id, answer));
                }
            }
            What::Watch(client, start, target, number) => self.begin_watch(client, start, target, number),
            What::Report(client, start, target, number, entry) => {
                if self.is_watching(client, target, number) {
                    self.outcome.wake_ups += 1;
                    self.deliver(client, start, Event::Watched(target, entry));
                }
            }
            What::Expire(lease) => {
                if self.store.expire(self.store_clock.local(self.now), lease) {
                    self.note(|| format!("store: lease {lease} ends"));
                    self.changed(Target::Lease(lease));
                }
            }
            What::Stopped(client, start, token) => {
                if let Some(guard) = self.clients[client].guard.as_mut().filter(|guard| guard.token == token) {
                    guard.working = false;
                }
                self.deliver(client, start, Event::Released(token));
            }
            What::Resume(client) => self.resume(client),
            What::Cut(client, span) => self.partition(client, span),
            What::Boot(client) => self.boot(client),
            What::Fault => self.fault(),
        }
    }

    pub(super) fn boot(&mut self, client: usize) {
        if self.clients[client].election.is_some() {
            return;
        }
        let resign = ResignConfig {
            hold: Span(self.timing.review.0 * 2),
            cooldown: self.timing.ttl,
            max_per_hour: 100,
            ..ResignConfig::default()
        };
        let (timing, strategy) = (self.timing.clone(), self.strategy);
        self.clients[client].boot(&timing, strategy, resign);
        self.note(|| format!("c{client:05}: starts"));
        let start = self.clients[client].start;
        self.new_score(client);
        self.deliver(client, start, Event::Eligible(true));
    }

    pub(super) fn new_score(&mut self, client: usize) {
        let value = Some(Value::from_milli(self.random.between(1_000, 100_000) as i64));
        let ttl = self.random.chance(100).then_some(self.timing.ttl);
        let start = self.clients[client].start;
        self.deliver(client, start, Event::Score { value, ttl, computed_ms: 0 });
    }

    pub(super) fn resume(&mut self, client: usize) {
        let start = self.clients[client].start;
        for event in self.clients[client].paused.take().unwrap_or_default() {
            self.deliver(client, start, event);
        }
    }

    /// Gives an event to a client, or keeps it while the client is paused.
    pub(super) fn deliver(&mut self, client: usize, start: u64, event: Event) {
        let one = &mut self.clients[client];
        if one.start != start || one.election.is_none() {
            return;
        }
        if let Some(kept) = &mut one.paused {
            return kept.push(event);
        }
        if let Event::Answer(id, _) = &event {
            self.open.remove(&(client, start, *id));
        }
        let local = one.clock.local(self.now);
        let election = one.election.as_mut().expect("it runs");
        let text = self.trace.then(|| brief(&event));
        let effects = election.step(local, event);
        let wake = election.wake_at();
        if let Some(text) = text {
            self.note(|| format!("c{client:05}: {text}"));
        }
        for effect in effects {
            self.carry_out(client, start, effect);
        }
        self.arm(client, wake);
    }

    fn arm(&mut self, client: usize, wake: Option<Time>) {
        self.clients[client].timer += 1;
        let number = self.clients[client].timer;
        if let Some(wake) = wake {
            // A scheduler is never early, and sometimes late.
            let late = if self.random.chance(50) { self.random.below(self.timing.ttl.0 / 50) } else { 0 };
            let at = self.clients[client].clock.when(wake).max(self.now) + late;
            self.at(at, What::Timer(client, number));
        }
    }

    fn carry_out(&mut self, client: usize, start: u64, effect: Effect) {
        match effect {
            Effect::Store(id, op) => self.send(client, start, id, op),
            Effect::Watch(target) => {
                self.sequence += 1;
                let number = self.sequence;
                let sim = SimWatch { start, number, sent: None, arrives: 0, broken: false };
                self.watches.entry(target).or_default().insert(client, sim);
                match self.transit(client) {
                    Some(delay) => self.at(self.now + delay, What::Watch(client, start, target, number)),
                    None => self.fail_watch(client, target),
                }
            }
            Effect::Unwatch(target) => self.unwatch(client, target),
            Effect::Lead { token, deadline } => self.lead(client, token, deadline),
            Effect::Extend { deadline } => {
                let now = self.now;
                self.clients[client].extend(now, deadline);
                self.check_guards(client);
            }
            Effect::Yield { token, reason } => {
                self.note(|| format!("c{client:05}: yields {token}, {reason}"));
                self.check_superseded(client, token, &reason);
                self.clients[client].end();
                let stopping = self.random.below(self.timing.ttl.0);
                self.at(self.now + stopping, What::Stopped(client, start, token));
            }
            Effect::Leader(_) | Effect::Trouble(_) | Effect::Left => {}
        }
    }

    fn lead(&mut self, client: usize, token: Token, deadline: Time) {
        self.outcome.terms += 1;
        self.note(|| format!("c{client:05}: LEADS {token}"));
        if self.clients[client].guard.is_some_and(|guard| guard.working) {
            self.violate(format!("c{client:05} leads {token} while its application still works"));
        }
        if token <= self.highest {
            self.violate(format!("token {token} after {}", self.highest));
        }
        self.highest = token;
        self.clients[client].lead(token, deadline);
        self.check_guards(client);
    }

    /// No guard but that of `client` may be valid.
    fn check_guards(&mut self, client: usize) {
        if !self.clients[client].is_valid(self.now) {
            return;
        }
        let others = (0..self.clients.len()).filter(|other| *other != client);
        if let Some(other) = others.into_iter().find(|other| self.clients[*other].is_valid(self.now)) {
            self.violate(format!("the guards of c{client:05} and c{other:05} are valid at one time"));
        }
    }

    /// A leader gives way to another record only if there is one: an old report must not end a term.
    fn check_superseded(&mut self, client: usize, token: Token, reason: &YieldReason) {
        let record = self.store.read(Target::Leader).and_then(|entry| Leader::decode(&entry.value).ok());
        if *reason == YieldReason::Superseded && record.is_some_and(|record| record.token == token) {
            self.violate(format!("c{client:05} gives up {token} for an old record"));
        }
    }

    fn send(&mut self, client: usize, start: u64, id: OpId, op: Op) {
        if let Op::Swap(Swap { record: Plain::Leader, value, .. }) = &op {
            let resigned = Leader::decode(value).is_ok_and(|record| record.resigned);
            if resigned && self.clients[client].guard.is_some_and(|guard| guard.working) {
                self.violate(format!("c{client:05} resigns while its application still works"));
            }
        }
        let unanswered = op.unanswered(Error::Unavailable("no answer".to_owned()));
        self.open.insert((client, start, id), unanswered);
        let limit = self.clients[client].clock.after(self.now, self.timing.operation);
        self.at(limit, What::TimeOut(client, start, id));
        if let Some(delay) = self.transit(client) {
            self.at(self.now + delay, What::Arrive(client, start, id, op));
        }
    }

    /// The time that a message takes, or None if it is lost.
    fn transit(&mut self, client: usize) -> Option<u64> {
        let lost = self.random.chance(self.loss_permille) || self.now < self.clients[client].cut_until;
        let (least, most) = self.latency;
        // Most slow messages still arrive before the sender gives up.
        let longest = if self.random.chance(800) { self.timing.operation.0 } else { self.timing.ttl.0 * 2 };
        let slow = self.random.chance(self.slow_permille);
        let delay = if slow { self.random.below(longest) } else { self.random.between(least, most) };
        (!lost).then_some(delay)
    }

    fn arrive(&mut self, client: usize, start: u64, id: OpId, op: Op) {
        if self.now < self.store_up_at {
            return;
        }
        self.outcome.operations += 1;
        let answer = self.apply(op);
        if let Some(delay) = self.transit(client) {
            self.at(self.now + delay, What::Client(client, start, Event::Answer(id, answer)));
        }
    }

    /// Applies an operation, which takes effect now.
    fn apply(&mut self, op: Op) -> Answer {
        let local = self.store_clock.local(self.now);
        match op {
            Op::Read(target) => Answer::Read(Ok(self.store.read(target))),
            Op::List => Answer::List(Ok(self.store.list())),
            Op::Swap(swap) => {
                let target = swap.record.into();
                let swapped = self.store.swap(swap);
                self.changed(target);
                Answer::Swap(Ok(swapped))
            }
            Op::Publish { lease, record, ttl } => {
                let ends = self.store.publish(local, lease, record, ttl);
                self.at(self.store_clock.when(ends), What::Expire(lease));
                self.changed(Target::Lease(lease));
                Answer::Publish(Ok(Granted { ttl: Duration::from_nanos(ttl.0) }))
            }
            Op::Renew { lease, record } => {
                let (renewed, ends) = self.store.renew(local, lease, record);
                if let Some(ends) = ends {
                    self.at(self.store_clock.when(ends), What::Expire(lease));
                    self.changed(Target::Lease(lease));
                }
                Answer::Renew(Ok(renewed))
            }
            Op::Withdraw(lease) => {
                self.store.withdraw(lease);
                self.changed(Target::Lease(lease));
                Answer::Withdraw(Ok(()))
            }
        }
    }

    fn is_watching(&self, client: usize, target: Target, number: u64) -> bool {
        let watch = self.watches.get(&target).and_then(|watches| watches.get(&client));
        watch.is_some_and(|watch| watch.number == number && watch.start == self.clients[client].start)
    }

    fn begin_watch(&mut self, client: usize, start: u64, target: Target, number: u64) {
        if self.is_watching(client, target, number) {
            self.outcome.operations += 1;
            if self.now < self.store_up_at {
                return self.fail_watch(client, target);
            }
            self.report(client, start, target);
        }
    }

    /// A record may have changed: reports go to its watches.
    pub(super) fn changed(&mut self, target: Target) {
        let Some(watches) = self.watches.get(&target) else { return };
        // A watch that has not arrived at the store yet reports when it does.
        let clients: Vec<(usize, u64)> = watches
            .iter()
            .filter(|(_, watch)| watch.sent.is_some() && !watch.broken)
            .map(|(client, watch)| (*client, watch.start))
            .collect();
        for (client, start) in clients {
            self.report(client, start, target);
        }
    }

    fn report(&mut self, client: usize, start: u64, target: Target) {
        let entry = self.store.read(target);
        let transit = self.transit(client);
        let now = self.now;
        let Some(watch) = self.watches.get_mut(&target).and_then(|watches| watches.get_mut(&client)) else { return };
        if watch.sent.as_ref() == Some(&entry) {
            return;
        }
        watch.sent = Some(entry.clone());
        match transit {
            Some(delay) => {
                watch.arrives = watch.arrives.max(now + delay);
                let (at, number) = (watch.arrives, watch.number);
                self.at(at, What::Report(client, start, target, number, entry));
            }
            None => self.fail_watch(client, target),
        }
    }

    /// A report was lost. The client learns that its connection is broken, some time later.
    pub(super) fn fail_watch(&mut self, client: usize, target: Target) {
        let later = self.random.between(self.timing.retry.0, self.timing.ttl.0);
        let Some(watch) = self.watches.get_mut(&target).and_then(|watches| watches.get_mut(&client)) else { return };
        if !std::mem::replace(&mut watch.broken, true) {
            let (start, after) = (watch.start, self.clients[client].cut_until.max(self.store_up_at).max(self.now));
            self.at(after + later, What::Client(client, start, Event::WatchFailed(target)));
        }
    }

    fn unwatch(&mut self, client: usize, target: Target) {
        if let Some(watches) = self.watches.get_mut(&target) {
            watches.remove(&client);
            if watches.is_empty() {
                self.watches.remove(&target);
            }
        }
    }

    pub(super) fn violate(&mut self, what: String) {
        let text = format!("at {} ms: {what}", self.now / 1_000_000);
        self.note(|| format!("VIOLATION {what}"));
        self.outcome.violation.get_or_insert(text);
    }

    pub(super) fn note(&mut self, text: impl FnOnce() -> String) {
        if self.trace {
            let _ = writeln!(self.outcome.trace, "{:>10.3} ms  {}", self.now as f64 / 1e6, text());
        }
    }
}

fn brief(event: &Event) -> String {
    if let Event::Answer(_, Answer::List(Ok(list))) = event {
        return format!("list of {}", list.len());
    }
    if let Event::Watched(target, entry) = event {
        let text = entry.as_ref().map(|entry| String::from_utf8_lossy(&entry.value).into_owned());
        return format!("sees {target}: {}", text.unwrap_or_else(|| "gone".to_owned()));
    }
    format!("{event:?}")
}

pub(super) const SECOND: u64 = 1_000_000_000;
