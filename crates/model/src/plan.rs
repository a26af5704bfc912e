//! The configurations to explore, small ones first: they find most bugs, with short runs.

use std::time::Duration;

use crate::run::{Limit, Outcome, explore};
use crate::{election, zab};

/// One configuration.
#[derive(Debug)]
pub(crate) struct Configuration {
    pub(crate) name: String,
    kind: ModelKind,
}

#[derive(Clone, Copy, Debug)]
enum ModelKind {
    Agreement(zab::Bounds),
    Election(election::Bounds, [election::FixedScore; 3]),
}

impl Configuration {
    /// Explores depth first, which needs little memory. If a violation is found, it also searches breadth first for a
    /// while, to find the shortest path to it.
    pub(crate) fn explore(&self, left: Duration, threads: usize) -> Outcome {
        let outcome = self.explore_once(left, threads, false);
        if outcome.violations.is_empty() {
            return outcome;
        }
        let shorter = self.explore_once(SHORTEN_TIME, threads, true);
        let violations = if shorter.violations.is_empty() { outcome.violations.clone() } else { shorter.violations };
        Outcome { violations, ..outcome }
    }

    fn explore_once(&self, left: Duration, threads: usize, shortest: bool) -> Outcome {
        let limit = Limit::after(left);
        match self.kind {
            ModelKind::Agreement(bounds) => {
                let model = zab::Agreement::new(bounds, zab::Sabotage::None, limit.clone());
                explore(model, &limit, threads, shortest, zab::Agreement::describe)
            }
            ModelKind::Election(bounds, hosts) => {
                let model = election::Elections::new(bounds, hosts, limit.clone());
                explore(model, &limit, threads, shortest, election::Elections::describe)
            }
        }
    }
}

/// All configurations.
pub(crate) fn configurations() -> Vec<Configuration> {
    let agreement = agreements()
        .into_iter()
        .map(|bounds| Configuration { name: format!("agreement {bounds}"), kind: ModelKind::Agreement(bounds) });
    let election = elections().into_iter().map(|(scores, bounds, hosts)| Configuration {
        name: format!("election  {scores} {bounds}"),
        kind: ModelKind::Election(bounds, hosts),
    });
    let mut all: Vec<_> = agreement.chain(election).collect();
    all.sort_by_key(|configuration| configuration.kind.weight());
    all
}

impl ModelKind {
    /// A rough measure of the size of the state space.
    fn weight(&self) -> u32 {
        match self {
            Self::Agreement(bounds) => bounds.weight,
            Self::Election(bounds, _) => bounds.weight,
        }
    }
}

fn agreements() -> Vec<zab::Bounds> {
    use zab::{Bounds, Members, Start};
    let blank = Bounds::NO_FAULTS;
    let serving = Bounds { start: Start::Serving, epochs: 3, ..blank };
    let many = Bounds { prompt: true, liveness_one_in: 64, ..serving };
    let changing = Bounds { epochs: 2, ..many };
    vec![
        Bounds { weight: 1, writes: 2, hints: true, ..blank },
        Bounds { weight: 1, writes: 1, resignations: 1, ..serving },
        Bounds { weight: 2, crashes: 1, writes: 1, ..serving },
        Bounds { weight: 3, doubles: 1, writes: 2, ..serving },
        Bounds { weight: 3, losses: 1, writes: 1, ..serving },
        Bounds { weight: 4, crashes: 1, writes: 2, ..serving },
        Bounds { weight: 4, crashes: 1, writes: 1, direct: true, ..serving },
        Bounds { weight: 7, crashes: 2, writes: 1, direct: true, ..many },
        Bounds { weight: 7, crashes: 1, losses: 1, writes: 1, direct: true, ..many },
        Bounds { weight: 9, crashes: 1, writes: 2, direct: true, ..many },
        Bounds { weight: 4, crashes: 1, epochs: 2, writes: 1, ahead: true, ..many },
        Bounds { weight: 8, crashes: 1, losses: 1, epochs: 2, writes: 1, ahead: true, ..many },
        Bounds { weight: 8, crashes: 2, epochs: 3, writes: 1, ahead: true, ..many },
        Bounds { weight: 4, change: Some(Members(0b1111)), ..changing },
        Bounds { weight: 5, crashes: 1, members: Members(0b011), change: Some(Members(0b101)), ..changing },
        Bounds { weight: 8, crashes: 1, change: Some(Members(0b1111)), ..changing },
        Bounds { weight: 9, crashes: 1, members: Members(0b1111), change: Some(Members::THREE), ..changing },
        Bounds { weight: 9, crashes: 1, change: Some(Members(0b1001)), ..changing },
        Bounds { weight: 5, timeouts: 1, writes: 1, ..serving },
        Bounds { weight: 5, crashes: 1, resignations: 1, writes: 1, liveness_one_in: 16, ..serving },
        Bounds { weight: 6, crashes: 1, epochs: 2, writes: 1, liveness_one_in: 16, ..blank },
        Bounds { weight: 6, crashes: 1, doubles: 1, writes: 1, ..many },
        Bounds { weight: 6, crashes: 1, losses: 1, writes: 1, ..many },
        Bounds { weight: 7, crashes: 2, writes: 1, ..many },
        Bounds { weight: 8, losses: 1, timeouts: 1, writes: 1, hints: true, ..many },
        Bounds { weight: 9, crashes: 1, losses: 1, doubles: 1, writes: 1, ..many },
        Bounds { weight: 9, crashes: 2, writes: 2, ..many },
        Bounds { weight: 10, crashes: 2, losses: 1, writes: 2, ..many },
        Bounds { weight: 11, crashes: 2, losses: 1, doubles: 1, writes: 2, ..many },
    ]
}

