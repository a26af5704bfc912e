//! The same experiments on real servers: which of them, and what was measured beside the formulas and the simulator.
//!
//! In: figures; then an outcome for each run. Out: rows, tables, a summary.
//! Why: what the simulator says is worth as much as the agreement of the two.
//! How: a run is an [`Experiment`] as the simulator's is, and what counts of its writes is decided by the same code. The
//! constant for disk and processing is this machine's own: what a write takes in runs of the same load without distance
//! (an ensemble in one place), over what the formula says of those. It is one number for all cells. Who should win is
//! predicted with the disk alone: scores contain what servers measure, and they measure no more.
//! Not here: processes, sockets and clocks (`cli`), the page (`pages`).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use pole_topology::{PRESETS, Topology};

use super::experiment::{Experiment, Outcome};
use super::figures::{Case, Figure, ORACLES, Share};
use super::formula::Formula;
use super::job::{Crash, crash};
use super::rows::{Agreement, Beside, PAPER_HEAD, Row, beside_the_paper, deviation, median, ms, paper_line};
use super::scale::Scale;
use super::study::farthest;

/// Which experiments are run on real servers.
#[derive(Clone, Debug)]
pub struct RealPlan {
    scale: Scale,
    cases: Vec<Case>,
    /// The options of the command line that choose these cases.
    chosen_by: String,
}

/// One ensemble to start, to load and to take the leader from.
#[derive(Clone, Debug)]
pub struct RealRun {
    /// For people.
    pub name: String,
    /// The file of sites and links that its servers read.
    pub links: &'static str,
    /// What to do with it.
    pub experiment: Experiment,
    /// Runs without distance give the constant.
    is_near: bool,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct RealOutcome {
    /// Its winner and its writes.
    pub outcome: Outcome,
    /// What each server that lives takes its disk to need for an fsync, in milliseconds.
    pub disk_ms: Vec<f64>,
}

impl RealPlan {
    /// All runs of these figures; of none, the settings of deployments 1 and 3 in the paper's table under every oracle and,
    /// with an even load, under every leader.
    ///
    /// # Errors
    /// If a figure is not for real servers.
    pub fn new(only: &[Figure], scale: Scale) -> Result<Self, String> {
        let figures = if only.is_empty() { &FIGURES_DEFAULT } else { only };
        if let Some(other) = figures.iter().find(|figure| !FIGURES.contains(figure)) {
            let (name, known) = (other.name(), FIGURES.map(Figure::name).join(", "));
            return Err(format!("figure {name} is not run on real servers: expected some of {known}"));
        }
        let cases = figures.iter().flat_map(|figure| figure.cases(&scale));
        let cases = cases.filter(|case| !only.is_empty() || TABLE.contains(&(case.setting, case.share))).collect();
        let names: Vec<&str> = only.iter().copied().map(Figure::name).collect();
        let chosen_by = if only.is_empty() { String::new() } else { format!(" --only {}", names.join(",")) };
        Ok(Self { scale, cases, chosen_by })
    }

    /// One run, as the tables name it: `d1 p=even latency`.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn one(name: &str, scale: Scale) -> Result<Self, String> {
        let mut cases = FIGURES.into_iter().flat_map(|figure| figure.cases(&scale));
        let case = cases.find(|case| named(case) == name);
        let case = case.ok_or_else(|| {
            let oracles = ORACLES.join(", ");
            format!(
                "\"{name}\": expected deployment, load and oracle as in \"d1 p=0.75 latency\" or \"d3 p=even leader=4\"; \
                 deployments are two, d1, d2, d3, oracles {oracles}"
            )
        })?;
        Ok(Self { scale, cases: vec![case], chosen_by: format!(" --case \"{name}\"") })
    }

    /// The figures that its runs are of.
    #[must_use]
    pub fn figures(&self) -> Vec<Figure> {
        let figures: BTreeSet<Figure> = self.cases.iter().map(|case| case.figure).collect();
        figures.into_iter().collect()
    }

    /// The case, if it is one only.
    #[must_use]
    pub fn single(&self) -> Option<Case> {
        if let [case] = self.cases[..] { Some(case) } else { None }
    }

    /// What is to be run. Cases of one name are one run; runs without distance stand at the beginning, at the end and, of
    /// many, between, since a machine is not equally quick all the time.
    #[must_use]
    pub fn runs(&self) -> Vec<RealRun> {
        let mut seen = BTreeSet::new();
        let distinct = self.cases.iter().filter(|case| seen.insert(case.key()));
        let mut runs: Vec<RealRun> = distinct.map(|case| self.far(case)).collect();
        let places: &[usize] = if runs.len() == 1 { &[0] } else { &[runs.len(), runs.len() / 2, 0] };
        places.iter().for_each(|place| runs.insert(*place, self.near()));
        runs
    }

