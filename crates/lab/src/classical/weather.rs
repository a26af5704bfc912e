//! Time to a leader on the paper's deployments: after a crash, with messages lost, with messages late.
//!
//! In: an algorithm, a deployment, a condition. Out: how many of the runs ended with one leader, and after how long.
//! A lost message is lost for good here: no transport sends it again. That is what a protocol's own retries are for, and
//! whoever has none shows it.

use std::fmt;

use pole_topology::Topology;

use super::quality::crash;
use super::{Case, End, Kind};
use crate::sim::{MS, SECOND};

/// What the network does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// Nothing but delays of its links: the leader crashes.
    Crash,
    /// And so many messages in a hundred are lost.
    Loss(u64),
    /// And every fifth message is late by up to 300 ms, later than any timeout.
    Delay,
}

/// What was seen.
#[derive(Clone, Debug)]
pub struct Sky {
    /// The algorithm.
    pub kind: Kind,
    /// The deployment.
    pub topology: String,
    /// What the network did.
    pub condition: Condition,
    /// The seed of the first run.
    pub seed: u64,
    /// How many runs.
    pub runs: u64,
    /// How many of them ended with one leader of all.
    pub ended: u64,
    /// The mean time of those, from the crash, in milliseconds.
    pub time_ms: f64,
    /// Mean messages of the election, over those.
    pub messages: f64,
    /// Mean message delays, over those.
    pub delays: f64,
    /// Runs with two leaders at once.
    pub violations: u64,
}

impl Condition {
    /// All that are shown.
    pub const ALL: [Self; 5] = [Self::Crash, Self::Loss(1), Self::Loss(5), Self::Loss(20), Self::Delay];
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&match self {
            Self::Crash => "crash".to_owned(),
            Self::Loss(percent) => format!("loss-{percent}"),
            Self::Delay => "delay".to_owned(),
        })
    }
}

/// Runs an algorithm with so many seeds.
#[must_use]
pub fn weather(kind: Kind, topology: &Topology, condition: Condition, seed: u64, runs: u64) -> Sky {
    let mut sky = Sky {
        kind,
        topology: topology.name().to_owned(),
        condition,
        seed,
        runs,
        ended: 0,
        time_ms: 0.0,
        messages: 0.0,
        delays: 0.0,
        violations: 0,
    };
    for run in 0..runs {
        let outcome = kind.run(&under(condition, crash(kind, topology, seed.wrapping_add(run))));
        sky.violations += u64::from(!outcome.violations.is_empty());
        if let (End::Settled, Some(at)) = (outcome.end, outcome.agreed_at) {
            sky.ended += 1;
            sky.time_ms += at as f64 / MS as f64;
            sky.messages += outcome.messages() as f64;
            sky.delays += f64::from(outcome.delays);
        }
    }
    let ended = sky.ended.max(1) as f64;
    (sky.time_ms, sky.messages, sky.delays) = (sky.time_ms / ended, sky.messages / ended, sky.delays / ended);
    sky
}

fn under(condition: Condition, case: Case) -> Case {
    let case = Case { until: 30 * SECOND, ..case };
    match condition {
        Condition::Crash => case,
        Condition::Loss(percent) => Case { lost_per_mille: 10 * percent, ..case },
        Condition::Delay => Case { late_per_mille: 200, late_by: 300 * MS, ..case },
    }
}
