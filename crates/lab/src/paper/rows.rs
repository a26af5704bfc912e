//! The tables of a study: measurements beside the predictions of the formulas and the numbers of the paper.
//!
//! Rows are in the order of the cases, as the CSV files have them (INTERFACES: header, dot decimals). A deviation is
//! relative to the formula plus the one constant for disk and processing, under the leader that was actually elected.

use std::fmt::Write as _;

use pole_topology::Topology;

use super::experiment::DISK;
use super::figures::{Case, Figure, LatencyKind, STATED, StatedLatency};
use super::formula::Formula;
use super::job::{Crash, Recovered};
use super::question::{Answer, Question};
use super::regret::Regret;

/// The constant for disk and processing, in milliseconds.
pub const DISK_MS: f64 = DISK as f64 / 1e6;

/// A line of paper.csv.
#[derive(Clone, Debug)]
pub struct Row {
    /// The case that was run.
    pub case: Case,
    /// The elected leader.
    pub winner: u64,
    /// The mean latency after the crash, in milliseconds.
    pub mean_ms: f64,
    /// The mean latency of the slowest site after the crash, in milliseconds.
    pub worst_ms: f64,
    /// The winner by the formula.
    pub predicted_winner: u64,
    /// The latency under the predicted winner by the formula, without disk and processing: the mean, or the worst in
    /// figure 7c.
    pub predicted_ms: f64,
    /// The latency that the paper states, if it does.
    pub paper_ms: Option<f64>,
    /// The deviation from the formula for the elected leader plus the constant, in percent.
    pub deviation_percent: f64,
    /// Whether the winner agrees with the formula.
    pub agreement: Agreement,
    /// The same case with direct acknowledgements, if it was run.
    pub direct: Option<Direct>,
}

/// A case that was run with direct acknowledgements.
#[derive(Clone, Debug)]
pub struct Direct {
    /// The elected leader.
    pub winner: u64,
    /// The latency after the crash, in milliseconds: the mean, or that of the slowest site in figure 7c.
    pub shown_ms: f64,
    /// The winner by the formula with direct acknowledgements.
    pub predicted_winner: u64,
    /// The latency under the predicted winner by that formula, without disk and processing.
    pub predicted_ms: f64,
    /// The deviation from the formula for the elected leader plus the constant, in percent.
    pub deviation_percent: f64,
    /// Whether the winner agrees with the formula.
    pub agreement: Agreement,
}

/// Whether a winner agrees with the formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// It is the predicted winner.
    Same,
    /// By the formula it ties with the predicted winner, and fluctuation decided.
    Tie,
    /// It is another server.
    Other,
}

impl Row {
    pub(super) fn new(case: Case, run: &Crash, direct: Option<&Crash>) -> Self {
        let row = Self::with_constant(case, run, false, DISK_MS, DISK_MS);
        let direct = direct.map(|run| {
            let row = Self::with_constant(case, run, true, DISK_MS, DISK_MS);
            Direct {
                winner: row.winner,
                shown_ms: row.shown_ms(),
                predicted_winner: row.predicted_winner,
                predicted_ms: row.predicted_ms,
                deviation_percent: row.deviation_percent,
                agreement: row.agreement,
            }
        });
        Self { direct, ..row }
    }

    /// A row with the constant for disk and processing of a machine, and the part of it that servers measure and
    /// include in their scores. `direct`: with direct acknowledgements.
    pub(super) fn with_constant(case: Case, run: &Crash, direct: bool, constant_ms: f64, disk_ms: f64) -> Self {
        let topology = case.topology();
        let formula = Formula::after_crash(&topology).direct(direct);
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
        let stated = STATED.iter().find(|stated| stated.kind == LatencyKind::Mean && stated.applies_to(&case));
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
            direct: None,
        }
    }

    /// The latency that the row is checked by: the worst in figure 7c, otherwise the mean.
    #[must_use]
    pub fn shown_ms(&self) -> f64 {
        if self.case.figure == Figure::F7c { self.worst_ms } else { self.mean_ms }
    }
}

/// A latency that the paper states, with ours.
#[derive(Clone, Debug)]
pub struct PaperComparison {
    /// The latency of the paper.
    pub stated: StatedLatency,
    /// Our latency, the mean over the seeds, in milliseconds.
    pub ours_ms: f64,
    /// The formula without disk and processing, in milliseconds.
    pub formula_ms: f64,
    /// The deviation of ours from the paper's, in percent.
    pub deviation_percent: f64,
}

/// All stated latencies for which there are runs.
pub(super) fn compare_with_paper(runs: &[(Case, Crash)]) -> Vec<PaperComparison> {
    let mut found = Vec::new();
    for stated in STATED {
        // The runs of one figure are enough, since the same run may serve several.
        let mut of: Vec<&(Case, Crash)> = runs.iter().filter(|(case, _)| stated.applies_to(case)).collect();
        let Some(figure) = of.first().map(|(case, _)| case.figure) else { continue };
        of.retain(|(case, _)| case.figure == figure);
        let ours_ms = mean(of.iter().filter_map(|(_, run)| measured(stated.kind, run)));
        let formula_ms = mean(of.iter().map(|(case, run)| predicted(stated.kind, case, run.winner)));
        found.push(PaperComparison { stated, ours_ms, formula_ms, deviation_percent: deviation(ours_ms, stated.ms) });
    }
    found
}

