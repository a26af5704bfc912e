//! The experiments as data: the runs that each figure needs, and what the paper states about them.
//!
//! Each case is one run; the same run may serve several figures. All measurements stated by the paper are here, with
//! their source.

use pole_topology::{Topology, favoured};

use super::experiment::Experiment;
use super::scale::Scale;

/// A figure of the paper, or one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Figure {
    /// Two data centres, latency over time around the crash.
    F4b,
    /// Three data centres, even load, every possible new leader.
    F6,
    /// Two data centres, uneven load, mean latency.
    F7a,
    /// Three data centres, uneven load, mean latency.
    F7b,
    /// Three data centres, uneven load, worst latency.
    F7c,
    /// Recovery, two data centres.
    F8a,
    /// Recovery, three data centres.
    F8b,
    /// Ours: the question that the paper leaves open, whether `recovery` always elects the server that recovers
    /// fastest.
    Open,
    /// Ours: what each oracle costs on random topologies.
    Regret,
    /// Ours: a load that moves between data centres.
    Wander,
}

impl Figure {
    /// All figures, in the order of the report.
    pub const ALL: [Self; 10] = [
        Self::F4b,
        Self::F6,
        Self::F7a,
        Self::F7b,
        Self::F7c,
        Self::F8a,
        Self::F8b,
        Self::Open,
        Self::Regret,
        Self::Wander,
    ];

    /// The name in `--only` and in file names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F4b => "4b",
            Self::F6 => "6",
            Self::F7a => "7a",
            Self::F7b => "7b",
            Self::F7c => "7c",
            Self::F8a => "8a",
            Self::F8b => "8b",
            Self::Open => "open",
            Self::Regret => "regret",
            Self::Wander => "wander",
        }
    }

    /// Finds a figure by its name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|figure| figure.name() == name)
    }

    /// The cases whose latencies the figure shows; empty for a figure that shows something else.
    #[must_use]
    pub fn cases(self, scale: &Scale) -> Vec<Case> {
        let settings: Vec<(&'static str, Share)> = match self {
            Self::F4b => vec![("two", Share::Permille(500))],
            Self::F6 => ["d1", "d2", "d3"].map(|setting| (setting, Share::Even)).to_vec(),
            Self::F7a => scale.shares().map(|share| ("two", share)).collect(),
            // The one case of deployment 2 is the paper's counterexample to `request` (section 4.3).
            Self::F7b => {
                let uneven = ["d1", "d3"].into_iter().flat_map(|setting| scale.shares().map(move |s| (setting, s)));
                uneven.chain([("d2", Share::Permille(1000))]).collect()
            }
            Self::F7c => {
                ["d1", "d3"].into_iter().flat_map(|setting| scale.shares().map(move |s| (setting, s))).collect()
            }
            Self::F8a | Self::F8b | Self::Open | Self::Regret | Self::Wander => Vec::new(),
        };
        let leaders: &[&str] = if self == Self::F6 { &LEADERS } else { &[] };
        let who: Vec<&'static str> = leaders.iter().chain(&ORACLES).copied().collect();
        let each = |(setting, share): (&'static str, Share)| {
            let who = who.clone();
            scale.seeds.iter().flat_map(move |seed| {
                let who = who.clone();
                who.into_iter().map(move |oracle| Case { figure: self, setting, share, oracle, seed: *seed })
            })
        };
        settings.into_iter().flat_map(each).collect()
    }
}

/// One run, and its figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The figure.
    pub figure: Figure,
    /// The deployment: a preset of `topology`.
    pub setting: &'static str,
    /// The distribution of the load.
    pub share: Share,
    /// The oracle by its short name, or the leader that is forced to win.
    pub oracle: &'static str,
    /// The seed.
    pub seed: u64,
}

/// The distribution of the load: even, or a share p at the site that section 4 of the paper names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Share {
    /// The same at every site.
    Even,
    /// p in thousandths.
    Permille(u64),
}

impl Share {
    /// p, as in the tables.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::Even => "even".to_owned(),
            Self::Permille(permille) => format!("{}", permille as f64 / 1e3),
        }
    }

    /// p as a number; a third where three sites share evenly.
    #[must_use]
    pub fn value(self) -> f64 {
        match self {
            Self::Even => 1.0 / 3.0,
            Self::Permille(permille) => permille as f64 / 1e3,
        }
    }
}

impl Case {
    /// The share that is run. The worst latency (7c) is that of a site, so each site needs some clients: at p = 0 and
    /// p = 1, 0.5 % of the load goes to sites that would have none.
    #[must_use]
    pub fn share_run(&self) -> Share {
        match (self.figure, self.share) {
            (Figure::F7c, Share::Permille(permille)) => Share::Permille(permille.clamp(5, 990)),
            (_, share) => share,
        }
    }

    /// The deployment with its load.
    ///
    /// # Panics
    /// If the setting is not a preset.
    #[must_use]
    pub fn topology(&self) -> Topology {
        let even = Topology::preset(self.setting).expect("a preset");
        match self.share_run() {
            Share::Even => even,
            Share::Permille(permille) => even.weighted(favoured(self.setting).expect("a preset"), permille),
        }
    }

    /// The oracle, as a value of `pole.oracle`.
    #[must_use]
    pub fn spec(&self) -> String {
        spec(self.oracle)
    }