    fn far(&self, case: &Case) -> RealRun {
        let links = PRESETS.iter().find(|(name, _)| *name == case.setting).map_or("", |(_, text)| text);
        RealRun { name: named(case), links, experiment: case.experiment(&self.scale), is_near: false }
    }

    fn near(&self) -> RealRun {
        let Scale { load_percent, before, after, .. } = self.scale;
        let experiment =
            Experiment { topology: one_place(), oracle: "history".to_owned(), seed: 1, load_percent, before, after };
        RealRun { name: "without distance".to_owned(), links: ONE_PLACE, experiment, is_near: true }
    }

    /// All of it, from what came of each of the runs.
    ///
    /// # Errors
    /// If no run without distance has an outcome: then there is no constant.
    pub fn gathered(self, done: Vec<(RealRun, Result<RealOutcome, String>)>) -> Result<Real, String> {
        let (mut constants_ms, mut disks_ms, mut crashes, mut failed) = (vec![], vec![], vec![], vec![]);
        for (run, outcome) in done {
            match outcome {
                Ok(RealOutcome { outcome, .. }) if outcome.before.is_empty() || outcome.after.is_empty() => {
                    failed.push((run.name, "no write was answered in the time that counts".to_owned()));
                }
                Ok(RealOutcome { outcome, disk_ms }) if run.is_near => {
                    constants_ms.push(over_the_formula(&outcome));
                    disks_ms.extend(disk_ms);
                }
                Ok(RealOutcome { outcome, .. }) => crashes.push((run.name, crash(&run.experiment, &outcome, false))),
                Err(why) => failed.push((run.name, why)),
            }
        }
        let (constant_ms, disk_ms) = (median(constants_ms.iter().copied()), median(disks_ms.into_iter()));
        if constant_ms.is_nan() || disk_ms.is_nan() {
            let why = failed.iter().map(|(name, why)| format!("{name}: {why}")).collect::<Vec<_>>();
            return Err(format!("nothing to take the constant for disk and processing from: {}", why.join("; ")));
        }
        let of = |case: &Case| crashes.iter().find(|(name, _)| *name == named(case)).map(|(_, run)| run.clone());
        let runs: Vec<(Case, Crash)> = self.cases.iter().filter_map(|case| Some((*case, of(case)?))).collect();
        Ok(Real { scale: self.scale, chosen_by: self.chosen_by, constant_ms, constants_ms, disk_ms, runs, failed })
    }
}

/// What was measured on real servers.
#[derive(Clone, Debug)]
pub struct Real {
    pub(super) scale: Scale,
    /// The options of the command line that choose these runs.
    pub(super) chosen_by: String,
    /// The one constant for disk and processing on this machine, in milliseconds.
    pub constant_ms: f64,
    /// In each of the runs that it is the median of.
    pub(super) constants_ms: Vec<f64>,
    /// The part of it that is an fsync, as the servers measure it.
    pub(super) disk_ms: f64,
    pub(super) runs: Vec<(Case, Crash)>,
    /// Runs that failed, each with why.
    pub failed: Vec<(String, String)>,
}

/// A line of real.csv.
#[derive(Clone, Debug)]
pub struct RealRow {
    /// As a line of paper.csv, with this machine's constant.
    pub row: Row,
    /// The mean latency before the crash.
    pub before_ms: f64,
    /// By the formula, without disk and processing.
    pub before_predicted_ms: f64,
    /// Ours over that plus the constant, less one, in percent.
    pub before_deviation_percent: f64,
    /// Winner and latency of the same case in the simulator.
    pub simulated: Option<(u64, f64)>,
    /// The writes that count, before and after the crash.
    pub requests: u64,
}

/// The answer in short.
#[derive(Clone, Debug)]
pub struct RealSummary {
    /// How many runs have an outcome.
    pub cells: usize,
    /// In how many the predicted server won, ties included.
    pub agree: usize,
    /// How many of those are ties that fluctuation decided.
    pub ties: usize,
    /// The others, in words.
    pub others: Vec<String>,
    /// The largest deviation from the formulas plus the constant, in percent, and where.
    pub from_formula: Option<(f64, String)>,
    /// The largest deviation from the paper's figures, in percent, and where.
    pub from_paper: Option<(f64, String)>,
    /// The one constant for disk and processing on this machine, in milliseconds.
    pub constant_ms: f64,
    /// The part of it that is an fsync, as the servers measure it.
    pub disk_ms: f64,
    /// Runs that failed, each with why.
    pub failed: Vec<(String, String)>,
}

