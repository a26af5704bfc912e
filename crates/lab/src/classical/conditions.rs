//! Time to a leader on the paper's deployments: after a crash, with lost messages, with late messages.
//!
//! The result is how many of the runs ended with one leader, and after how long. There is no transport that retransmits
//! lost messages: retries are up to the protocol, and one without retries shows it.

use std::fmt;

use pole_topology::Topology;

use super::quality::crash;
use super::{Case, End, Kind};
use pole_sim::{MS, SECOND};

/// A network condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// The leader crashes; messages have only the delays of their links.
    Crash,
    /// The leader crashes, and this percentage of messages is lost.
    Loss(u64),
    /// The leader crashes, and every fifth message is late by up to 300 ms, more than any timeout.
    Delay,
}

/// The results of an algorithm on a deployment under one network condition.
#[derive(Clone, Debug)]
pub struct NetworkConditions {
    /// The algorithm.
    pub kind: Kind,
    /// The deployment.
    pub topology: String,
    /// The network condition.
    pub condition: Condition,
    /// The seed of the first run.
    pub seed: u64,
    /// The number of runs.
    pub runs: u64,
    /// The number of runs that ended with one leader.
    pub ended: u64,
    /// The mean time from the crash to the leader over the runs that ended, in milliseconds.
    pub time_ms: f64,
    /// The mean number of election messages over the runs that ended.
    pub messages: f64,
    /// The mean number of message delays over the runs that ended.
    pub delays: f64,
    /// The number of runs with two leaders at once.
    pub violations: u64,
}

impl Condition {
    /// All conditions that are measured.
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

/// Runs an algorithm `runs` times, with consecutive seeds.
#[must_use]
pub fn measure_conditions(
    kind: Kind,
    topology: &Topology,
    condition: Condition,
    seed: u64,
    runs: u64,
) -> NetworkConditions {
    let mut result = NetworkConditions {
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
        let outcome = kind.run(&with_condition(condition, crash(kind, topology, seed.wrapping_add(run))));
        result.violations += u64::from(!outcome.violations.is_empty());
        if let (End::Settled, Some(at)) = (outcome.end, outcome.agreed_at) {
            result.ended += 1;
            result.time_ms += at as f64 / MS as f64;
            result.messages += outcome.messages() as f64;
            result.delays += f64::from(outcome.delays);
        }
    }
    let ended = result.ended.max(1) as f64;
    (result.time_ms, result.messages, result.delays) =
        (result.time_ms / ended, result.messages / ended, result.delays / ended);
    result
}

fn with_condition(condition: Condition, case: Case) -> Case {
    let case = Case { until: 30 * SECOND, ..case };
    match condition {
        Condition::Crash => case,
        Condition::Loss(percent) => Case { lost_per_mille: 10 * percent, ..case },
        Condition::Delay => Case { late_per_mille: 200, late_by: 300 * MS, ..case },
    }
}
