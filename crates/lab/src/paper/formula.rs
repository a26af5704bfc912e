//! The paper's formulas for a deployment: request latencies under each leader, and the winner under each oracle.
//!
//! `oracle` computes scores from what a server has measured; this module computes them from the topology file, so
//! that the two can be compared. It shares nothing with `oracle` but the boundaries of classes. Tests check it
//! against the table of section 5.
//!
//! Source: sections 3 and 5 of the paper.

use std::collections::BTreeMap;

use pole_oracle::{Class, DIRECT_ACKS_MARGIN};
use pole_topology::Topology;

use super::question::Question;
use super::rows::ms;

/// A deployment, some of whose servers may have crashed.
#[derive(Clone, Debug)]
pub struct Formula<'a> {
    topology: &'a Topology,
    /// N: the ids of all servers.
    servers: Vec<u64>,
    /// N': the ids of the running servers.
    live: Vec<u64>,
    /// The write rate at each server of N', including the clients of crashed servers, in requests per second.
    rates: BTreeMap<u64, f64>,
    /// Whether followers count acknowledgements themselves.
    direct: bool,
}

/// The winner by the formulas, and the servers that may win instead when measured scores nearly tie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Winner {
    /// The winner by the formula alone; among equals the higher id.
    pub id: u64,
    /// The servers whose score is in the best class or may be measured to be in it. Includes the winner.
    pub ties: Vec<u64>,
}

impl<'a> Formula<'a> {
    /// The deployment after the crash of its first leader, which is the server with the highest id.
    #[must_use]
    pub fn after_crash(topology: &'a Topology) -> Self {
        let last = topology.servers().map(|server| server.id).max();
        Self::without(topology, last.as_slice())
    }

    /// The deployment with all servers running.
    #[must_use]
    pub fn whole(topology: &'a Topology) -> Self {
        Self::without(topology, &[])
    }

    fn without(topology: &'a Topology, crashed: &[u64]) -> Self {
        let servers: Vec<u64> = topology.servers().map(|server| server.id).collect();
        let live: Vec<u64> = servers.iter().copied().filter(|id| !crashed.contains(id)).collect();
        let rate = |id: u64| topology.rate_milli(id) as f64 / 1e3;
        let mut rates: BTreeMap<u64, f64> = live.iter().map(|id| (*id, rate(*id))).collect();
        for lost in crashed {
            let far = |id: u64| topology.rtt(*lost, id).unwrap_or(u64::MAX);
            let nearest = live.iter().map(|id| far(*id)).min();
            let takers: Vec<u64> = live.iter().copied().filter(|id| Some(far(*id)) == nearest).collect();
            for taker in &takers {
                *rates.entry(*taker).or_default() += rate(*lost) / takers.len() as f64;
            }
        }
        Self { topology, servers, live, rates, direct: false }
    }

    /// The same deployment with or without direct acknowledgements, where these save more than the margin.
    #[must_use]
    pub fn direct(self, direct: bool) -> Self {
        Self { direct, ..self }
    }

    /// N': the ids of the servers that can lead.
    #[must_use]
    pub fn live(&self) -> &[u64] {
        &self.live
    }

    /// θc: the round trip to the farthest member of the nearest quorum.
    #[must_use]
    pub fn consensus_ms(&self, leader: u64) -> f64 {
        let mut trips: Vec<f64> = self.live.iter().map(|id| self.rtt_ms(leader, *id)).collect();
        trips.sort_by(f64::total_cmp);
        trips.get(self.quorum() - 1).copied().unwrap_or(f64::INFINITY)
    }

    /// θl: the mean over all requests.
    #[must_use]
    pub fn latency_ms(&self, leader: u64) -> f64 {
        self.mean_ms(leader, |_| true)
    }

    /// θw: the latency of a request from the farthest server.
    #[must_use]
    pub fn worst_ms(&self, leader: u64) -> f64 {
        self.live.iter().map(|id| self.request_ms(leader, *id)).fold(0.0, f64::max)
    }

    /// The mean over the requests of one site, whose clients connect to the nearest running servers.
    #[must_use]
    pub fn site_ms(&self, leader: u64, site: &str) -> f64 {
        self.mean_ms(leader, |id| self.topology.site(id) == Some(site))
    }

    /// The leader with the lowest mean latency; among equals the higher id.
    #[must_use]
    pub fn best(&self) -> u64 {
        let better = |a: &&u64, b: &&u64| self.latency_ms(**a).total_cmp(&self.latency_ms(**b)).then(b.cmp(a));
        self.live.iter().min_by(better).copied().unwrap_or(0)
    }

