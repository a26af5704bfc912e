//! Faults of the network: partitions, one-way cuts, bridges, delay, loss, flapping, resets, clients apart from servers.
//!
//! One at a time, each for some seconds. Servers are killed and stopped meanwhile (`faults`).

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::ledger::Ledger;
use crate::dice::Dice;
use crate::network::{Condition, Network, Place};

/// The links of an ensemble and its clients, and what has been done to them.
#[derive(Debug)]
pub(super) struct LinkFaults {
    network: Network,
    servers: usize,
    sites: usize,
    dice: Dice,
    ledger: Ledger,
    active: Option<Active>,
    next: Instant,
    /// What comes next, in random order.
    deck: Vec<Kind>,
    /// How often each kind came.
    pub(super) counts: BTreeMap<&'static str, usize>,
}

/// A fault under way.
#[derive(Debug)]
struct Active {
    name: &'static str,
    changes: Vec<(Place, Place, Condition)>,
    until: Instant,
    /// When the links change between well and disturbed, and how often that happens.
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
    pub(super) fn new(network: Network, servers: usize, sites: usize, dice: Dice, ledger: Ledger) -> Self {
        let (deck, counts) = (Vec::new(), BTreeMap::new());
        Self { network, servers, sites, dice, ledger, active: None, next: Instant::now(), deck, counts }
    }

    /// Does what is due. With `rest` nothing new begins.
    pub(super) fn step(&mut self, leader: Option<usize>, rest: bool) {
        let now = Instant::now();
        if self.active.as_ref().is_some_and(|active| active.until <= now) {
            self.end();
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

    /// Ends what is under way.
    pub(super) fn end(&mut self) {
        if let Some(active) = self.active.take() {
            self.ledger.fault(format!("links: {} ends", active.name));
            for (from, to, _) in &active.changes {
                self.network.set(*from, *to, Condition::default());
                self.ledger.restored(*from, *to);
            }
            self.next = Instant::now() + self.dice.between(PAUSE_MIN, PAUSE_MAX);
        }
    }

    /// Whether all links are well, and have been for this long.
    pub(super) fn is_quiet(&self) -> bool {
        self.active.is_none()
    }

    /// What is under way.
    pub(super) fn name(&self) -> &'static str {
        self.active.as_ref().map_or("", |active| active.name)
    }

    fn begin(&mut self, leader: Option<usize>) {
        if self.deck.is_empty() {
            self.deck.extend(KINDS);
        }
        let kind = self.deck.swap_remove(self.dice.below(self.deck.len()));
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
        let span = if kind == Kind::Reset { Duration::ZERO } else { self.dice.between(SPAN_MIN, SPAN_MAX) };
        let flap = (kind == Kind::Flap).then(|| {
            let span = self.dice.between(FLAP_MIN, FLAP_MAX);
            (now + span, span)
        });
        self.active = Some(Active { name, changes, until: now + span, flap, on: true });
    }

    fn changes(&mut self, kind: Kind, leader: Option<usize>) -> (&'static str, Vec<(Place, Place, Condition)>) {
        let servers = self.servers;
        let someone = self.dice.below(servers);
        let server = leader.filter(|_| self.dice.one_in(2)).unwrap_or(someone);
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
                let size = 1 + self.dice.below((servers - 1) / 2);
                ("partition", between(&order[..size], &order[size..]))
            }
            Kind::LeaderAlone => {
                let alone = leader.unwrap_or(someone);
                ("leader alone", between(&[alone], &others(alone).collect::<Vec<_>>()))
            }
            Kind::OneWay => {
                let out = self.dice.one_in(2);
                let way = |other| match out {
                    true => (Place::Server(server), Place::Server(other), Condition::CUT),
                    false => (Place::Server(other), Place::Server(server), Condition::CUT),
                };
                ("one way", others(server).map(way).collect())
            }
            Kind::Bridge => {
                // Two halves, and one server that both can reach.
                let half = (servers - 1) / 2;
                ("bridge", between(&order[1..=half], &order[half + 1..]))
            }
            Kind::ClientsApart => {
                let site = Place::Site(self.dice.below(self.sites));
                let all = self.dice.one_in(4);
                let from = (0..servers).filter(|other| all || *other == server).map(Place::Server);
                (
                    "clients apart",
                    from.flat_map(|to| [(site, to, Condition::CUT), (to, site, Condition::CUT)]).collect(),
                )
            }
            Kind::Delay => {
                let condition = Condition::slow(self.dice.between(DELAY_MIN, DELAY_MAX));
                ("delay", others(server).flat_map(|other| both(server, other, condition)).collect())
            }
            Kind::Loss => {
                let condition = Condition::lossy(1 + self.dice.below(LOSS_PERCENT_MAX));
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
            order.swap(last, self.dice.below(last + 1));
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

/// Between two faults of the network.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_millis(5000);

/// How long one lasts: some are over before anyone notices, some are long enough for a new leader.
const SPAN_MIN: Duration = Duration::from_millis(200);
const SPAN_MAX: Duration = Duration::from_millis(5000);

const FLAP_MIN: Duration = Duration::from_millis(50);
const FLAP_MAX: Duration = Duration::from_millis(800);

/// Each way.
const DELAY_MIN: Duration = Duration::from_millis(10);
const DELAY_MAX: Duration = Duration::from_millis(300);

const LOSS_PERCENT_MAX: usize = 10;
