//! How good the leader is that each algorithm elects: its mean request latency over the best possible one's.
//!
//! In: a deployment of the paper, whose p5 led and has crashed. Out: the leader's latency by the paper's formula, divided
//! by the least of all.
//! Source: section 2.2 of the paper, with the round trip for a request that a follower hands on.
//! Holds: p5's clients go to the live servers nearest to it, in equal parts.

use std::collections::BTreeMap;

use pole_topology::Topology;

use super::{Case, Happening, Kind};
use crate::sim::MS;

/// How good the leaders are.
#[derive(Clone, Debug)]
pub struct Quality {
    /// The algorithm.
    pub kind: Kind,
    /// The deployment.
    pub topology: String,
    /// Who was elected, as p1 to p5, and how often.
    pub leaders: BTreeMap<u64, u64>,
    /// The mean over the runs of its mean request latency, in milliseconds.
    pub mean_ms: f64,
    /// That of the best possible leader.
    pub best_ms: f64,
}

impl Quality {
    /// How many times the best possible latency: 1 is perfect.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.mean_ms / self.best_ms
    }
}

/// Elects with so many seeds on a deployment, and judges the leaders.
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

/// The last server leads and crashes at once.
pub(super) fn crash(kind: Kind, topology: &Topology, seed: u64) -> Case {
    let mut case = Case::on(topology.clone(), seed);
    case.attributes = attributes(kind, topology);
    case.happenings.push((0, Happening::Crash(case.n - 1)));
    case
}

/// What each is elected for: what the algorithm knows of. Only two of them look at latencies.
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

/// For each server but the last: the time in which it reaches a quorum of those who live, in nanoseconds.
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

/// For each server but the last: the mean latency of a request if it led, in nanoseconds.
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

/// The requests at each server that lives, with the share of those whose server has died.
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

/// Above any latency: attributes grow as latencies shrink.
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
