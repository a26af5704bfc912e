//! One run of the simulator, by key, and its stored result.
//!
//! Results are integers, so that a result that is written to a file and read again is the same.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::experiment::{Experiment, Outcome, mean_ns};
use super::question::{Answer, Question};
use super::recovery::Recovery;
use super::wander::{Wander, WanderResult};
use pole_sim::{MS, SECOND, Sample};

/// A run to execute.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// Jobs with the same key are one job.
    pub(super) key: String,
    pub(super) kind: JobKind,
}

#[derive(Clone, Debug)]
pub(super) enum JobKind {
    /// With whether the latency over time is stored.
    Crash(Experiment, bool),
    Recovery(Recovery),
    Question(Question),
    Wander(Wander),
}

/// The stored result of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum JobResult {
    Crash(Crash),
    Recovery(Recovered),
    Question(Answer),
    Wander(WanderResult),
}

/// Latencies around a crash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Crash {
    pub(super) winner: u64,
    pub(super) before_ns: u64,
    pub(super) after_ns: u64,
    pub(super) sites: Vec<Site>,
    pub(super) course: Vec<LatencyPoint>,
    #[serde(default)]
    pub(super) pauses: Vec<Pause>,
}

/// How the clients of one server met the crash: the writes that they sent in the second after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pause {
    pub(super) server: u64,
    /// From the crash to the first reply.
    pub(super) first_reply_ns: u64,
    /// The longest that one of these writes took.
    pub(super) longest_ns: u64,
}

/// The requests of the clients of one site, before or after the crash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Site {
    pub(super) site: String,
    pub(super) after: bool,
    pub(super) mean_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) requests: u64,
}

/// The requests of one site in a short interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LatencyPoint {
    pub(super) site: String,
    /// The start of the interval relative to the crash, in milliseconds.
    pub(super) at_ms: i64,
    pub(super) mean_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Recovered {
    pub(super) winner: u64,
    pub(super) took_ns: u64,
    /// Servers with the bytes that they lacked at the crash.
    pub(super) behind: Vec<(u64, u64)>,
}

impl Job {
    pub(super) fn run(&self) -> Result<JobResult, String> {
        match &self.kind {
            JobKind::Crash(experiment, with_course) => {
                let outcome = experiment.run()?;
                Ok(JobResult::Crash(crash(experiment, &outcome, *with_course)))
            }
            JobKind::Recovery(recovery) => {
                let recovered = recovery.run()?;
                let (winner, took_ns, behind) = (recovered.winner, recovered.took, recovered.behind);
                Ok(JobResult::Recovery(Recovered { winner, took_ns, behind }))
            }
            JobKind::Question(question) => question.run().map(JobResult::Question),
            JobKind::Wander(wander) => wander.run().map(JobResult::Wander),
        }
    }
}

pub(super) fn crash(experiment: &Experiment, outcome: &Outcome, with_course: bool) -> Crash {
    let sites = sites(experiment);
    let each = |samples: &[Sample], after: bool| -> Vec<Site> {
        let of = |site: &String| site_of(experiment, site, samples);
        let some = sites.iter().map(|site| (site, of(site))).filter(|(_, samples)| !samples.is_empty());
        some.map(|(site, samples)| summarise(site, after, &samples)).collect()
    };
    let latencies = [each(&outcome.before, false), each(&outcome.after, true)].concat();
    let course = if with_course {
        sites.iter().flat_map(|site| course(experiment, outcome, site)).collect()
    } else {
        Vec::new()
    };
    Crash {
        winner: outcome.winner,
        before_ns: mean_ns(outcome.before.iter()),
        after_ns: mean_ns(outcome.after.iter()),
        sites: latencies,
        course,
        pauses: pauses(outcome),
    }
}

fn pauses(outcome: &Outcome) -> Vec<Pause> {
    let mut pauses: BTreeMap<u64, Pause> = BTreeMap::new();
    let soon_after = outcome.crash..outcome.crash + SECOND;
    for sample in outcome.all.iter().filter(|sample| soon_after.contains(&sample.asked)) {
        let replied = sample.asked + sample.took - outcome.crash;
        let first = Pause { server: sample.home, first_reply_ns: replied, longest_ns: 0 };
        let pause = pauses.entry(sample.home).or_insert(first);
        pause.first_reply_ns = pause.first_reply_ns.min(replied);
        pause.longest_ns = pause.longest_ns.max(sample.took);
    }
    pauses.into_values().collect()
}

fn sites(experiment: &Experiment) -> Vec<String> {
    let mut sites: Vec<String> = experiment.topology.servers().map(|server| server.site).collect();
    sites.sort_unstable();
    sites.dedup();
    sites
}

fn site_of(experiment: &Experiment, site: &str, samples: &[Sample]) -> Vec<Sample> {
    samples.iter().copied().filter(|sample| experiment.topology.site(sample.home) == Some(site)).collect()
}

fn summarise(site: &str, after: bool, samples: &[Sample]) -> Site {
    let mut took: Vec<u64> = samples.iter().map(|sample| sample.took).collect();
    took.sort_unstable();
    let p99_ns = took.get((took.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0);
    Site { site: site.to_owned(), after, mean_ns: mean_ns(samples.iter()), p99_ns, requests: samples.len() as u64 }
}

fn course(experiment: &Experiment, outcome: &Outcome, site: &str) -> Vec<LatencyPoint> {
    let samples = site_of(experiment, site, &outcome.all);
    let (start, end) = (outcome.crash.saturating_sub(AROUND), outcome.crash + AROUND);
    let moments = (start..end).step_by(STEP as usize).filter_map(|from| {
        let within = samples.iter().filter(|sample| (from..from + STEP).contains(&sample.asked));
        let mean_ns = mean_ns(within);
        let at_ms = (from as i64 - outcome.crash as i64) / MS as i64;
        (mean_ns > 0).then(|| LatencyPoint { site: site.to_owned(), at_ms, mean_ns })
    });
    moments.collect()
}

/// The time before and after a crash that is drawn.
const AROUND: u64 = 5 * SECOND;

/// The interval over which each point is a mean.
const STEP: u64 = 250 * MS;
