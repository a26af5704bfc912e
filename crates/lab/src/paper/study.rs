//! A study: all runs that the selected figures need, and the tables made from them.
//!
//! The output is a folder of files, and a summary of whether everything agrees. The same options give the same files,
//! byte for byte, on every machine and regardless of interruptions.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use pole_topology::Topology;

use super::experiment::Experiment;
use super::figures::{Case, Figure, LEADERS, ORACLES, spec};
use super::formula::Formula;
use super::job::{Crash, Job, JobKind, JobResult, Recovered};
use super::ledger::Ledger;
use super::pool::{self, Progress};
use super::question::{Answer, Question};
use super::real::{Real, RealSummary, real_csv};
use super::recovery::Recovery;
use super::regret::{Regret, random_topology, regrets};
use super::rows::{
    Agreement, DISK_MS, PaperComparison, RecoveryRow, Row, compare_with_paper, deviation, median, ms, paper_csv,
    recovery_csv, recovery_estimate, regret_csv, sites_csv,
};
use super::scale::Scale;
use super::wander::{Wander, WanderResult};
use super::{Error, pages};

/// What to run, and where to write the results.
#[derive(Clone, Debug)]
pub struct Options {
    /// The size of the study.
    pub scale: Scale,
    /// Only these figures; empty: all.
    pub only: Vec<Figure>,
    /// The folder of the report.
    pub out: PathBuf,
    /// Whether finished runs are stored in the folder, so that another call resumes.
    pub resume: bool,
    /// The number of parallel runs.
    pub threads: usize,
    /// The command-line options that repeat this study, as the report prints them.
    pub repeated_by: String,
    /// Only this case, without figures.
    pub case: Option<Case>,
    /// Measurements on real servers, for comparison.
    pub real: Option<Real>,
}

impl Options {
    /// Whether a figure is selected.
    #[must_use]
    pub fn wants(&self, figure: Figure) -> bool {
        match self.case {
            Some(case) => case.figure == figure,
            None => self.only.is_empty() || self.only.contains(&figure),
        }
    }
}

/// All measurements.
pub(super) struct Study {
    pub(super) runs: Vec<(Case, Crash)>,
    pub(super) rows: Vec<Row>,
    pub(super) comparisons: Vec<PaperComparison>,
    pub(super) recoveries: Vec<RecoveryRow>,
    pub(super) questions: Vec<(Question, Answer)>,
    pub(super) regrets: Vec<Regret>,
    pub(super) sampled: Vec<SampledTopology>,
    pub(super) wanders: Vec<(Wander, WanderResult)>,
    pub(super) failed: Vec<(String, String)>,
}

/// A random topology that was run in the simulator.
pub(super) struct SampledTopology {
    pub(super) seed: u64,
    pub(super) leader: u64,
    pub(super) mean_ms: f64,
    /// The formula, including disk and processing.
    pub(super) formula_ms: f64,
}

/// A summary of the results.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The number of predicted winners.
    pub cells: usize,
    /// The number of predictions that hold, including ties.
    pub agree: usize,
    /// The number of those that are ties decided by fluctuation.
    pub ties: usize,
    /// Descriptions of the runs that do not agree.
    pub others: Vec<String>,
    /// The runs with direct acknowledgements, and those of them whose winner agrees with the formula.
    pub direct: (usize, usize),
    /// The largest deviation of these from the formula plus the constant, in percent, and where.
    pub from_direct: Option<(f64, String)>,
    /// The largest deviation from the formulas plus the constant, in percent, and where.
    pub from_formula: Option<(f64, String)>,
    /// The largest deviation from the paper's figures, in percent, and where.
    pub from_paper: Option<(f64, String)>,
    /// The one constant for disk and processing, in milliseconds.
    pub disk_ms: f64,
    /// The number of recoveries under the oracle `recovery`, and of those in which its leader is within 5 % or 2 ms
    /// of the fastest.
    pub recoveries: (usize, usize),
    /// The answer to the open question, if it was run.
    pub answered: Option<AnswerSummary>,
    /// Failed runs, with their errors.
    pub failed: Vec<(String, String)>,
    /// The summary of real servers, if they were run.
    pub real: Option<RealSummary>,
    /// The path of the report.
    pub report: PathBuf,
}

/// How often the leader picked by `recovery` is within 5 % of the fastest recovery: (within, of) cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerSummary {
    /// All cases.
    pub all: (usize, usize),
    /// Cases in which the second fastest takes at least 5 % longer than the fastest.
    pub decided: (usize, usize),
}

