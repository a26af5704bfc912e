//! A study: all runs that the wanted figures need, and the tables made of them.
//!
//! In: options. Out: files in a folder, and a summary that says whether all agrees.
//! Holds: the same options give the same files, byte for byte, on every machine and however often it was interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use pole_topology::Topology;

use super::experiment::Experiment;
use super::figures::{Case, Figure, LEADERS, ORACLES, spec};
use super::formula::Formula;
use super::job::{Crash, Done, Job, Recovered, What};
use super::ledger::Ledger;
use super::pool::{self, Progress};
use super::question::{Answer, Question};
use super::real::{Real, RealSummary, real_csv};
use super::recovery::Recovery;
use super::regret::{Regret, random_topology, regrets};
use super::rows::{
    Agreement, Beside, DISK_MS, RecoveryRow, Row, beside_the_paper, deviation, median, ms, paper_csv, recovery_csv,
    recovery_estimate, regret_csv, sites_csv,
};
use super::scale::Scale;
use super::wander::{Wander, Wandered};
use super::{Error, pages};

/// What to run, and where to put it.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much.
    pub scale: Scale,
    /// These figures only; none: all.
    pub only: Vec<Figure>,
    /// The folder of the report.
    pub out: PathBuf,
    /// Whether finished runs are kept there, so that another call goes on.
    pub resume: bool,
    /// How many runs at once.
    pub threads: usize,
    /// The options of the command line that repeat this, as the report prints them.
    pub repeated_by: String,
    /// This case only, and no figures: there is nothing to draw of one.
    pub case: Option<Case>,
    /// What was measured on real servers, to stand beside.
    pub real: Option<Real>,
}

impl Options {
    /// Whether a figure is wanted.
    #[must_use]
    pub fn wants(&self, figure: Figure) -> bool {
        match self.case {
            Some(case) => case.figure == figure,
            None => self.only.is_empty() || self.only.contains(&figure),
        }
    }
}

/// Everything that was measured.
pub(super) struct Study {
    pub(super) runs: Vec<(Case, Crash)>,
    pub(super) rows: Vec<Row>,
    pub(super) beside: Vec<Beside>,
    pub(super) recoveries: Vec<RecoveryRow>,
    pub(super) questions: Vec<(Question, Answer)>,
    pub(super) regrets: Vec<Regret>,
    pub(super) sampled: Vec<Sampled>,
    pub(super) wanders: Vec<(Wander, Wandered)>,
    pub(super) failed: Vec<(String, String)>,
}

/// A random topology that was run.
pub(super) struct Sampled {
    pub(super) seed: u64,
    pub(super) leader: u64,
    pub(super) mean_ms: f64,
    /// With disk and processing.
    pub(super) formula_ms: f64,
}

/// The answer in short.
#[derive(Clone, Debug)]
pub struct Summary {
    /// How many winners were predicted.
    pub cells: usize,
    /// How many of them won, ties included.
    pub agree: usize,
    /// How many of those are ties that fluctuation decided.
    pub ties: usize,
    /// The cells that do not agree, in words.
    pub others: Vec<String>,
    /// The largest deviation from the formulas plus the constant, in percent, and where.
    pub from_formula: Option<(f64, String)>,
    /// The largest deviation from the paper's figures, in percent, and where.
    pub from_paper: Option<(f64, String)>,
    /// The one constant for disk and processing, in milliseconds.
    pub disk_ms: f64,
    /// Recoveries under the oracle `recovery`, and in how many its leader is within 5 % of the fastest or 2 ms from it.
    pub recoveries: (usize, usize),
    /// The open question; none if it was not asked.
    pub answered: Option<Answered>,
    /// Runs that failed, each with why.
    pub failed: Vec<(String, String)>,
    /// The answer of real servers, where they were asked.
    pub real: Option<RealSummary>,
    /// The report.
    pub report: PathBuf,
}

/// How often the leader by `recovery` is within 5 % of the fastest to recover: in so many cases of so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// All cases.
    pub all: (usize, usize),
    /// Those in which the second fastest takes at least 5 % longer than the fastest.
    pub decided: (usize, usize),
}

