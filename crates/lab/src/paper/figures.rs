//! The experiments as data: which figure needs which runs, and what the paper states of them.
//!
//! In: a figure, a scale. Out: cases; each is one run, and the same run may serve several figures.
//! Holds: what the paper measured stands here and nowhere else, with its source.

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
    /// Ours: the question that the paper leaves open, whether `recovery` picks the fastest to recover everywhere.
    Open,
    /// Ours: what each oracle costs on random topologies.
    Regret,
    /// Ours: a load that wanders.
    Wander,
}

impl Figure {
    /// All of them, in the order of the report.
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

    /// As `--only` and the files name it.
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

    /// By that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|figure| figure.name() == name)
    }

    /// The cases whose latencies it shows; none of a figure that shows something else.
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

/// One run, and the figure that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The figure.
    pub figure: Figure,
    /// The deployment: a preset of `topology`.
    pub setting: &'static str,
    /// How its load is spread.
    pub share: Share,
    /// The oracle by its short name, or the leader that is made to win.
    pub oracle: &'static str,
    /// The seed.
    pub seed: u64,
}

/// How the load is spread: evenly, or the share p in thousandths at the site that section 4 names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Share {
    /// The same at every site.
    Even,
    /// p in thousandths.
    Permille(u64),
}

impl Share {
    /// p, as the tables say it.
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
    /// The share that is run. The worst latency (7c) is that of a site, so each needs some clients: at p = 0 and p = 1 a
    /// two-hundredth of the load is left to those that would have none.
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
    /// If the setting is no preset.
    #[must_use]
    pub fn topology(&self) -> Topology {
        let even = Topology::preset(self.setting).expect("a preset");
        match self.share_run() {
            Share::Even => even,
            Share::Permille(permille) => even.weighted(favoured(self.setting).expect("a preset"), permille),
        }
    }

    /// The oracle as `pole.oracle` says it.
    #[must_use]
    pub fn spec(&self) -> String {
        spec(self.oracle)
    }

    /// The run.
    #[must_use]
    pub fn experiment(&self, scale: &Scale) -> Experiment {
        Experiment {
            topology: self.topology(),
            oracle: self.spec(),
            seed: self.seed,
            load_percent: scale.load_percent,
            before: scale.before,
            after: scale.after,
        }
    }

    /// The name of the run: cases of one name are one run.
    #[must_use]
    pub fn key(&self) -> String {
        format!("crash {} p={} {} seed={}", self.setting, self.share_run().text(), self.spec(), self.seed)
    }
}

/// The oracle by its short name, as `pole.oracle` says it.
#[must_use]
pub(super) fn spec(oracle: &str) -> String {
    match oracle {
        "combined" => "combined=latency/10ms,history".to_owned(),
        // Any list would do; this one prefers a server that no other oracle prefers.
        "preference" => "preference=2,3,1,4,5".to_owned(),
        other => match other.strip_prefix("leader=") {
            Some(id) => preferring(id),
            None => Experiment::oracle_in_classes(other),
        },
    }
}

/// The list that makes one server win.
fn preferring(id: &str) -> String {
    let others = ["1", "2", "3", "4", "5"].into_iter().filter(|other| *other != id);
    let list: Vec<&str> = [id].into_iter().chain(others).collect();
    format!("preference={}", list.join(","))
}

/// The paper's six, then ours.
pub const ORACLES: [&str; 9] =
    ["history", "rotating", "request", "consensus", "latency", "worst-case", "recovery", "combined", "preference"];

/// Every server that can lead after the crash of p5, made to win.
pub const LEADERS: [&str; 4] = ["leader=1", "leader=2", "leader=3", "leader=4"];

/// A latency that the paper states.
#[derive(Clone, Copy, Debug)]
pub struct Stated {
    /// The deployment.
    pub setting: &'static str,
    /// The load.
    pub share: Share,
    /// The oracle or the leader; none: any.
    pub oracle: Option<&'static str>,
    /// Of what.
    pub what: What,
    /// In milliseconds.
    pub ms: f64,
    /// The paper says "around": to be seen beside ours, not to be held to a tenth.
    pub about: bool,
    /// Where it stands.
    pub source: &'static str,
}

/// What a stated latency is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// All requests after the crash.
    Mean,
    /// All requests before it.
    Before,
    /// The requests of one site after the crash.
    Site(&'static str),
    /// A proposal and a quorum's answers: what a request at the leader's own site takes.
    Consensus,
}

impl What {
    /// In words.
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

const fn stated(
    setting: &'static str,
    share: Share,
    oracle: &'static str,
    what: What,
    ms: f64,
    source: &'static str,
) -> Stated {
    Stated { setting, share, oracle: Some(oracle), what, ms, about: false, source }
}

const fn around(what: What, ms: f64) -> Stated {
    Stated {
        setting: "two",
        share: Share::Permille(500),
        oracle: None,
        what,
        ms,
        about: true,
        source: "4.2, figure 4b",
    }
}

/// Every latency that the paper states in words or numbers.
pub const STATED: [Stated; 14] = [
    around(What::Before, 10.0),
    around(What::Mean, 30.0),
    stated("d1", Share::Even, "leader=4", What::Site("D1"), 12.0, "4.2, figure 6"),
    stated("d1", Share::Even, "leader=4", What::Site("D2"), 22.0, "4.2, figure 6"),
    stated("d1", Share::Even, "leader=4", What::Site("D3"), 92.0, "4.2, figure 6"),
    stated("d1", Share::Even, "leader=4", What::Mean, 42.0, "4.2, figure 6"),
    stated("d1", Share::Even, "leader=4", What::Consensus, 12.0, "4.2, figure 6"),
    stated("d1", Share::Even, "leader=3", What::Mean, 33.0, "4.2, figure 6"),
    stated("d1", Share::Permille(0), "rotating", What::Mean, 125.8, "4.3, observation 1"),
    stated("d1", Share::Permille(0), "latency", What::Mean, 16.5, "4.3, observation 1"),
    stated("d3", Share::Permille(1000), "consensus", What::Mean, 111.3, "4.3, observation 1"),
    stated("d3", Share::Permille(1000), "latency", What::Mean, 57.4, "4.3, observation 1"),
    stated("d1", Share::Permille(1000), "worst-case", What::Mean, 66.6, "4.3, observation 3"),
    stated("d1", Share::Permille(1000), "latency", What::Mean, 57.4, "4.3, observation 3"),
];

impl Stated {
    /// Whether it speaks of this run.
    #[must_use]
    pub fn is_of(&self, case: &Case) -> bool {
        self.setting == case.setting
            && self.share == case.share_run()
            && self.oracle.is_none_or(|oracle| oracle == case.oracle)
    }
}
