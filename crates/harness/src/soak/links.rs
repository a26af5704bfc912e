//! Faults of the network: partitions, one-way cuts, bridges, delay, loss, flapping, resets, and clients cut off from
//! servers.
//!
//! There is one fault at a time, for some seconds. Servers are killed and stopped meanwhile (`faults`).

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::ledger::Ledger;
use crate::network::{Condition, Network, Place};
use crate::rng::Rng;

/// The links of an ensemble and its clients, and the current fault.
#[derive(Debug)]
pub(super) struct LinkFaults {
    network: Network,
    servers: usize,
    sites: usize,
    rng: Rng,
    ledger: Ledger,
    active: Option<Active>,
    /// Directions whose fault has ended, and when its last delayed bytes arrive.
    settling: Vec<(Instant, Place, Place)>,
    next: Instant,
    /// The kinds of the next faults. One is drawn at random.
    upcoming: Vec<Kind>,
    /// The number of faults of each kind.
    pub(super) counts: BTreeMap<&'static str, usize>,
}

/// A fault in progress.
#[derive(Debug)]
struct Active {
    name: &'static str,
    changes: Vec<(Place, Place, Condition)>,
    until: Instant,
    /// With flapping: the time of the next change between disturbed and undisturbed, and the interval.
    flap: Option<(Instant, Duration)>,
    /// Whether the changes are in force.
    on: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Minority,
    LeaderAlone,
    OneWay,
    Bridge,
    ClientsApart,
    Delay,
    Loss,
    Flap,
    Reset,
}

impl LinkFaults {
    pub(super) fn new(network: Network, servers: usize, sites: usize, rng: Rng, ledger: Ledger) -> Self {
        let (settling, upcoming, counts) = (Vec::new(), Vec::new(), BTreeMap::new());
        let next = Instant::now();
        Self { network, servers, sites, rng, ledger, active: None, settling, next, upcoming, counts }
    }

    /// Ends, flaps or begins a fault if that is due. With `rest`, no new fault begins.
    pub(super) fn step(&mut self, leader: Option<usize>, rest: bool) {
        let now = Instant::now();
        if self.active.as_ref().is_some_and(|active| active.until <= now) {
            self.end();
        }
        for (_, from, to) in self.settling.extract_if(.., |(at, _, _)| *at <= now) {
            self.ledger.restored(from, to);
        }
        if let Some(active) = &mut self.active
            && let Some((next, span)) = &mut active.flap
            && *next <= now
        {
            *next = now + *span;
            active.on = !active.on;
            for (from, to, condition) in &active.changes {
                self.network.set(*from, *to, if active.on { *condition } else { Condition::default() });
            }
        }
        if self.active.is_none() && !rest && now >= self.next {
            self.begin(leader);
        }
    }

    /// Ends the current fault.
    pub(super) fn end(&mut self) {
        if let Some(active) = self.active.take() {
            self.ledger.fault(format!("links: {} ends", active.name));
            for (from, to, condition) in &active.changes {
                self.network.set(*from, *to, Condition::default());
                self.settling.push((Instant::now() + condition.longest_delay(), *from, *to));
            }
            self.next = Instant::now() + self.rng.between(PAUSE_MIN, PAUSE_MAX);
        }
    }

    /// Whether there is no fault in progress, and all bytes delayed by the last one have arrived.
    pub(super) fn is_quiet(&self) -> bool {
        self.active.is_none() && self.settling.is_empty()
    }

