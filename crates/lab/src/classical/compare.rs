//! The whole comparison: counts, network conditions, failures and quality, as a table for people and as CSV for
//! programs.
//!
//! The result is the same for the same range of N and the same seed.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use pole_topology::Topology;

use super::counts::formula;
use super::page;
use super::{
    Condition, Count, Finding, Kind, NetworkConditions, Quality, Statistic, count, findings, measure_conditions,
    quality,
};
use pole_sim::MS;

/// All measurements.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The numbers of processes that were counted.
    pub n: RangeInclusive<usize>,
    /// The seed.
    pub seed: u64,
    /// Messages and delays against the formulas.
    pub counts: Vec<Count>,
    /// Times to a leader under each network condition.
    pub conditions: Vec<NetworkConditions>,
    /// Predicted failures.
    pub findings: Vec<Finding>,
    /// The quality of the elected leaders.
    pub qualities: Vec<Quality>,
}

/// Called with the present activity, the number of finished parts, and the number of all parts.
pub type Progress<'a> = &'a mut dyn FnMut(&str, usize, usize);

impl Comparison {
    /// Runs all measurements.
    #[must_use]
    pub fn run(n: RangeInclusive<usize>, seed: u64, progress: Progress<'_>) -> Self {
        let deployments: Vec<Topology> = DEPLOYMENTS.iter().filter_map(|name| Topology::preset(name)).collect();
        let all = 2 * Kind::ALL.len() + 1;
        let mut comparison =
            Self { n, seed, counts: Vec::new(), conditions: Vec::new(), findings: Vec::new(), qualities: Vec::new() };
        for (done, kind) in Kind::ALL.into_iter().enumerate() {
            progress(&format!("counting {kind}"), done, all);
            let cases = comparison.n.clone().flat_map(|n| Statistic::ALL.map(|statistic| (n, statistic)));
            comparison.counts.extend(cases.map(|(n, statistic)| count(kind, n, statistic, seed)));
        }
        for (done, kind) in Kind::ALL.into_iter().enumerate() {
            progress(&format!("conditions for {kind}"), Kind::ALL.len() + done, all);
            for topology in &deployments {
                let results = Condition::ALL.map(|condition| measure_conditions(kind, topology, condition, seed, RUNS));
                comparison.conditions.extend(results);
                if TOPOLOGIES.contains(&topology.name()) {
                    let seeds = (0..RUNS).map(|run| seed.wrapping_add(run));
                    comparison.qualities.push(quality(kind, topology, seeds));
                }
            }
        }
        progress("failures", all - 1, all);
        comparison.findings = findings(seed);
        progress("done", all, all);
        comparison
    }

    /// Descriptions of counts that differ from their formula and of predictions that did not hold.
    #[must_use]
    pub fn mismatches(&self) -> Vec<String> {
        let counts = self.counts.iter().filter(|count| !count.agrees()).map(|count| {
            let Count { kind, n, statistic, messages, delays, expected, unsettled, .. } = count;
            let expected = expected.map_or("one leader".to_owned(), |(m, d)| format!("{m} messages, {d} delays"));
            format!("{kind} N={n} {statistic}: {messages} messages, {delays} delays, {unsettled} without a leader; expected {expected}")
        });
        let findings = self.findings.iter().filter(|finding| !finding.holds).map(|finding| {
            let Finding { case, kind, predicted, seen, .. } = finding;
            format!("{kind}, {case}: {seen}; predicted: {predicted}")
        });
        counts.chain(findings).collect()
    }