fn elections() -> Vec<(&'static str, election::Bounds, [election::FixedScore; 3])> {
    use election::{Bounds, FixedScore};
    let no_faults = Bounds::NO_FAULTS;
    let scored = [FixedScore::of(10), FixedScore::of(20), FixedScore::of(30)];
    let equal = [FixedScore::of(10); 3];
    let mixed = [
        FixedScore { fingerprint: 2, ..FixedScore::of(10) },
        FixedScore::of(20),
        FixedScore { score: None, ..FixedScore::of(0) },
    ];
    vec![
        ("scores 10 20 30", Bounds { weight: 3, ..no_faults }, scored),
        ("equal scores", Bounds { weight: 3, liveness_one_in: 16, ..no_faults }, equal),
        ("two oracles, one unknown", Bounds { weight: 3, liveness_one_in: 16, ..no_faults }, mixed),
        ("3 demotes 1", Bounds { weight: 4, demoted: Some(0), liveness_one_in: 16, ..no_faults }, scored),
        ("scores 10 20 30", Bounds { weight: 5, together: false, liveness_one_in: 16, ..no_faults }, scored),
        ("scores 10 20 30", Bounds { weight: 8, losses: 1, retries: 1, liveness_one_in: 4, ..no_faults }, scored),
        ("scores 10 20 30", Bounds { weight: 8, doubles: 1, liveness_one_in: 4, ..no_faults }, scored),
        ("scores 10 20 30", Bounds { weight: 8, crashes: 1, liveness_one_in: 16, ..no_faults }, scored),
        ("scores 10 20 30", Bounds { weight: 8, calls: 1, liveness_one_in: 16, ..no_faults }, scored),
        ("scores 10 20 30", Bounds { weight: 7, ordered: false, liveness_one_in: 16, ..no_faults }, scored),
        (
            "scores 10 20 30",
            Bounds { weight: 10, crashes: 1, losses: 1, doubles: 1, retries: 1, liveness_one_in: 64, ..no_faults },
            scored,
        ),
    ]
}

/// Explains the names of the configurations.
pub(crate) const LEGEND: &str = "\
c: crashes, l: losses, d: doubles, w: writes, e: epochs, h: hand-overs, i: timeouts, v: votes carry epochs; blank or
serving: where a run starts; r: retries, k: calls, t: all have started, p: closed links are
noticed at once; direct: all followers count acknowledgements themselves; ahead: followers promise the epoch that they expect; 1/n: the fair continuation is tried from one state in n; 123>1234: the voters before and after a change";

/// How long to search for a shorter path to a violation.
const SHORTEN_TIME: Duration = Duration::from_secs(60);