    /// The name of the current fault; empty if there is none.
    pub(super) fn name(&self) -> &'static str {
        self.active.as_ref().map_or("", |active| active.name)
    }

    fn begin(&mut self, leader: Option<usize>) {
        if self.upcoming.is_empty() {
            self.upcoming.extend(KINDS);
        }
        let kind = self.upcoming.swap_remove(self.rng.below(self.upcoming.len()));
        let (name, changes) = self.changes(kind, leader);
        *self.counts.entry(name).or_default() += 1;
        let described: Vec<String> =
            changes.iter().map(|(from, to, condition)| format!("{from}>{to} {condition}")).collect();
        self.ledger.fault(format!("links: {name}: {}", described.join(", ")));
        for (from, to, condition) in &changes {
            self.ledger.disturbed(*from, *to);
            self.network.set(*from, *to, *condition);
            if kind == Kind::Reset {
                self.network.reset(*from, *to);
            }
        }
        let now = Instant::now();
        let span = if kind == Kind::Reset { Duration::ZERO } else { self.rng.between(SPAN_MIN, SPAN_MAX) };
        let flap = (kind == Kind::Flap).then(|| {
            let span = self.rng.between(FLAP_MIN, FLAP_MAX);
            (now + span, span)
        });
        self.active = Some(Active { name, changes, until: now + span, flap, on: true });
    }

    fn changes(&mut self, kind: Kind, leader: Option<usize>) -> (&'static str, Vec<(Place, Place, Condition)>) {
        let servers = self.servers;
        let someone = self.rng.below(servers);
        let server = leader.filter(|_| self.rng.one_in(2)).unwrap_or(someone);
        let order = self.shuffled();
        let others = |of: usize| (0..servers).filter(move |other| *other != of);
        let both = |one: usize, other: usize, condition: Condition| {
            let (one, other) = (Place::Server(one), Place::Server(other));
            [(one, other, condition), (other, one, condition)]
        };
        let between = |ones: &[usize], others: &[usize]| -> Vec<(Place, Place, Condition)> {
            let pairs = ones.iter().flat_map(|one| others.iter().map(move |other| (*one, *other)));
            pairs.flat_map(|(one, other)| both(one, other, Condition::CUT)).collect()
        };
        match kind {
            Kind::Minority => {
                let size = 1 + self.rng.below((servers - 1) / 2);
                ("partition", between(&order[..size], &order[size..]))
            }
            Kind::LeaderAlone => {
                let alone = leader.unwrap_or(someone);
                ("leader alone", between(&[alone], &others(alone).collect::<Vec<_>>()))
            }
            Kind::OneWay => {
                let out = self.rng.one_in(2);
                let change = |other| match out {
                    true => (Place::Server(server), Place::Server(other), Condition::CUT),
                    false => (Place::Server(other), Place::Server(server), Condition::CUT),
                };
                ("one way", others(server).map(change).collect())
            }
            Kind::Bridge => {
                // Two halves that are cut from each other, and one server that reaches both.
                let half = (servers - 1) / 2;
                ("bridge", between(&order[1..=half], &order[half + 1..]))
            }
            Kind::ClientsApart => {
                let site = Place::Site(self.rng.below(self.sites));
                let all = self.rng.one_in(4);
                let from = (0..servers).filter(|other| all || *other == server).map(Place::Server);
                (
                    "clients apart",
                    from.flat_map(|to| [(site, to, Condition::CUT), (to, site, Condition::CUT)]).collect(),
                )
            }
            Kind::Delay => {
                let condition = Condition::slow(self.rng.between(DELAY_MIN, DELAY_MAX));
                ("delay", others(server).flat_map(|other| both(server, other, condition)).collect())
            }
            Kind::Loss => {
                let condition = Condition::lossy(1 + self.rng.below(LOSS_PERCENT_MAX));
                ("loss", others(server).flat_map(|other| both(server, other, condition)).collect())
            }
            Kind::Flap => ("flapping", others(server).flat_map(|other| both(server, other, Condition::CUT)).collect()),
            Kind::Reset => {
                ("reset", others(server).flat_map(|other| both(server, other, Condition::default())).collect())
            }
        }
    }

    fn shuffled(&mut self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.servers).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, self.rng.below(last + 1));
        }
        order
    }
}

const KINDS: [Kind; 9] = [
    Kind::Minority,
    Kind::LeaderAlone,
    Kind::OneWay,
    Kind::Bridge,
    Kind::ClientsApart,
    Kind::Delay,
    Kind::Loss,
    Kind::Flap,
    Kind::Reset,
];

/// The pause between two faults.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_millis(5000);

/// The duration of a fault. Some end before they are detected, some are long enough for a new leader.
const SPAN_MIN: Duration = Duration::from_millis(200);
const SPAN_MAX: Duration = Duration::from_millis(5000);

const FLAP_MIN: Duration = Duration::from_millis(50);
const FLAP_MAX: Duration = Duration::from_millis(800);

/// The added delay in each direction. A write crosses the links of the leader four times (forwarded, proposed,
/// acknowledged, committed), and a leader that answers is not given up for being slow: with 250 ms every write would take
/// as long as the longest pause that is allowed. `cargo xtask attack slow-links` adds 300 ms.
const DELAY_MIN: Duration = Duration::from_millis(10);
const DELAY_MAX: Duration = Duration::from_millis(200);

const LOSS_PERCENT_MAX: usize = 10;