    /// The experiment to run.
    #[must_use]
    pub fn experiment(&self, scale: &Scale) -> Experiment {
        Experiment {
            topology: self.topology(),
            oracle: self.spec(),
            seed: self.seed,
            load_percent: scale.load_percent,
            before: scale.before,
            after: scale.after,
            direct: false,
        }
    }

    /// The key of the run: cases with the same key share one run.
    #[must_use]
    pub fn key(&self) -> String {
        format!("crash {} p={} {} seed={}", self.setting, self.share_run().text(), self.spec(), self.seed)
    }
}

/// The value of `pole.oracle` for an oracle's short name.
#[must_use]
pub(super) fn spec(oracle: &str) -> String {
    match oracle {
        "combined" => "combined=latency/10ms,history".to_owned(),
        // Any list would do; this one prefers a server that no other oracle elects.
        "preference" => "preference=2,3,1,4,5".to_owned(),
        other => match other.strip_prefix("leader=") {
            Some(id) => preference_for(id),
            None => Experiment::oracle_in_classes(other),
        },
    }
}

/// The preference that makes one server win.
fn preference_for(id: &str) -> String {
    let others = ["1", "2", "3", "4", "5"].into_iter().filter(|other| *other != id);
    let list: Vec<&str> = [id].into_iter().chain(others).collect();
    format!("preference={}", list.join(","))
}

/// The paper's six oracles, then ours.
pub const ORACLES: [&str; 9] =
    ["history", "rotating", "request", "consensus", "latency", "worst-case", "recovery", "combined", "preference"];

/// Every server that can lead after the crash of p5, forced to win.
pub const LEADERS: [&str; 4] = ["leader=1", "leader=2", "leader=3", "leader=4"];

/// A latency that the paper states.
#[derive(Clone, Copy, Debug)]
pub struct StatedLatency {
    /// The deployment.
    pub setting: &'static str,
    /// The load.
    pub share: Share,
    /// The oracle or the forced leader; none: any.
    pub oracle: Option<&'static str>,
    /// Which requests it is measured over.
    pub kind: LatencyKind,
    /// The latency, in milliseconds.
    pub ms: f64,
    /// The paper says "around": shown for comparison, but not checked against the limit.
    pub approximate: bool,
    /// The section and figure of the paper.
    pub source: &'static str,
}

/// The requests over which a latency is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyKind {
    /// All requests after the crash.
    Mean,
    /// All requests before it.
    Before,
    /// The requests of one site after the crash.
    Site(&'static str),
    /// A proposal and the answers of a quorum: the latency of a request at the leader's own site.
    Consensus,
}

impl LatencyKind {
    /// A description for tables.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::Mean => "mean".to_owned(),
            Self::Before => "mean before the crash".to_owned(),
            Self::Site(site) => format!("requests at {site}"),
            Self::Consensus => "consensus".to_owned(),
        }
    }
}

const fn exactly(
    setting: &'static str,
    share: Share,
    oracle: &'static str,
    kind: LatencyKind,
    ms: f64,
    source: &'static str,
) -> StatedLatency {
    StatedLatency { setting, share, oracle: Some(oracle), kind, ms, approximate: false, source }
}

const fn approximately(kind: LatencyKind, ms: f64) -> StatedLatency {
    StatedLatency {
        setting: "two",
        share: Share::Permille(500),
        oracle: None,
        kind,
        ms,
        approximate: true,
        source: "4.2, figure 4b",
    }
}

/// All latencies that the paper states in words or numbers.
pub const STATED: [StatedLatency; 14] = [
    approximately(LatencyKind::Before, 10.0),
    approximately(LatencyKind::Mean, 30.0),
    exactly("d1", Share::Even, "leader=4", LatencyKind::Site("D1"), 12.0, "4.2, figure 6"),
    exactly("d1", Share::Even, "leader=4", LatencyKind::Site("D2"), 22.0, "4.2, figure 6"),
    exactly("d1", Share::Even, "leader=4", LatencyKind::Site("D3"), 92.0, "4.2, figure 6"),
    exactly("d1", Share::Even, "leader=4", LatencyKind::Mean, 42.0, "4.2, figure 6"),
    exactly("d1", Share::Even, "leader=4", LatencyKind::Consensus, 12.0, "4.2, figure 6"),
    exactly("d1", Share::Even, "leader=3", LatencyKind::Mean, 33.0, "4.2, figure 6"),
    exactly("d1", Share::Permille(0), "rotating", LatencyKind::Mean, 125.8, "4.3, observation 1"),
    exactly("d1", Share::Permille(0), "latency", LatencyKind::Mean, 16.5, "4.3, observation 1"),
    exactly("d3", Share::Permille(1000), "consensus", LatencyKind::Mean, 111.3, "4.3, observation 1"),
    exactly("d3", Share::Permille(1000), "latency", LatencyKind::Mean, 57.4, "4.3, observation 1"),
    exactly("d1", Share::Permille(1000), "worst-case", LatencyKind::Mean, 66.6, "4.3, observation 3"),
    exactly("d1", Share::Permille(1000), "latency", LatencyKind::Mean, 57.4, "4.3, observation 3"),
];

impl StatedLatency {
    /// Whether it applies to this run.
    #[must_use]
    pub fn applies_to(&self, case: &Case) -> bool {
        self.setting == case.setting
            && self.share == case.share_run()
            && self.oracle.is_none_or(|oracle| oracle == case.oracle)
    }
}