impl AnswerSummary {
    fn of(questions: &[(Question, Answer)]) -> Option<Self> {
        let count = |counts: &dyn Fn(&Answer) -> bool| {
            let those = || questions.iter().map(|(_, answer)| answer).filter(|answer| counts(answer));
            (those().filter(|answer| answer.regret() <= NEAR).count(), those().count())
        };
        let answered = Self { all: count(&|_| true), decided: count(&|answer| !answer.is_close(5)) };
        (!questions.is_empty()).then_some(answered)
    }

    /// Whether this is at least 95 % of all cases and of the decided ones.
    #[must_use]
    pub fn holds(&self) -> bool {
        [self.all, self.decided].iter().all(|(within, of)| within * 100 >= of * 95)
    }
}

impl Summary {
    /// Whether all winners agree, all latencies are within 10 %, and the open question is answered.
    #[must_use]
    pub fn holds(&self) -> bool {
        let near =
            |worst: &Option<(f64, String)>| worst.as_ref().is_none_or(|(percent, _)| percent.abs() <= LIMIT_PERCENT);
        let answered = self.answered.is_none_or(|answered| answered.holds());
        let near_all = near(&self.from_formula) && near(&self.from_paper);
        let direct = self.direct.0 == self.direct.1 && near(&self.from_direct);
        self.agree == self.cells && near_all && direct && answered && self.failed.is_empty()
    }
}