    /// The winner under an oracle if all servers are level and the first leader, the highest id, has crashed; none
    /// for an oracle without a formula here. `disk_ms` is part of every score that is a latency, since servers
    /// measure it.
    #[must_use]
    pub fn winner(&self, oracle: &str, disk_ms: f64) -> Option<Winner> {
        let (name, rest) = oracle.split_once(['/', '=']).unwrap_or((oracle, ""));
        let times = |score: &dyn Fn(u64) -> f64, width_us: u32| {
            let class = |ms: f64| Class::Micros(width_us).of((ms * 1e3) as i64);
            self.best_class(score, class, |_| NOISE_MS + f64::from(width_us) / 1e4)
        };
        match name {
            "history" => self.nearest_to_crashed(),
            "rotating" => certain(self.live.iter().copied().min()),
            "preference" => certain(rest.split(',').filter_map(|id| id.parse().ok()).find(|id| self.live.contains(id))),
            "request" => {
                let class = |negative: f64| Class::Percent(10).of(negative as i64);
                self.best_class(|id| -1e3 * self.rate(id), class, |negative| -negative / 50.0)
            }
            "consensus" => times(&|id| self.consensus_ms(id) + disk_ms, 1_000),
            "latency" => times(&|id| self.latency_ms(id) + disk_ms, 1_000),
            "worst-case" => times(&|id| self.worst_ms(id) + disk_ms, 1_000),
            "recovery" => {
                let question = Question::exact(self.topology.clone(), &[]);
                times(&|id| question.predict(id).map_or(f64::INFINITY, ms), 1_000)
            }
            "combined" if rest == "latency/10ms,history" => times(&|id| self.latency_ms(id) + disk_ms, 10_000),
            _ => None,
        }
    }

    fn quorum(&self) -> usize {
        self.servers.len() / 2 + 1
    }

    fn rtt_ms(&self, a: u64, b: u64) -> f64 {
        self.topology.rtt(a, b).map_or(f64::INFINITY, |ns| ns as f64 / 1e6)
    }

    fn rate(&self, id: u64) -> f64 {
        self.rates.get(&id).copied().unwrap_or(0.0)
    }

    /// The latency of a request from a server: the round trip to the leader and agreement. With direct acknowledgements,
    /// the way to the leader and the time until the acknowledgements of a quorum, its own among them, have reached it.
    fn request_ms(&self, leader: u64, id: u64) -> f64 {
        let way = self.rtt_ms(leader, id) / 2.0;
        let announced = self.consensus_ms(leader) + way;
        let mut known: Vec<f64> =
            self.live.iter().map(|voter| (self.rtt_ms(leader, *voter) + self.rtt_ms(*voter, id)) / 2.0).collect();
        known.sort_by(f64::total_cmp);
        let known = known.get(self.quorum() - 1).copied().unwrap_or(f64::INFINITY);
        let pays = self.direct && id != leader && announced - known > DIRECT_MARGIN_MS;
        way + if pays { known } else { announced }
    }

    /// The mean latency, weighted by the requests of the servers that count; unweighted if there are none.
    fn mean_ms(&self, leader: u64, counts: impl Fn(u64) -> bool) -> f64 {
        let of: Vec<u64> = self.live.iter().copied().filter(|id| counts(*id)).collect();
        let idle = of.iter().all(|id| self.rate(*id) == 0.0);
        let weight = |id: u64| if idle { 1.0 } else { self.rate(id) };
        let weights: f64 = of.iter().map(|id| weight(*id)).sum();
        let sum: f64 = of.iter().map(|id| weight(*id) * self.request_ms(leader, *id)).sum();
        if of.is_empty() { f64::INFINITY } else { sum / weights }
    }

    /// All servers are level, so the higher id wins. Under load the last write may not be everywhere yet; the servers
    /// nearest to the crashed leader received it first, so they count as ties.
    fn nearest_to_crashed(&self) -> Option<Winner> {
        let crashed = self.servers.iter().copied().find(|id| !self.live.contains(id));
        let far = |id: u64| crashed.and_then(|crashed| self.topology.rtt(crashed, id)).unwrap_or(0);
        let nearest = self.live.iter().map(|id| far(*id)).min()?;
        let id = self.live.iter().copied().max()?;
        let ties = self.live.iter().copied().filter(|tie| *tie == id || far(*tie) == nearest).collect();
        Some(Winner { id, ties })
    }

    /// The smallest class wins, among equals the higher id; `noise` is how far a measured score may be from the true
    /// one.
    fn best_class(
        &self,
        score: impl Fn(u64) -> f64,
        class: impl Fn(f64) -> i64,
        noise: impl Fn(f64) -> f64,
    ) -> Option<Winner> {
        let moved = |id: u64, by: f64| class(score(id) + by * noise(score(id)));
        let id = self.live.iter().copied().min_by_key(|id| (moved(*id, 0.0), std::cmp::Reverse(*id)))?;
        let best = self.live.iter().map(|id| moved(*id, 1.0)).min()?;
        let ties = self.live.iter().copied().filter(|tie| *tie == id || moved(*tie, -1.0) <= best).collect();
        Some(Winner { id, ties })
    }
}

fn certain(id: Option<u64>) -> Option<Winner> {
    id.map(|id| Winner { id, ties: vec![id] })
}

/// From what gain on direct acknowledgements are used.
const DIRECT_MARGIN_MS: f64 = DIRECT_ACKS_MARGIN.0 as f64 / 1e6;

/// The largest difference between a smoothed score and the true one with deviations of 2 % per message. A tenth of a
/// class is added to it, since a server stays in its class until it is that far outside.
const NOISE_MS: f64 = 0.25;
