//! How good the leader is that each algorithm elects: its mean request latency relative to the best possible one.
//!
//! On a deployment of the paper the leader p5 has crashed. The quality is the new leader's latency by the formula of
//! the paper (section 2.2, with the round trip for a request that a follower forwards), divided by the smallest one.
//! The clients of p5 move to the running servers nearest to it, in equal parts.

use std::collections::BTreeMap;

use pole_topology::Topology;

use super::{Case, Kind, Occurrence};
use pole_sim::MS;

/// The quality of the leaders of one algorithm on one deployment.
#[derive(Clone, Debug)]
pub struct Quality {
    /// The algorithm.
    pub kind: Kind,
    /// The deployment.
    pub topology: String,
    /// How often each server was elected, by its id from 1 to 5.
    pub leaders: BTreeMap<u64, u64>,
    /// The leader's mean request latency, averaged over the runs, in milliseconds.
    pub mean_ms: f64,
    /// The mean request latency of the best possible leader, in milliseconds.
    pub best_ms: f64,
}

impl Quality {
    /// The latency relative to the best possible one; 1 is perfect.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.mean_ms / self.best_ms
    }
}

/// Elects a leader with each seed on a deployment and rates the leaders.
#[must_use]
pub fn quality(kind: Kind, topology: &Topology, seeds: impl Iterator<Item = u64>) -> Quality {
    let latency = latencies(topology);
    let mut leaders = BTreeMap::new();
    for seed in seeds {
        if let Some(leader) = kind.run(&crash(kind, topology, seed)).leader {
            *leaders.entry(leader as u64 + 1).or_insert(0) += 1;
        }
    }
    let ms = |place: usize| latency[place] as f64 / MS as f64;
    let sum: f64 = leaders.iter().map(|(id, often)| ms(*id as usize - 1) * *often as f64).sum();
    let runs: u64 = leaders.values().sum();
    let best = latency.iter().min().copied().unwrap_or(1) as f64 / MS as f64;
    Quality { kind, topology: topology.name().to_owned(), leaders, mean_ms: sum / runs.max(1) as f64, best_ms: best }
}

/// A case in which the last server leads and crashes at the start.
pub(super) fn crash(kind: Kind, topology: &Topology, seed: u64) -> Case {
    let mut case = Case::on(topology.clone(), seed);
    case.attributes = attributes(kind, topology);
    case.occurrences.push((0, Occurrence::Crash(case.n - 1)));
    case
}

/// The attributes by which an algorithm elects. Only two of them use latencies.
fn attributes(kind: Kind, topology: &Topology) -> Vec<u64> {
    let of = |scores: Vec<u64>| scores.into_iter().map(|score| WORST - score.min(WORST)).chain([0]).collect();
    let alike = |places: usize| vec![0; places];
    match kind {
        Kind::Santos => of(consensus(topology)),
        Kind::Pole => of(latencies(topology)),
        Kind::Ring | Kind::RingRepair1 | Kind::RingRepair2 | Kind::Bully | Kind::Invitation => alike(5),
        Kind::Raft | Kind::RaftPreVote | Kind::Chubby | Kind::Fle | Kind::Rotating | Kind::Viewstamped => alike(5),
    }
}

/// For each server but the last: the time to reach a quorum of running servers, in nanoseconds.
fn consensus(topology: &Topology) -> Vec<u64> {
    let all = topology.servers().count();
    let live = all - 1;
    let score = |me: usize| {
        let mut away: Vec<u64> = (0..live).map(|other| rtt(topology, me, other)).collect();
        away.sort_unstable();
        away.get(all / 2).copied().unwrap_or(u64::MAX)
    };
    (0..live).map(score).collect()
}

/// For each server but the last: the mean request latency under its leadership, in nanoseconds.
pub(super) fn latencies(topology: &Topology) -> Vec<u64> {
    let live = topology.servers().count() - 1;
    let rates = rates(topology, live);
    let total: u128 = rates.iter().sum::<u128>().max(1);
    let hop = |me: usize| {
        let sum: u128 = (0..live).map(|other| rates[other] * u128::from(rtt(topology, me, other))).sum();
        (sum / total) as u64
    };
    consensus(topology).into_iter().enumerate().map(|(me, reach)| reach + hop(me)).collect()
}

/// The request rate at each running server, including its share of the clients of the crashed one.
fn rates(topology: &Topology, live: usize) -> Vec<u128> {
    let away = |other: usize| rtt(topology, live, other);
    let nearest = (0..live).map(away).min().unwrap_or(0);
    let heirs = (0..live).filter(|other| away(*other) == nearest).count().max(1) as u128;
    let left = u128::from(topology.rate_milli(live as u64 + 1));
    let rate = |server: usize| {
        let own = u128::from(topology.rate_milli(server as u64 + 1));
        own + if away(server) == nearest { left / heirs } else { 0 }
    };
    (0..live).map(rate).collect()
}

fn rtt(topology: &Topology, a: usize, b: usize) -> u64 {
    topology.rtt(a as u64 + 1, b as u64 + 1).unwrap_or(0)
}

/// Above any latency; attributes are the difference to it, so that a lower latency is a higher attribute.
const WORST: u64 = 1 << 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_gives_what_the_paper_predicts_for_an_even_load() {
        for (name, predicted) in [("d1", [96.7, 30.9, 30.9, 38.9]), ("d3", [106.0, 74.3, 74.3, 74.3])] {
            let found = latencies(&Topology::preset(name).unwrap());
            let ms: Vec<f64> = found.iter().map(|ns| *ns as f64 / MS as f64).collect();
            assert!((ms[0] - predicted[0]).abs() < 0.1 && (ms[3] - predicted[3]).abs() < 0.1, "{name}: {ms:?}");
            assert!((ms[2] - predicted[2]).abs() < 0.1 || name == "d3", "{name}: {ms:?}");
        }
    }

    #[test]
    fn pole_elects_the_best_leader_on_every_deployment_of_the_paper() {
        for name in ["d1", "d2", "d3"] {
            let found = quality(Kind::Pole, &Topology::preset(name).unwrap(), 1..=5);
            assert!((found.ratio() - 1.0).abs() < 1e-9, "{name}: {found:?}");
        }
    }
}