impl RealSummary {
    /// Whether every winner agrees and every latency is near enough.
    #[must_use]
    pub fn holds(&self) -> bool {
        let near = |worst: &Option<(f64, String)>| worst.as_ref().is_none_or(|(percent, _)| is_near(*percent));
        self.agree == self.cells && near(&self.from_formula) && near(&self.from_paper) && self.failed.is_empty()
    }
}

impl Real {
    /// The rows, beside those of the simulator.
    pub(super) fn rows(&self, simulated: &[Row]) -> Vec<RealRow> {
        self.runs.iter().map(|(case, run)| self.row(case, run, simulated)).collect()
    }

    fn row(&self, case: &Case, run: &Crash, simulated: &[Row]) -> RealRow {
        let topology = case.topology();
        let before_predicted_ms = Formula::whole(&topology).latency_ms(topology.servers().count() as u64);
        let same = simulated.iter().find(|row| row.case.key() == case.key());
        RealRow {
            row: Row::with_constant(*case, run, self.constant_ms, self.disk_ms),
            before_ms: ms(run.before_ns),
            before_predicted_ms,
            before_deviation_percent: deviation(ms(run.before_ns), before_predicted_ms + self.constant_ms),
            simulated: same.map(|row| (row.winner, row.shown_ms())),
            requests: run.sites.iter().map(|site| site.requests).sum(),
        }
    }

    /// Whether the latency before the crash says anything of distance: where the constant is more than the formula (two data
    /// centres, all clients beside a whole quorum), only the constant would be held against itself.
    pub(super) fn judges_before(&self, row: &RealRow) -> bool {
        row.before_predicted_ms > self.constant_ms
    }

    /// Every latency that the paper states, beside what real servers took under the leader of the paper's run. Where a tie
    /// went to another, the same load under the paper's leader is taken from the run of another oracle: how a server came to
    /// lead makes no difference to the requests. If nobody elected it, nothing is comparable.
    pub(super) fn beside(&self) -> Vec<Beside> {
        let same_leader = |(case, run): &(Case, Crash)| {
            let row = Row::with_constant(*case, run, self.constant_ms, self.disk_ms);
            if row.agreement != Agreement::Tie {
                return Some((*case, run.clone()));
            }
            let load = |case: &Case| (case.setting, case.share_run());
            let mut others = self.runs.iter().filter(|(other, _)| load(other) == load(case));
            others.find(|(_, other)| other.winner == row.predicted_winner).map(|(_, other)| (*case, other.clone()))
        };
        beside_the_paper(&self.runs.iter().filter_map(same_leader).collect::<Vec<_>>())
    }

    pub(super) fn summary(&self) -> RealSummary {
        let rows = self.rows(&[]);
        let count = |agreement: Agreement| rows.iter().filter(|row| row.row.agreement == agreement).count();
        let others = rows.iter().map(|row| &row.row).filter(|row| row.agreement == Agreement::Other);
        let others =
            others.map(|row| format!("{}: p{} won, not p{}", named(&row.case), row.winner, row.predicted_winner));
        let before = rows.iter().filter(|row| self.judges_before(row));
        let before =
            before.map(|row| (row.before_deviation_percent, format!("{}, before the crash", named(&row.row.case))));
        let after = rows.iter().map(|row| (row.row.deviation_percent, named(&row.row.case)));
        let beside = self.beside();
        let stated = beside.iter().filter(|beside| !beside.stated.about).map(|beside| {
            let stated = &beside.stated;
            let who = stated.oracle.unwrap_or("any");
            let what = format!("{} p={} {who}, {}", stated.setting, stated.share.text(), stated.what.text());
            (beside.deviation_percent, what)
        });
        RealSummary {
            cells: rows.len(),
            agree: count(Agreement::Same) + count(Agreement::Tie),
            ties: count(Agreement::Tie),
            others: others.collect(),
            from_formula: farthest(before.chain(after)),
            from_paper: farthest(stated),
            constant_ms: self.constant_ms,
            disk_ms: self.disk_ms,
            failed: self.failed.clone(),
        }
    }
}

/// Whether a deviation in percent is small enough on real servers.
pub(super) fn is_near(percent: f64) -> bool {
    percent.abs() <= REAL_LIMIT_PERCENT
}