    /// The table, within 100 columns.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = String::new();
        self.write_counts(&mut out);
        self.write_conditions(&mut out);
        self.write_failures(&mut out);
        self.write_quality(&mut out);
        out
    }

    /// The rows of `compare.csv` under [`HEADER`].
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = format!("{HEADER}\n");
        for count in &self.counts {
            let Count { kind, n, statistic, seed, messages, delays, expected, time_ms, violations, .. } = count;
            let expected = expected.map_or(",".to_owned(), |(m, d)| format!("{},{}", short(m.mean()), short(d.mean())));
            let (messages, delays) = (short(messages.mean()), short(delays.mean()));
            let _ = writeln!(
                out,
                "{kind},{n},{statistic},{seed},{messages},{delays},{expected},{},{violations}",
                short(*time_ms)
            );
        }
        // The CSV has no column for the deployment, so only the first one is written.
        for result in self.conditions.iter().filter(|result| result.topology == TOPOLOGIES[0]) {
            let NetworkConditions { kind, condition, seed, messages, delays, time_ms, violations, ended, .. } = result;
            let figures = match ended {
                0 => ",,,,".to_owned(),
                _ => format!("{},{},,,{}", short(*messages), short(*delays), short(*time_ms)),
            };
            let _ = writeln!(out, "{kind},5,{condition},{seed},{figures},{violations}");
        }
        for finding in self.findings.iter().filter(|finding| FAULTS.contains(&finding.case)) {
            let Finding { case, kind, outcome, .. } = finding;
            let time = outcome.agreed_at.map_or(String::new(), |at| short(at as f64 / MS as f64));
            let (messages, delays, violations) = (outcome.messages(), outcome.delays, outcome.violations.len());
            let _ = writeln!(out, "{kind},5,{case},{},{messages},{delays},,,{time},{violations}", self.seed);
        }
        out
    }

    /// The HTML page.
    #[must_use]
    pub fn page(&self) -> String {
        page::page(self)
    }

    /// The figures, each with its file name.
    #[must_use]
    pub fn figures(&self) -> Vec<(&'static str, String)> {
        page::figures(self).into_iter().map(|figure| (figure.file, figure.svg)).collect()
    }

    pub(super) fn of(&self, kind: Kind, n: usize, statistic: Statistic) -> Option<&Count> {
        self.counts.iter().find(|count| count.kind == kind && count.n == n && count.statistic == statistic)
    }

    fn write_counts(&self, out: &mut String) {
        let (low, high) = (*self.n.start(), *self.n.end());
        let checked = self.counts.iter().filter(|count| count.expected.is_some()).count();
        let wrong = self.counts.iter().filter(|count| !count.agrees()).count();
        let _ = writeln!(out, "Messages and message delays when nothing fails but the old leader, N = {high}\n");
        let _ = writeln!(
            out,
            "  {:<14}{:>7}{:>7}{:>8}{:>7}{:>10}{:>8}  formula: best .. worst; delays",
            "", "best", "delays", "worst", "delays", "mean", "delays"
        );
        for kind in Kind::ALL {
            let _ = write!(out, "  {kind:<14}");
            for (statistic, widths) in
                [(Statistic::Best, (7, 7)), (Statistic::Worst, (8, 7)), (Statistic::Mean, (10, 8))]
            {
                if let Some(Count { messages, delays, .. }) = self.of(kind, high, statistic) {
                    let _ = write!(out, "{messages:>0$}{delays:>1$}", widths.0, widths.1);
                }
            }
            let _ = writeln!(out, "  {}", formula(kind));
        }
        let _ = writeln!(
            out,
            "\n  N = {low} to {high}: {checked} counts have a formula, {wrong} differ. M = N-1, Q = N/2+1.\n  \
             Ring: N members that live. Others: N with the dead leader. Bully's worst: Election messages.\n"
        );
    }

    fn write_conditions(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "Milliseconds from the crash of p5 to one leader of all, mean of {RUNS} runs on deployment 1; the failure\n\
             detector needs 400 to 440. In brackets: runs of {RUNS} that ended, if not all. !: two leaders at once.\n"
        );
        let _ = write!(out, "  {:<14}", "");
        for condition in Condition::ALL {
            let _ = write!(out, "{condition:>16}");
        }
        out.push('\n');
        for kind in Kind::ALL {
            let _ = write!(out, "  {kind:<14}");
            for condition in Condition::ALL {
                let cell = self.condition_result(kind, condition).map_or(String::new(), cell);
                let _ = write!(out, "{cell:>16}");
            }
            out.push('\n');
        }
        out.push('\n');
    }

    pub(super) fn condition_result(&self, kind: Kind, condition: Condition) -> Option<&NetworkConditions> {
        self.conditions
            .iter()
            .find(|result| result.kind == kind && result.condition == condition && result.topology == TOPOLOGIES[0])
    }

    /// Groups adjacent findings that are the same for several algorithms.
    pub(super) fn grouped(&self) -> impl Iterator<Item = &[Finding]> {
        self.findings.chunk_by(|a, b| (a.case, a.predicted, &a.seen) == (b.case, b.predicted, &b.seen))
    }

    fn write_failures(&self, out: &mut String) {
        let _ = writeln!(out, "What theory predicts (five processes, 0 to 4), and under it what was seen\n");
        let mut last = "";
        for grouped in self.grouped() {
            let [Finding { case, predicted, seen, .. }, ..] = grouped else { continue };
            if *case != last {
                let _ = writeln!(out, "  {case}");
                last = case;
            }
            let kinds: Vec<&str> = grouped.iter().map(|finding| finding.kind.name()).collect();
            let mark = if grouped.iter().all(|finding| finding.holds) { "ok" } else { "NO" };
            let _ = writeln!(out, "    {mark}  {}: {predicted}", kinds.join(", "));
            for line in wrapped(seen, 84) {
                let _ = writeln!(out, "          {line}");
            }
        }
        out.push('\n');
    }

    fn write_quality(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "The leader's mean request latency over the best possible leader's, after the crash of p5 (1 is best)\n"
        );
        let _ = write!(out, "  {:<14}", "");
        for name in TOPOLOGIES {
            let _ = write!(out, "{name:>26}");
        }
        out.push('\n');
        for kind in Kind::ALL {
            let _ = write!(out, "  {kind:<14}");
            for name in TOPOLOGIES {
                let found = self.qualities.iter().find(|quality| quality.kind == kind && quality.topology == name);
                let cell = found.map_or(String::new(), |found| format!("{} {:>6.2}", elected(found), found.ratio()));
                let _ = write!(out, "{cell:>26}");
            }
            out.push('\n');
        }
    }
}

