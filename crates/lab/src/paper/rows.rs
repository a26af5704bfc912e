//! The tables of a study: what was measured, beside what the formulas predict and what the paper states.
//!
//! In: cases and their runs. Out: rows, as the CSV files have them (INTERFACES: header, dot decimals).
//! Holds: rows stand in the order of the cases; a deviation is against the formula plus the one constant for disk and
//! processing, under the leader that was in fact elected.

use std::fmt::Write as _;

use pole_topology::Topology;

use super::experiment::DISK;
use super::figures::{Case, Figure, STATED, Stated, What};
use super::formula::Formula;
use super::job::{Crash, Recovered};
use super::question::{Answer, Question};
use super::regret::Regret;

/// The constant for disk and processing, in milliseconds.
pub const DISK_MS: f64 = DISK as f64 / 1e6;

/// A line of paper.csv.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was run.
    pub case: Case,
    /// Who won.
    pub winner: u64,
    /// The mean latency after the crash.
    pub mean_ms: f64,
    /// That of the site that waits longest.
    pub worst_ms: f64,
    /// Who should win by the formula.
    pub predicted_winner: u64,
    /// The latency under that one by the formula, without disk and processing: the mean, or the worst in figure 7c.
    pub predicted_ms: f64,
    /// What the paper measured, where it says so.
    pub paper_ms: Option<f64>,
    /// Ours over the formula for the elected leader plus the constant, less one, in percent.
    pub deviation_percent: f64,
    /// How the winner agrees.
    pub agreement: Agreement,
}

/// How a winner agrees with the formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// It is the predicted one.
    Same,
    /// By the formula it ties with the predicted one, and fluctuation decided.
    Tie,
    /// It is another.
    Other,
}

impl Row {
    pub(super) fn new(case: Case, run: &Crash) -> Self {
        Self::with_constant(case, run, DISK_MS, DISK_MS)
    }

    /// With the constant for disk and processing of the machine that it was run on, and with the part of it that servers
    /// measure and have in their scores.
    pub(super) fn with_constant(case: Case, run: &Crash, constant_ms: f64, disk_ms: f64) -> Self {
        let topology = case.topology();
        let formula = Formula::after_crash(&topology);
        let predicted = formula.winner(&case.spec(), disk_ms);
        let is_worst = case.figure == Figure::F7c;
        let of = |leader: u64| if is_worst { formula.worst_ms(leader) } else { formula.latency_ms(leader) };
        let agreement = match &predicted {
            Some(predicted) if predicted.id == run.winner => Agreement::Same,
            Some(predicted) if predicted.ties.contains(&run.winner) => Agreement::Tie,
            Some(_) | None => Agreement::Other,
        };
        let predicted_winner = predicted.map_or(0, |predicted| predicted.id);
        let mean_ms = ms(run.after_ns);
        let worst_ms = run.sites.iter().filter(|site| site.after).map(|site| ms(site.mean_ns)).fold(0.0, f64::max);
        let shown = if is_worst { worst_ms } else { mean_ms };
        let stated = STATED.iter().find(|stated| stated.what == What::Mean && stated.is_of(&case));
        Self {
            case,
            winner: run.winner,
            mean_ms,
            worst_ms,
            predicted_winner,
            predicted_ms: of(predicted_winner),
            paper_ms: stated.filter(|_| !is_worst).map(|stated| stated.ms),
            deviation_percent: deviation(shown, of(run.winner) + constant_ms),
            agreement,
        }
    }

    /// What the row is judged by: the worst in figure 7c, else the mean.
    #[must_use]
    pub fn shown_ms(&self) -> f64 {
        if self.case.figure == Figure::F7c { self.worst_ms } else { self.mean_ms }
    }
}