/// Deployment, load and oracle.
pub(super) fn named(case: &Case) -> String {
    format!("{} p={} {}", case.setting, case.share_run().text(), case.oracle)
}

/// real.csv: paper.csv with this machine's constant, and more columns.
pub(super) fn real_csv(real: &Real, rows: &[RealRow]) -> String {
    let mut csv = format!("{PAPER_HEAD},{REAL_MORE}\n");
    for RealRow { row, before_ms, before_predicted_ms, before_deviation_percent, simulated, requests } in rows {
        let (winner, simulated_ms) = match simulated {
            Some((winner, ms)) => (winner.to_string(), format!("{ms:.3}")),
            None => (String::new(), String::new()),
        };
        let _ = writeln!(
            csv,
            "{},real,{before_ms:.3},{before_predicted_ms:.3},{before_deviation_percent:.2},{winner},{simulated_ms},{:.3},{},{requests}",
            paper_line(row),
            real.constant_ms,
            10 * real.scale.load_percent,
        );
    }
    csv
}

/// How much longer writes took in one place than the formula says: before and after the crash alike.
fn over_the_formula(outcome: &Outcome) -> f64 {
    let topology = one_place();
    let before = outcome.mean_before_ms() - Formula::whole(&topology).latency_ms(5);
    let after = outcome.mean_after_ms() - Formula::after_crash(&topology).latency_ms(outcome.winner);
    f64::midpoint(before, after)
}

fn one_place() -> Topology {
    Topology::parse(ONE_PLACE).expect("a file of ours")
}

/// Every server beside the others: what a write takes here is disk and processing.
const ONE_PLACE: &str = "name = \"one\"
jitter_percent = 2
[[server]]
id = 1
site = \"D1\"
[[server]]
id = 2
site = \"D1\"
[[server]]
id = 3
site = \"D1\"
[[server]]
id = 4
site = \"D1\"
[[server]]
id = 5
site = \"D1\"
[[load]]
site = \"D1\"
rate = 1000
";

/// Those that can be run. Figure 7c needs sites with a two-hundredth of the load, which at this rate is no request at all
/// within a run; 8a and 8b need backlogs of 250 MB.
const FIGURES: [Figure; 4] = [Figure::F4b, Figure::F6, Figure::F7a, Figure::F7b];

/// What is run unless figures are named.
const FIGURES_DEFAULT: [Figure; 2] = [Figure::F6, Figure::F7b];

/// Deployments 1 and 3 of the paper's table.
const TABLE: [(&str, Share); 6] = [
    ("d1", Share::Even),
    ("d1", Share::Permille(0)),
    ("d1", Share::Permille(1000)),
    ("d3", Share::Even),
    ("d3", Share::Permille(750)),
    ("d3", Share::Permille(1000)),
];

/// What real.csv has beyond paper.csv.
pub const REAL_MORE: &str = "source,before_ms,before_predicted_ms,before_deviation_percent,simulated_winner,simulated_ms,constant_ms,rate,requests";