/// The elected leaders, the most frequent first.
pub(super) fn elected(quality: &Quality) -> String {
    let mut leaders: Vec<_> = quality.leaders.iter().collect();
    leaders.sort_by_key(|(id, often)| (u64::MAX - **often, **id));
    leaders.iter().map(|(id, _)| format!("p{id}")).collect::<Vec<_>>().join(" ")
}

/// A table cell: `612 (18) !`.
pub(super) fn cell(result: &NetworkConditions) -> String {
    let time = if result.ended == 0 { "never".to_owned() } else { format!("{:.0}", result.time_ms) };
    let ended = if result.ended == result.runs { String::new() } else { format!(" ({})", result.ended) };
    let mark = if result.violations == 0 { "" } else { " !" };
    format!("{time}{ended}{mark}")
}

/// Formats with at most three decimals, without trailing zeros.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 0 && last + 1 + word.chars().count() > width {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// The first line of `compare.csv`.
pub const HEADER: &str = "algorithm,n,case,seed,messages,delays,expected_messages,expected_delays,time_ms,violations";

/// Cases of `failures` that have rows in the CSV file.
const FAULTS: [&str; 2] = ["partition", "wrong-detector"];

/// The paper's deployments, those over three data centres first.
pub(super) const DEPLOYMENTS: [&str; 4] = ["d1", "d2", "d3", "two"];

/// The paper's deployments over three data centres.
pub(super) const TOPOLOGIES: [&str; 3] = ["d1", "d2", "d3"];

/// The number of runs per network condition.
pub(super) const RUNS: u64 = 20;