/// A latency that the paper states, beside ours.
#[derive(Clone, Debug)]
pub struct Beside {
    /// What the paper says.
    pub stated: Stated,
    /// Ours, the mean over the seeds.
    pub ours_ms: f64,
    /// The formula, without disk and processing.
    pub formula_ms: f64,
    /// Ours over the paper's, less one, in percent.
    pub deviation_percent: f64,
}

/// Every stated latency of which there are runs.
pub(super) fn beside_the_paper(runs: &[(Case, Crash)]) -> Vec<Beside> {
    let mut found = Vec::new();
    for stated in STATED {
        // One figure's runs are enough: the same run may serve several.
        let mut of: Vec<&(Case, Crash)> = runs.iter().filter(|(case, _)| stated.is_of(case)).collect();
        let Some(figure) = of.first().map(|(case, _)| case.figure) else { continue };
        of.retain(|(case, _)| case.figure == figure);
        let ours_ms = mean(of.iter().filter_map(|(_, run)| measured(stated.what, run)));
        let formula_ms = mean(of.iter().map(|(case, run)| predicted(stated.what, case, run.winner)));
        found.push(Beside { stated, ours_ms, formula_ms, deviation_percent: deviation(ours_ms, stated.ms) });
    }
    found
}

fn measured(what: What, run: &Crash) -> Option<f64> {
    let site = |name: &str| run.sites.iter().find(|site| site.after && site.site == name).map(|site| ms(site.mean_ns));
    match what {
        What::Mean => Some(ms(run.after_ns)),
        What::Before => Some(ms(run.before_ns)),
        What::Site(name) => site(name),
        // In deployment 1, of which alone it is stated, p4 stands in D1.
        What::Consensus => site("D1"),
    }
}

fn predicted(what: What, case: &Case, leader: u64) -> f64 {
    let topology = case.topology();
    let formula = Formula::after_crash(&topology);
    match what {
        What::Mean => formula.latency_ms(leader),
        What::Before => Formula::whole(&topology).latency_ms(5),
        What::Site(site) => formula.site_ms(leader, site),
        What::Consensus => formula.consensus_ms(leader),
    }
}

/// A line of recovery.csv.
#[derive(Clone, Debug)]
pub struct RecoveryRow {
    /// 8a or 8b.
    pub figure: Figure,
    /// The round trip between D1 and D2.
    pub rtt_ms: f64,
    /// How far the outdated were behind.
    pub backlog_mb: u64,
    /// The oracle, or the leader that was made to win.
    pub oracle: &'static str,
    /// The seed.
    pub seed: u64,
    /// Who led.
    pub leader: u64,
    /// From its choice to its first commit.
    pub recovery_ms: f64,
    /// Estimated by the oracle `recovery`.
    pub predicted_ms: f64,
    /// How long it takes under that leader: the median over all runs of this setting in which it led.
    pub leader_ms: f64,
    /// The leader with the least such median.
    pub best_leader: u64,
    /// That median.
    pub best_ms: f64,
}

impl RecoveryRow {
    /// How much slower than the best leader this one is, in percent.
    #[must_use]
    pub fn regret_percent(&self) -> f64 {
        deviation(self.leader_ms, self.best_ms)
    }
}

/// The estimate for a run: what each lacked is what it in fact lacked at the crash.
pub(super) fn recovery_estimate(topology: Topology, run: &Recovered) -> f64 {
    Question::exact(topology, &run.behind).predict(run.winner).map_or(f64::NAN, ms)
}

/// Ours against another, in percent of the other.
pub(super) fn deviation(ours: f64, other: f64) -> f64 {
    100.0 * (ours / other - 1.0)
}

/// The mean; nothing of nothing.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count == 0.0 { f64::NAN } else { sum / count }
}

/// The median, the lower one of an even number; nothing of nothing.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

pub(super) fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// paper.csv.
#[must_use]
pub fn paper_csv(rows: &[Row]) -> String {
    let lines = rows.iter().map(|row| paper_line(row) + "\n");
    std::iter::once(format!("{PAPER_HEAD}\n")).chain(lines).collect()
}