impl Answered {
    fn of(questions: &[(Question, Answer)]) -> Option<Self> {
        let count = |counts: &dyn Fn(&Answer) -> bool| {
            let those = || questions.iter().map(|(_, answer)| answer).filter(|answer| counts(answer));
            (those().filter(|answer| answer.regret() <= NEAR).count(), those().count())
        };
        let answered = Self { all: count(&|_| true), decided: count(&|answer| !answer.is_close(5)) };
        (!questions.is_empty()).then_some(answered)
    }

    /// Whether that is in 95 of a hundred, of all and of those that were decided.
    #[must_use]
    pub fn holds(&self) -> bool {
        [self.all, self.decided].iter().all(|(within, of)| within * 100 >= of * 95)
    }
}

impl Summary {
    /// Whether every winner agrees, every latency is within a tenth, and the open question is answered.
    #[must_use]
    pub fn holds(&self) -> bool {
        let near =
            |worst: &Option<(f64, String)>| worst.as_ref().is_none_or(|(percent, _)| percent.abs() <= LIMIT_PERCENT);
        let answered = self.answered.is_none_or(|answered| answered.holds());
        let near = near(&self.from_formula) && near(&self.from_paper);
        self.agree == self.cells && near && answered && self.failed.is_empty()
    }
}

/// Runs a study and writes its files. `say` gets sentences for the one who waits.
///
/// # Errors
/// If a file cannot be written.
pub fn run(
    options: &Options,
    say: &mut dyn FnMut(&str),
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Summary, Error> {
    fs::create_dir_all(&options.out).map_err(Error::at(&options.out))?;
    let runs_of = format!("{} {:?}", env!("CARGO_PKG_VERSION"), options.scale);
    let mut ledger = Ledger::in_memory();
    if options.resume {
        let (opened, afresh) = Ledger::open(&options.out, &runs_of)?;
        ledger = opened;
        if afresh {
            say("The finished runs in this folder are of another version or another scale: starting afresh.");
        }
    }
    let plan = Plan::of(options);
    let kept = plan.jobs.iter().filter(|job| ledger.get(&job.key).is_some()).count();
    if kept > 0 {
        say(&format!("{kept} of {} runs are done already.", plan.jobs.len()));
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

/// Which runs belong to what.
struct Plan {
    jobs: Vec<Job>,
    cases: Vec<Case>,
    recoveries: Vec<Bench>,
    questions: Vec<(String, Question)>,
    wanders: Vec<(String, Wander)>,
    sampled: Vec<(String, u64)>,
}

/// A recovery and its place in the figure.
struct Bench {
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
        // The longest first, so that no thread is left alone with one at the end.
        if options.wants(Figure::Wander) {
            plan.adds_wanders(&options.scale);
        }
        for figure in [Figure::F8a, Figure::F8b].into_iter().filter(|figure| options.wants(*figure)) {
            plan.adds_recoveries(figure, &options.scale);
        }
        for figure in Figure::ALL.into_iter().filter(|figure| options.wants(*figure)) {
            plan.adds_cases(figure, options);
        }
        if options.wants(Figure::Open) {
            plan.adds_questions(&options.scale);
        }
        if options.wants(Figure::Regret) {
            plan.adds_samples(&options.scale);
        }
        let mut seen = BTreeSet::new();
        plan.jobs.retain(|job| seen.insert(job.key.clone()));
        plan
    }

    fn adds_cases(&mut self, figure: Figure, options: &Options) {
        let scale = &options.scale;
        for case in figure.cases(scale).into_iter().filter(|case| options.case.is_none_or(|only| only == *case)) {
            // Whoever shares the run of figure 4b needs its course as well: the first to ask decides what is kept.
            let with_course = Figure::F4b.cases(scale).iter().any(|other| other.key() == case.key());
            let what = What::Crash(case.experiment(scale), with_course);
            self.jobs.push(Job { key: case.key(), what });
            self.cases.push(case);
        }
    }

    fn adds_recoveries(&mut self, figure: Figure, scale: &Scale) {
        let varied = scale.round_trips_us.iter().copied().map(Some);
        let round_trips: Vec<Option<u64>> = if figure == Figure::F8a { varied.collect() } else { vec![None] };
        for rtt_us in round_trips {
            for backlog_mb in &scale.backlogs_mb {
                for seed in &scale.seeds {
                    self.adds_bench(figure, rtt_us, *backlog_mb, *seed);
                }
            }
        }
    }

    fn adds_bench(&mut self, figure: Figure, rtt_us: Option<u64>, backlog_mb: u64, seed: u64) {
        let (topology, outdated) = recovering(figure, rtt_us);
        let rtt_ms = topology.link_of_sites("D1", "D2").map_or(0.0, |link| ms(link.rtt_ns));
        let oracles: &[&str] = if figure == Figure::F8a { &["history", "rotating", "recovery"] } else { &ORACLES };
        for oracle in LEADERS.iter().chain(oracles).copied() {
            let key =
                format!("recovery {} rtt={rtt_ms} backlog={backlog_mb} {} seed={seed}", figure.name(), spec(oracle));
            let backlog_bytes = (backlog_mb as usize) << 20;
            let (topology, outdated) = (topology.clone(), outdated.clone());
            let recovery = Recovery { topology, oracle: spec(oracle), seed, outdated, backlog_bytes };
            self.jobs.push(Job { key: key.clone(), what: What::Recovery(recovery) });
            self.recoveries.push(Bench { figure, rtt_ms, backlog_mb, oracle, seed, key });
        }
    }

    fn adds_questions(&mut self, scale: &Scale) {
        let seed = scale.seeds.first().copied().unwrap_or(1);
        let round_trips = scale.round_trips_us.iter().map(|us| (Figure::F8a, Some(*us))).chain([(Figure::F8b, None)]);
        for (figure, rtt_us) in round_trips {
            for backlog_mb in &scale.backlogs_mb {
                let (topology, outdated) = recovering(figure, rtt_us);
                let behind: Vec<_> = outdated.into_iter().map(|id| (id, backlog_mb << 20)).collect();
                self.questions.push((String::new(), Question::of_paper(topology, &behind, seed)));
            }
        }
        self.questions.extend(seeds_of(scale, scale.questions).map(|seed| (String::new(), Question::random(seed))));
        for (key, question) in &mut self.questions {
            *key = format!("open {} rtt={} backlog={}", question.name, question.longest_ms(), question.backlog());
            self.jobs.push(Job { key: key.clone(), what: What::Question(question.clone()) });
        }
    }

    fn adds_wanders(&mut self, scale: &Scale) {
        let seed = scale.seeds.first().copied().unwrap_or(1);
        for resign in [true, false] {
            let wander = Wander::around_the_world(seed, scale.stay, scale.stays, resign);
            let key = format!("wander resign={resign} seed={seed}");
            self.jobs.push(Job { key: key.clone(), what: What::Wander(wander.clone()) });
            self.wanders.push((key, wander));
        }
    }

    fn adds_samples(&mut self, scale: &Scale) {
        for seed in seeds_of(scale, scale.sampled) {
            let experiment = Experiment {
                topology: random_topology(seed),
                oracle: "latency".to_owned(),
                seed,
                load_percent: scale.load_percent,
                before: scale.before,
                after: scale.after,
            };
            let key = format!("random {seed}");
            self.jobs.push(Job { key: key.clone(), what: What::Crash(experiment, false) });
            self.sampled.push((key, seed));
        }
    }

    fn gathered(self, options: &Options, ledger: &Ledger, failed: Vec<(String, String)>) -> Study {
        let crash = |key: &str| match ledger.get(key) {
            Some(Done::Crash(run)) => Some(run.clone()),
            Some(Done::Recovery(_) | Done::Question(_) | Done::Wander(_)) | None => None,
        };
        let runs: Vec<(Case, Crash)> =
            self.cases.iter().filter_map(|case| Some((*case, crash(&case.key())?))).collect();
        let wandered = |(key, wander): (String, Wander)| match ledger.get(&key) {
            Some(Done::Wander(wandered)) => Some((wander, wandered.clone())),
            Some(Done::Crash(_) | Done::Recovery(_) | Done::Question(_)) | None => None,
        };
        let answered = |(key, question): (String, Question)| match ledger.get(&key) {
            Some(Done::Question(answer)) => Some((question, answer.clone())),
            Some(Done::Crash(_) | Done::Recovery(_) | Done::Wander(_)) | None => None,
        };
        let topologies = if options.wants(Figure::Regret) { options.scale.topologies } else { 0 };
        Study {
            rows: runs.iter().map(|(case, run)| Row::new(*case, run)).collect(),
            beside: beside_the_paper(&runs),
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

/// The deployment of a recovery figure, and who is outdated in it.
fn recovering(figure: Figure, rtt_us: Option<u64>) -> (Topology, Vec<u64>) {
    let (name, outdated) = if figure == Figure::F8a { ("recovery-8a", vec![1]) } else { ("recovery-8b", vec![2, 3]) };
    let topology = Topology::preset(name).expect("a preset");
    let topology = match rtt_us {
        Some(us) => topology.with_rtt("D1", "D2", us * 1_000),
        None => topology,
    };
    (topology, outdated)
}

fn recovery_rows(benches: &[Bench], ledger: &Ledger) -> Vec<RecoveryRow> {
    let run = |bench: &Bench| match ledger.get(&bench.key) {
        Some(Done::Recovery(run)) => Some(run.clone()),
        Some(Done::Crash(_) | Done::Question(_) | Done::Wander(_)) | None => None,
    };
    let same = |a: &Bench, b: &Bench| {
        (a.figure, a.backlog_mb, a.seed) == (b.figure, b.backlog_mb, b.seed) && a.rtt_ms == b.rtt_ms
    };
    let row = |bench: &Bench| {
        let own = run(bench)?;
        // Found by running: each that can lead was preferred, and the oracles had their choice.
        let all: Vec<Recovered> = benches.iter().filter(|other| same(bench, other)).filter_map(&run).collect();
        let led = |id: u64| median(all.iter().filter(|run| run.winner == id).map(|run| ms(run.took_ns)));
        let leaders: BTreeSet<u64> = all.iter().map(|run| run.winner).collect();
        let best = leaders.into_iter().min_by(|a, b| led(*a).total_cmp(&led(*b)))?;
        Some(recovery_row(bench, &own, led(own.winner), (best, led(best))))
    };
    benches.iter().filter_map(row).collect()
}

fn recovery_row(bench: &Bench, run: &Recovered, leader_ms: f64, (best_leader, best_ms): (u64, f64)) -> RecoveryRow {
    let (topology, _) = recovering(bench.figure, (bench.figure == Figure::F8a).then_some((bench.rtt_ms * 1e3) as u64));
    RecoveryRow {
        figure: bench.figure,
        rtt_ms: bench.rtt_ms,
        backlog_mb: bench.backlog_mb,
        oracle: bench.oracle,
        seed: bench.seed,
        leader: run.winner,
        recovery_ms: ms(run.took_ns),
        predicted_ms: recovery_estimate(topology, run),
        leader_ms,
        best_leader,
        best_ms,
    }
}

fn sampled(seed: u64, run: &Crash) -> Sampled {
    let topology = random_topology(seed);
    let formula_ms = Formula::after_crash(&topology).latency_ms(run.winner) + DISK_MS;
    Sampled { seed, leader: run.winner, mean_ms: ms(run.after_ns), formula_ms }
}

/// Random deployments of two seeds of a study have nothing in common.
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
        let from_formula = farthest(self.rows.iter().map(|row| (row.deviation_percent, named(row))));
        let from_paper = farthest(self.beside.iter().filter(|beside| !beside.stated.about).map(|beside| {
            let stated = &beside.stated;
            let who = stated.oracle.unwrap_or("any");
            (
                beside.deviation_percent,
                format!("{} p={} {who}, {}", stated.setting, stated.share.text(), stated.what.text()),
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
            from_formula,
            from_paper,
            disk_ms: DISK_MS,
            recoveries: (by_recovery().count(), near),
            answered: Answered::of(&self.questions),
            failed: self.failed.clone(),
            real: None,
            report,
        }
    }

    /// Of the random topologies that were run, the largest deviation from the formula.
    pub(super) fn farthest_sample(&self) -> Option<(f64, String)> {
        let deviations =
            self.sampled.iter().map(|s| (deviation(s.mean_ms, s.formula_ms), format!("topology {}", s.seed)));
        farthest(deviations)
    }
}

pub(super) fn farthest(deviations: impl Iterator<Item = (f64, String)>) -> Option<(f64, String)> {
    deviations.max_by(|(a, _), (b, _)| a.abs().total_cmp(&b.abs()))
}

/// How much longer than the fastest a recovery may take to count as good.
pub(super) const NEAR: f64 = 0.05;

/// How far a latency may lie from the formula or from the paper's figure.
pub(super) const LIMIT_PERCENT: f64 = 10.0;
