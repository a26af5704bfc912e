//! What is explored, in increasing order: small bounds find most, and find it by a short run.

use std::time::Duration;

use crate::run::{Limit, Outcome, explore};
use crate::{election, zab};

/// One configuration.
#[derive(Debug)]
pub(crate) struct Configuration {
    pub(crate) name: String,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Agreement(zab::Bounds),
    Election(election::Bounds, [election::Scored; 3]),
}

impl Configuration {
    /// Explores it. Depth first, which needs little memory; if something is found, also breadth first for a while, since
    /// that finds the shortest way.
    pub(crate) fn explore(&self, left: Duration, threads: usize) -> Outcome {
        let outcome = self.explore_once(left, threads, false);
        if outcome.violations.is_empty() {
            return outcome;
        }
        let shorter = self.explore_once(SHORTEN, threads, true);
        let violations = if shorter.violations.is_empty() { outcome.violations.clone() } else { shorter.violations };
        Outcome { violations, ..outcome }
    }

    fn explore_once(&self, left: Duration, threads: usize, shortest: bool) -> Outcome {
        let limit = Limit::after(left);
        match self.what {
            What::Agreement(bounds) => {
                let model = zab::Agreement::new(bounds, zab::Sabotage::None, limit.clone());
                explore(model, &limit, threads, shortest, zab::Agreement::tell)
            }
            What::Election(bounds, hosts) => {
                let model = election::Elections::new(bounds, hosts, limit.clone());
                explore(model, &limit, threads, shortest, election::Elections::tell)
            }
        }
    }
}

/// All configurations.
pub(crate) fn configurations() -> Vec<Configuration> {
    let agreement = agreements()
        .into_iter()
        .map(|bounds| Configuration { name: format!("agreement {bounds}"), what: What::Agreement(bounds) });
    let election = elections().into_iter().map(|(scores, bounds, hosts)| Configuration {
        name: format!("election  {scores} {bounds}"),
        what: What::Election(bounds, hosts),
    });
    let mut all: Vec<_> = agreement.chain(election).collect();
    all.sort_by_key(|configuration| configuration.what.weight());
    all
}

impl What {
    /// Roughly how much there is to explore.
    fn weight(&self) -> u32 {
        match self {
            Self::Agreement(bounds) => bounds.weight,
            Self::Election(bounds, _) => bounds.weight,
        }
    }
}

fn agreements() -> Vec<zab::Bounds> {
    use zab::{Bounds, Start};
    let blank = Bounds::CALM;
    let serving = Bounds { start: Start::Serving, epochs: 3, ..blank };
    let many = Bounds { prompt: true, heal_one_in: 64, ..serving };
    vec![
        Bounds { weight: 1, writes: 2, hints: true, ..blank },
        Bounds { weight: 1, writes: 1, resignations: 1, ..serving },
        Bounds { weight: 2, crashes: 1, writes: 1, ..serving },
        Bounds { weight: 3, doubles: 1, writes: 2, ..serving },
        Bounds { weight: 3, losses: 1, writes: 1, ..serving },
        Bounds { weight: 4, crashes: 1, writes: 2, ..serving },
        Bounds { weight: 5, impatience: 1, writes: 1, ..serving },
        Bounds { weight: 5, crashes: 1, resignations: 1, writes: 1, heal_one_in: 16, ..serving },
        Bounds { weight: 6, crashes: 1, epochs: 2, writes: 1, heal_one_in: 16, ..blank },
        Bounds { weight: 6, crashes: 1, doubles: 1, writes: 1, ..many },
        Bounds { weight: 6, crashes: 1, losses: 1, writes: 1, ..many },
        Bounds { weight: 7, crashes: 2, writes: 1, ..many },
        Bounds { weight: 8, losses: 1, impatience: 1, writes: 1, hints: true, ..many },
        Bounds { weight: 9, crashes: 1, losses: 1, doubles: 1, writes: 1, ..many },
        Bounds { weight: 9, crashes: 2, writes: 2, ..many },
        Bounds { weight: 11, crashes: 2, losses: 1, doubles: 1, writes: 2, ..many },
    ]
}

fn elections() -> Vec<(&'static str, election::Bounds, [election::Scored; 3])> {
    use election::{Bounds, Scored};
    let calm = Bounds::CALM;
    let scored = [Scored::of(10), Scored::of(20), Scored::of(30)];
    let equal = [Scored::of(10); 3];
    let mixed = [Scored { fingerprint: 2, ..Scored::of(10) }, Scored::of(20), Scored { score: None, ..Scored::of(0) }];
    vec![
        ("scores 10 20 30", Bounds { weight: 3, ..calm }, scored),
        ("equal scores", Bounds { weight: 3, heal_one_in: 16, ..calm }, equal),
        ("two oracles, one unknown", Bounds { weight: 3, heal_one_in: 16, ..calm }, mixed),
        ("3 demotes 1", Bounds { weight: 4, demoted: Some(0), heal_one_in: 16, ..calm }, scored),
        ("scores 10 20 30", Bounds { weight: 5, together: false, heal_one_in: 16, ..calm }, scored),
        ("scores 10 20 30", Bounds { weight: 8, losses: 1, retries: 1, heal_one_in: 4, ..calm }, scored),
        ("scores 10 20 30", Bounds { weight: 8, doubles: 1, heal_one_in: 4, ..calm }, scored),
        ("scores 10 20 30", Bounds { weight: 8, crashes: 1, heal_one_in: 16, ..calm }, scored),
        ("scores 10 20 30", Bounds { weight: 8, calls: 1, heal_one_in: 16, ..calm }, scored),
        ("scores 10 20 30", Bounds { weight: 7, ordered: false, heal_one_in: 16, ..calm }, scored),
        (
            "scores 10 20 30",
            Bounds { weight: 10, crashes: 1, losses: 1, doubles: 1, retries: 1, heal_one_in: 64, ..calm },
            scored,
        ),
    ]
}

/// How to read the names.
pub(crate) const LEGEND: &str = "\
c: crashes, l: losses, d: doubles, w: writes, e: epochs, h: hand-overs, i: impatience, v: votes carry epochs; blank or
serving: where a run starts; r: retries, k: calls, t: all have started, p: closed links are
noticed at once; 1/n: the fair continuation is tried from one state in n";

/// How long to look for a shorter way to a violation.
const SHORTEN: Duration = Duration::from_secs(60);