/// A line of it.
pub(super) fn paper_line(row: &Row) -> String {
    let Row { case, winner, mean_ms, worst_ms, predicted_winner, predicted_ms, paper_ms, deviation_percent, .. } = row;
    let (figure, setting, p) = (case.figure.name(), case.setting, case.share.text());
    let paper_ms = paper_ms.map(|ms| ms.to_string()).unwrap_or_default();
    format!(
        "{figure},{setting},{p},{},{},{winner},{mean_ms:.3},{worst_ms:.3},{predicted_winner},{predicted_ms:.3},{paper_ms},{deviation_percent:.2}",
        case.oracle, case.seed
    )
}

/// sites.csv.
pub(super) fn sites_csv(runs: &[(Case, Crash)]) -> String {
    let mut csv = format!("{SITES_HEAD}\n");
    for (case, run) in runs {
        for site in &run.sites {
            let (leader, phase) = if site.after { (run.winner, "after") } else { (FIRST_LEADER, "before") };
            let _ = writeln!(
                csv,
                "{},{},{},{},{},{leader},{},{phase},{:.3},{:.3},{}",
                case.figure.name(),
                case.setting,
                case.share.text(),
                case.oracle,
                case.seed,
                site.site,
                ms(site.mean_ns),
                ms(site.p99_ns),
                site.requests
            );
        }
    }
    csv
}

/// recovery.csv.
#[must_use]
pub fn recovery_csv(rows: &[RecoveryRow], questions: &[(Question, Answer)]) -> String {
    let mut csv = format!("{RECOVERY_HEAD}\n");
    for row in rows {
        let _ = writeln!(
            csv,
            "{},{},{},{},{},{},{:.3},{:.3},{},{:.3}",
            row.figure.name(),
            row.rtt_ms,
            row.backlog_mb,
            row.oracle,
            row.seed,
            row.leader,
            row.recovery_ms,
            row.predicted_ms,
            row.best_leader,
            row.best_ms
        );
    }
    for (question, answer) in questions {
        let (chosen, best) = (answer.chosen, answer.best());
        let _ = writeln!(
            csv,
            "{},{:.3},{:.3},recovery,{},{chosen},{:.3},{:.3},{best},{:.3}",
            Figure::Open.name(),
            question.longest_ms(),
            question.backlog() as f64 / f64::from(1 << 20),
            question.seed,
            ms(answer.times[&chosen].measured),
            answer.times[&chosen].predicted.map_or(f64::NAN, ms),
            ms(answer.times[&best].measured)
        );
    }
    csv
}

/// regret.csv.
#[must_use]
pub fn regret_csv(rows: &[Regret]) -> String {
    let mut csv = format!("{REGRET_HEAD}\n");
    for row in rows {
        let Regret { topology_seed, oracle, leader, mean_ms, best_leader, best_ms } = row;
        let _ = writeln!(
            csv,
            "{topology_seed},{oracle},{leader},{mean_ms:.3},{best_leader},{best_ms:.3},{:.2}",
            row.percent()
        );
    }
    csv
}

/// The head of paper.csv.
pub const PAPER_HEAD: &str =
    "figure,setting,p,oracle,seed,winner,mean_ms,worst_ms,predicted_winner,predicted_ms,paper_ms,deviation_percent";
/// The head of sites.csv.
pub const SITES_HEAD: &str = "figure,setting,p,oracle,seed,leader,site,phase,mean_ms,p99_ms,requests";
/// The head of recovery.csv.
pub const RECOVERY_HEAD: &str =
    "figure,rtt_ms,backlog_mb,oracle,seed,leader,recovery_ms,predicted_ms,best_leader,best_ms";
/// The head of regret.csv.
pub const REGRET_HEAD: &str = "topology_seed,oracle,leader,mean_ms,best_leader,best_ms,regret_percent";

/// p5.
const FIRST_LEADER: u64 = 5;