fn measured(kind: LatencyKind, run: &Crash) -> Option<f64> {
    let site = |name: &str| run.sites.iter().find(|site| site.after && site.site == name).map(|site| ms(site.mean_ns));
    match kind {
        LatencyKind::Mean => Some(ms(run.after_ns)),
        LatencyKind::Before => Some(ms(run.before_ns)),
        LatencyKind::Site(name) => site(name),
        // It is stated only for deployment 1, where p4 is in D1.
        LatencyKind::Consensus => site("D1"),
    }
}

fn predicted(kind: LatencyKind, case: &Case, leader: u64) -> f64 {
    let topology = case.topology();
    let formula = Formula::after_crash(&topology);
    match kind {
        LatencyKind::Mean => formula.latency_ms(leader),
        LatencyKind::Before => Formula::whole(&topology).latency_ms(5),
        LatencyKind::Site(site) => formula.site_ms(leader, site),
        LatencyKind::Consensus => formula.consensus_ms(leader),
    }
}

/// A line of recovery.csv.
#[derive(Clone, Debug)]
pub struct RecoveryRow {
    /// 8a or 8b.
    pub figure: Figure,
    /// The round trip between D1 and D2, in milliseconds.
    pub rtt_ms: f64,
    /// How far the outdated servers were behind, in megabytes.
    pub backlog_mb: u64,
    /// The oracle, or the leader that was forced to win.
    pub oracle: &'static str,
    /// The seed.
    pub seed: u64,
    /// The leader.
    pub leader: u64,
    /// From its election to its first commit, in milliseconds.
    pub recovery_ms: f64,
    /// The estimate of the oracle `recovery`, in milliseconds.
    pub predicted_ms: f64,
    /// The median recovery time over all runs of this setting with the same leader, in milliseconds.
    pub leader_ms: f64,
    /// The leader with the smallest such median.
    pub best_leader: u64,
    /// The smallest median, in milliseconds.
    pub best_ms: f64,
}

impl RecoveryRow {
    /// How much slower this leader is than the best, in percent.
    #[must_use]
    pub fn regret_percent(&self) -> f64 {
        deviation(self.leader_ms, self.best_ms)
    }
}

/// The estimate for a run, with the backlog that each server actually had at the crash.
pub(super) fn recovery_estimate(topology: Topology, run: &Recovered) -> f64 {
    Question::exact(topology, &run.behind).predict(run.winner).map_or(f64::NAN, ms)
}

/// The deviation of ours from another value, in percent of the other.
pub(super) fn deviation(ours: f64, other: f64) -> f64 {
    100.0 * (ours / other - 1.0)
}

/// The mean; NaN if there are no values.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count == 0.0 { f64::NAN } else { sum / count }
}

/// The median, the lower one of an even number; NaN if there are no values.
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

/// One line of paper.csv, without the newline.
pub(super) fn paper_line(row: &Row) -> String {
    let Row { case, winner, mean_ms, worst_ms, predicted_winner, predicted_ms, paper_ms, deviation_percent, .. } = row;
    let (figure, setting, p) = (case.figure.name(), case.setting, case.share.text());
    let paper_ms = paper_ms.map(|ms| ms.to_string()).unwrap_or_default();
    let direct = row.direct.as_ref().map_or_else(
        || ",,".to_owned(),
        |direct| format!("{},{:.3},{:.3}", direct.winner, direct.shown_ms, direct.predicted_ms),
    );
    format!(
        "{figure},{setting},{p},{},{},{winner},{mean_ms:.3},{worst_ms:.3},{predicted_winner},{predicted_ms:.3},{paper_ms},{deviation_percent:.2},{direct}",
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
pub const PAPER_HEAD: &str = "figure,setting,p,oracle,seed,winner,mean_ms,worst_ms,predicted_winner,predicted_ms,paper_ms,deviation_percent,direct_winner,direct_ms,direct_predicted_ms";
/// The head of sites.csv.
pub const SITES_HEAD: &str = "figure,setting,p,oracle,seed,leader,site,phase,mean_ms,p99_ms,requests";
/// The head of recovery.csv.
pub const RECOVERY_HEAD: &str =
    "figure,rtt_ms,backlog_mb,oracle,seed,leader,recovery_ms,predicted_ms,best_leader,best_ms";
/// The head of regret.csv.
pub const REGRET_HEAD: &str = "topology_seed,oracle,leader,mean_ms,best_leader,best_ms,regret_percent";

/// p5.
const FIRST_LEADER: u64 = 5;