/// How far a latency on real servers may lie from the formula or from the paper's figure.
pub(super) const REAL_LIMIT_PERCENT: f64 = 15.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{MS, SECOND, Sample};

    fn scale() -> Scale {
        Scale::real(1)
    }

    /// A run in which every write took so long.
    fn done(run: &RealRun, winner: u64, took_ms: f64) -> Outcome {
        let took = (took_ms * MS as f64) as u64;
        let sample = |n: u64| Sample { asked: n * SECOND / 10, home: 1, took };
        run.experiment.outcome(winner, (0..80).map(sample).collect(), 0, 3 * SECOND)
    }

    /// The one case, under this leader at this latency before and after, on a machine with a constant of 2 ms.
    fn one(case: &str, winner: u64, before_ms: f64, after_ms: f64) -> Real {
        let plan = RealPlan::one(case, scale()).unwrap();
        let outcome = |run: &RealRun| match run.is_near {
            true => done(run, 4, 2.0 + 0.1 + 0.08),
            false => {
                let mut all = done(run, winner, before_ms).all;
                all.iter_mut()
                    .filter(|sample| sample.asked > 3 * SECOND)
                    .for_each(|s| s.took = (after_ms * 1e6) as u64);
                run.experiment.outcome(winner, all, 0, 3 * SECOND)
            }
        };
        let runs = plan.runs().into_iter().map(|run| (run.clone(), Ok(with_disk(outcome(&run))))).collect();
        plan.gathered(runs).unwrap()
    }

    fn with_disk(outcome: Outcome) -> RealOutcome {
        RealOutcome { outcome, disk_ms: vec![0.2, 0.3, 0.4] }
    }

    #[test]
    fn by_default_deployments_1_and_3_are_run_as_in_the_papers_table() {
        let plan = RealPlan::new(&[], scale()).unwrap();
        assert_eq!(plan.cases.len(), 2 * (ORACLES.len() + 4) + 4 * ORACLES.len());
        assert!(plan.cases.iter().all(|case| ["d1", "d3"].contains(&case.setting)));
        let runs = plan.runs();
        let near: Vec<usize> = (0..runs.len()).filter(|at| runs[*at].is_near).collect();
        assert_eq!(near, [0, runs.len() / 2, runs.len() - 1]);
    }

    #[test]
    fn figures_that_real_servers_cannot_show_are_refused() {
        for figure in [Figure::F7c, Figure::F8a, Figure::F8b, Figure::Open, Figure::Regret, Figure::Wander] {
            assert!(RealPlan::new(&[figure], scale()).unwrap_err().contains(figure.name()));
        }
    }

    #[test]
    fn a_case_has_the_name_that_it_is_asked_for_by() {
        let plan = RealPlan::one("d3 p=0.75 latency", scale()).unwrap();
        assert_eq!(plan.single().map(|case| named(&case)).as_deref(), Some("d3 p=0.75 latency"));
        assert_eq!(plan.runs().len(), 2);
        assert!(RealPlan::one("d3 p=0.76 latency", scale()).is_err());
    }

    #[test]
    fn the_constant_is_what_a_write_takes_in_one_place_over_the_formula() {
        let real = one("d1 p=1 latency", 1, 88.9, 55.3);
        assert!((real.constant_ms - 2.0).abs() < 0.05, "{}", real.constant_ms);
        let summary = real.summary();
        assert!(summary.holds(), "{summary:?}");
    }

    #[test]
    fn a_latency_too_far_off_or_another_winner_is_told() {
        let slow = one("d1 p=1 latency", 1, 88.9, 66.0).summary();
        assert!(!slow.holds() && slow.agree == 1, "{slow:?}");
        let slow_before = one("d1 p=1 latency", 1, 110.0, 55.3).summary();
        assert!(!slow_before.holds(), "{slow_before:?}");
        let other = one("d1 p=1 latency", 4, 88.9, 88.9).summary();
        assert!(!other.holds() && other.agree == 0 && other.others.len() == 1, "{other:?}");
    }

    #[test]
    fn a_tie_that_went_to_another_is_not_held_against_the_papers_leader() {
        let real = one("d3 p=1 consensus", 3, 65.1, 55.3);
        assert_eq!((real.summary().ties, real.summary().from_paper), (1, None));
        assert!(real.summary().holds(), "{:?}", real.summary());
    }

    #[test]
    fn who_should_win_is_predicted_with_the_disk_and_not_with_all_of_the_constant() {
        // With 0.3 ms p4 is in the class of p3 (30 to 40 ms) and has the higher id; with 2 ms it would not be.
        let summary = one("d1 p=even combined", 4, 40.9, 40.9).summary();
        assert_eq!((summary.agree, summary.ties), (1, 0), "{summary:?}");
    }

    #[test]
    fn where_nothing_is_far_the_constant_is_not_held_against_itself() {
        let summary = one("two p=1 latency", 4, 1.25, 22.8).summary();
        assert!(summary.holds(), "{summary:?}");
        let summary = one("two p=0.5 latency", 4, 9.0, 33.1).summary();
        assert!(!summary.holds(), "{summary:?}");
    }

    #[test]
    fn a_run_without_answers_is_one_that_failed() {
        let plan = RealPlan::one("d1 p=1 latency", scale()).unwrap();
        let silent = |run: &RealRun| run.experiment.outcome(1, Vec::new(), 0, 3 * SECOND);
        let runs = plan.runs().into_iter();
        let runs =
            runs.map(|run| (run.clone(), Ok(with_disk(if run.is_near { done(&run, 4, 2.0) } else { silent(&run) }))));
        let summary = plan.clone().gathered(runs.collect()).unwrap().summary();
        assert!(!summary.holds() && summary.failed.len() == 1, "{summary:?}");
    }

    #[test]
    fn without_a_constant_there_is_nothing_to_compare() {
        let plan = RealPlan::one("d1 p=1 latency", scale()).unwrap();
        let runs = plan.runs().into_iter().map(|run| (run, Err("no disk".to_owned()))).collect();
        assert!(plan.gathered(runs).unwrap_err().contains("no disk"));
    }
}