/// Runs a study and writes its files. `notify` receives messages for the user.
///
/// # Errors
/// If a file cannot be written.
pub fn run(
    options: &Options,
    notify: &mut dyn FnMut(&str),
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Summary, Error> {
    fs::create_dir_all(&options.out).map_err(Error::at(&options.out))?;
    let runs_of = format!("{} {:?}", env!("CARGO_PKG_VERSION"), options.scale);
    let mut ledger = Ledger::in_memory();
    if options.resume {
        let (opened, afresh) = Ledger::open(&options.out, &runs_of)?;
        ledger = opened;
        if afresh {
            notify("The finished runs in this folder are of another version or another scale: starting afresh.");
        }
    }
    let plan = Plan::of(options);
    let kept = plan.jobs.iter().filter(|job| ledger.get(&job.key).is_some()).count();
    if kept > 0 {
        notify(&format!("{kept} of {} runs are done already.", plan.jobs.len()));
    }
    let failed = pool::run(&plan.jobs, options.threads, &mut ledger, progress)?;
    let study = plan.gathered(options, &ledger, failed);
    write(options, &study)
}

fn write(options: &Options, study: &Study) -> Result<Summary, Error> {
    let real = options.real.as_ref().map(Real::summary);
    let summary = Summary { real, ..study.summary(options.out.join("report.html")) };
    let mut files = BTreeMap::new();
    files.insert("paper.csv".to_owned(), paper_csv(&study.rows));
    files.insert("sites.csv".to_owned(), sites_csv(&study.runs));
    files.insert("recovery.csv".to_owned(), recovery_csv(&study.recoveries, &study.questions));
    files.insert("regret.csv".to_owned(), regret_csv(&study.regrets));
    if let Some(real) = &options.real {
        files.insert("real.csv".to_owned(), real_csv(real, &real.rows(&study.rows)));
        files.insert("real-sites.csv".to_owned(), sites_csv(&real.runs));
    }
    let (html, figures) = pages::report(options, study, &summary);
    files.insert("report.html".to_owned(), html);
    files.extend(figures.into_iter().map(|(name, svg)| (format!("fig{name}.svg"), svg + "\n")));
    for (name, text) in files {
        let path = options.out.join(name);
        fs::write(&path, text).map_err(Error::at(&path))?;
    }
    Ok(summary)
}

/// The jobs of a study, and what they belong to.
struct Plan {
    jobs: Vec<Job>,
    cases: Vec<Case>,
    recoveries: Vec<RecoveryCase>,
    questions: Vec<(String, Question)>,
    wanders: Vec<(String, Wander)>,
    sampled: Vec<(String, u64)>,
}

/// A recovery run and its parameters in the figure.
struct RecoveryCase {
    figure: Figure,
    rtt_ms: f64,
    backlog_mb: u64,
    oracle: &'static str,
    seed: u64,
    key: String,
}

impl Plan {
    fn of(options: &Options) -> Self {
        let mut plan = Self {
            jobs: Vec::new(),
            cases: Vec::new(),
            recoveries: Vec::new(),
            questions: Vec::new(),
            wanders: Vec::new(),
            sampled: Vec::new(),
        };
        // The longest jobs first, so that the threads finish at about the same time.
        if options.wants(Figure::Wander) {
            plan.add_wanders(&options.scale);
        }
        for figure in [Figure::F8a, Figure::F8b].into_iter().filter(|figure| options.wants(*figure)) {
            plan.add_recoveries(figure, &options.scale);
        }
        for figure in Figure::ALL.into_iter().filter(|figure| options.wants(*figure)) {
            plan.add_cases(figure, options);
        }
        if options.wants(Figure::Open) {
            plan.add_questions(&options.scale);
        }
        if options.wants(Figure::Regret) {
            plan.add_samples(&options.scale);
        }
        let mut seen = BTreeSet::new();
        plan.jobs.retain(|job| seen.insert(job.key.clone()));
        plan
    }

    fn add_cases(&mut self, figure: Figure, options: &Options) {
        let scale = &options.scale;
        for case in figure.cases(scale).into_iter().filter(|case| options.case.is_none_or(|only| only == *case)) {
            // Cases that share a run with figure 4b must store the course too, since the first job with a key decides.
            let with_course = Figure::F4b.cases(scale).iter().any(|other| other.key() == case.key());
            let kind = JobKind::Crash(case.experiment(scale), with_course);
            self.jobs.push(Job { key: case.key(), kind });
            let direct = Experiment { direct: true, ..case.experiment(scale) };
            self.jobs.push(Job { key: direct_key(&case), kind: JobKind::Crash(direct, false) });
            self.cases.push(case);
        }
    }

    fn add_recoveries(&mut self, figure: Figure, scale: &Scale) {
        let varied = scale.round_trips_us.iter().copied().map(Some);
        let round_trips: Vec<Option<u64>> = if figure == Figure::F8a { varied.collect() } else { vec![None] };
        for rtt_us in round_trips {
            for backlog_mb in &scale.backlogs_mb {
                for seed in &scale.seeds {
                    self.add_recovery_cases(figure, rtt_us, *backlog_mb, *seed);
                }
            }
        }
    }

    fn add_recovery_cases(&mut self, figure: Figure, rtt_us: Option<u64>, backlog_mb: u64, seed: u64) {
        let (topology, outdated) = recovery_deployment(figure, rtt_us);
        let rtt_ms = topology.link_of_sites("D1", "D2").map_or(0.0, |link| ms(link.rtt_ns));
        let oracles: &[&str] = if figure == Figure::F8a { &["history", "rotating", "recovery"] } else { &ORACLES };
        for oracle in LEADERS.iter().chain(oracles).copied() {
            let key =
                format!("recovery {} rtt={rtt_ms} backlog={backlog_mb} {} seed={seed}", figure.name(), spec(oracle));
            let backlog_bytes = (backlog_mb as usize) << 20;
            let (topology, outdated) = (topology.clone(), outdated.clone());
            let recovery = Recovery { topology, oracle: spec(oracle), seed, outdated, backlog_bytes };
            self.jobs.push(Job { key: key.clone(), kind: JobKind::Recovery(recovery) });
            self.recoveries.push(RecoveryCase { figure, rtt_ms, backlog_mb, oracle, seed, key });
        }
    }

    fn add_questions(&mut self, scale: &Scale) {
        let seed = scale.seeds.first().copied().unwrap_or(1);
        let round_trips = scale.round_trips_us.iter().map(|us| (Figure::F8a, Some(*us))).chain([(Figure::F8b, None)]);
        for (figure, rtt_us) in round_trips {
            for backlog_mb in &scale.backlogs_mb {
                let (topology, outdated) = recovery_deployment(figure, rtt_us);
                let behind: Vec<_> = outdated.into_iter().map(|id| (id, backlog_mb << 20)).collect();
                self.questions.push((String::new(), Question::of_paper(topology, &behind, seed)));
            }
        }
        self.questions.extend(seeds_of(scale, scale.questions).map(|seed| (String::new(), Question::random(seed))));
        for (key, question) in &mut self.questions {
            *key = format!("open {} rtt={} backlog={}", question.name, question.longest_ms(), question.backlog());
            self.jobs.push(Job { key: key.clone(), kind: JobKind::Question(question.clone()) });
        }
    }

    fn add_wanders(&mut self, scale: &Scale) {
        let seed = scale.seeds.first().copied().unwrap_or(1);
        for resign in [true, false] {
            let wander = Wander::around_the_world(seed, scale.stay, scale.stays, resign);
            let key = format!("wander resign={resign} seed={seed}");
            self.jobs.push(Job { key: key.clone(), kind: JobKind::Wander(wander.clone()) });
            self.wanders.push((key, wander));
        }
    }

    fn add_samples(&mut self, scale: &Scale) {
        for seed in seeds_of(scale, scale.sampled) {
            let experiment = Experiment {
                topology: random_topology(seed),
                oracle: "latency".to_owned(),
                seed,
                load_percent: scale.load_percent,
                before: scale.before,
                after: scale.after,
                direct: false,
            };
            let key = format!("random {seed}");
            self.jobs.push(Job { key: key.clone(), kind: JobKind::Crash(experiment, false) });
            self.sampled.push((key, seed));
        }
    }

    fn gathered(self, options: &Options, ledger: &Ledger, failed: Vec<(String, String)>) -> Study {
        let crash = |key: &str| match ledger.get(key) {
            Some(JobResult::Crash(run)) => Some(run.clone()),
            Some(JobResult::Recovery(_) | JobResult::Question(_) | JobResult::Wander(_)) | None => None,
        };
        let runs: Vec<(Case, Crash)> =
            self.cases.iter().filter_map(|case| Some((*case, crash(&case.key())?))).collect();
        let wandered = |(key, wander): (String, Wander)| match ledger.get(&key) {
            Some(JobResult::Wander(wandered)) => Some((wander, wandered.clone())),
            Some(JobResult::Crash(_) | JobResult::Recovery(_) | JobResult::Question(_)) | None => None,
        };
        let answered = |(key, question): (String, Question)| match ledger.get(&key) {
            Some(JobResult::Question(answer)) => Some((question, answer.clone())),
            Some(JobResult::Crash(_) | JobResult::Recovery(_) | JobResult::Wander(_)) | None => None,
        };
        let topologies = if options.wants(Figure::Regret) { options.scale.topologies } else { 0 };
        Study {
            rows: runs.iter().map(|(case, run)| Row::new(*case, run, crash(&direct_key(case)).as_ref())).collect(),
            comparisons: compare_with_paper(&runs),
            runs,
            recoveries: recovery_rows(&self.recoveries, ledger),
            questions: self.questions.into_iter().filter_map(answered).collect(),
            regrets: seeds_of(&options.scale, topologies).flat_map(regrets).collect(),
            sampled: self.sampled.iter().filter_map(|(key, seed)| Some(sampled(*seed, &crash(key)?))).collect(),
            wanders: self.wanders.into_iter().filter_map(wandered).collect(),
            failed,
        }
    }
}

/// The key of the same run with direct acknowledgements.
fn direct_key(case: &Case) -> String {
    format!("direct {}", case.key())
}

/// The deployment of a recovery figure, and its outdated servers.
fn recovery_deployment(figure: Figure, rtt_us: Option<u64>) -> (Topology, Vec<u64>) {
    let (name, outdated) = if figure == Figure::F8a { ("recovery-8a", vec![1]) } else { ("recovery-8b", vec![2, 3]) };
    let topology = Topology::preset(name).expect("a preset");
    let topology = match rtt_us {
        Some(us) => topology.with_rtt("D1", "D2", us * 1_000),
        None => topology,
    };
    (topology, outdated)
}

fn recovery_rows(cases: &[RecoveryCase], ledger: &Ledger) -> Vec<RecoveryRow> {
    let run = |case: &RecoveryCase| match ledger.get(&case.key) {
        Some(JobResult::Recovery(run)) => Some(run.clone()),
        Some(JobResult::Crash(_) | JobResult::Question(_) | JobResult::Wander(_)) | None => None,
    };
    let same = |a: &RecoveryCase, b: &RecoveryCase| {
        (a.figure, a.backlog_mb, a.seed) == (b.figure, b.backlog_mb, b.seed) && a.rtt_ms == b.rtt_ms
    };
    let row = |case: &RecoveryCase| {
        let own = run(case)?;
        // All runs of this setting: each possible leader was forced once, and each oracle made its choice.
        let all: Vec<Recovered> = cases.iter().filter(|other| same(case, other)).filter_map(&run).collect();
        let led = |id: u64| median(all.iter().filter(|run| run.winner == id).map(|run| ms(run.took_ns)));
        let leaders: BTreeSet<u64> = all.iter().map(|run| run.winner).collect();
        let best = leaders.into_iter().min_by(|a, b| led(*a).total_cmp(&led(*b)))?;
        Some(recovery_row(case, &own, led(own.winner), (best, led(best))))
    };
    cases.iter().filter_map(row).collect()
}

fn recovery_row(
    case: &RecoveryCase,
    run: &Recovered,
    leader_ms: f64,
    (best_leader, best_ms): (u64, f64),
) -> RecoveryRow {
    let (topology, _) =
        recovery_deployment(case.figure, (case.figure == Figure::F8a).then_some((case.rtt_ms * 1e3) as u64));
    RecoveryRow {
        figure: case.figure,
        rtt_ms: case.rtt_ms,
        backlog_mb: case.backlog_mb,
        oracle: case.oracle,
        seed: case.seed,
        leader: run.winner,
        recovery_ms: ms(run.took_ns),
        predicted_ms: recovery_estimate(topology, run),
        leader_ms,
        best_leader,
        best_ms,
    }
}

fn sampled(seed: u64, run: &Crash) -> SampledTopology {
    let topology = random_topology(seed);
    let formula_ms = Formula::after_crash(&topology).latency_ms(run.winner) + DISK_MS;
    SampledTopology { seed, leader: run.winner, mean_ms: ms(run.after_ns), formula_ms }
}

/// Seeds of random deployments; those of two studies with different seeds do not overlap.
fn seeds_of(scale: &Scale, count: u64) -> impl Iterator<Item = u64> + use<> {
    let first = scale.seeds.first().copied().unwrap_or(1).wrapping_mul(1_000_000);
    (0..count).map(move |n| first.wrapping_add(n))
}

impl Study {
    fn summary(&self, report: PathBuf) -> Summary {
        let count = |agreement: Agreement| self.rows.iter().filter(|row| row.agreement == agreement).count();
        let named = |row: &Row| {
            let Case { figure, setting, share, oracle, seed } = row.case;
            format!("figure {} {setting} p={} {oracle} seed {seed}", figure.name(), share.text())
        };
        let others = self.rows.iter().filter(|row| row.agreement == Agreement::Other);
        let others =
            others.map(|row| format!("{}: p{} won, not p{}", named(row), row.winner, row.predicted_winner)).collect();
        let direct = || self.rows.iter().filter_map(|row| Some((row, row.direct.as_ref()?)));
        let agreeing = direct().filter(|(_, direct)| direct.agreement != Agreement::Other).count();
        let from_direct = farthest(direct().map(|(row, direct)| (direct.deviation_percent, named(row))));
        let from_formula = farthest(self.rows.iter().map(|row| (row.deviation_percent, named(row))));
        let from_paper =
            farthest(self.comparisons.iter().filter(|comparison| !comparison.stated.approximate).map(|comparison| {
                let stated = &comparison.stated;
                let who = stated.oracle.unwrap_or("any");
                (
                    comparison.deviation_percent,
                    format!("{} p={} {who}, {}", stated.setting, stated.share.text(), stated.kind.text()),
                )
            }));
        let by_recovery = || self.recoveries.iter().filter(|row| row.oracle == "recovery");
        let near =
            by_recovery().filter(|row| row.regret_percent() <= 5.0 || row.leader_ms - row.best_ms <= 2.0).count();
        Summary {
            cells: self.rows.len(),
            agree: count(Agreement::Same) + count(Agreement::Tie),
            ties: count(Agreement::Tie),
            others,
            direct: (direct().count(), agreeing),
            from_direct,
            from_formula,
            from_paper,
            disk_ms: DISK_MS,
            recoveries: (by_recovery().count(), near),
            answered: AnswerSummary::of(&self.questions),
            failed: self.failed.clone(),
            real: None,
            report,
        }
    }

    /// The largest deviation from the formula among the random topologies that were run.
    pub(super) fn farthest_sample(&self) -> Option<(f64, String)> {
        let deviations =
            self.sampled.iter().map(|s| (deviation(s.mean_ms, s.formula_ms), format!("topology {}", s.seed)));
        farthest(deviations)
    }
}

pub(super) fn farthest(deviations: impl Iterator<Item = (f64, String)>) -> Option<(f64, String)> {
    deviations.max_by(|(a, _), (b, _)| a.abs().total_cmp(&b.abs()))
}

/// How much longer than the fastest a recovery may take to count as good, as a fraction.
pub(super) const NEAR: f64 = 0.05;

/// The largest deviation of a latency from the formula or from the paper.
pub(super) const LIMIT_PERCENT: f64 = 10.0;
