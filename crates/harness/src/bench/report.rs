//! The table: medians, ranges, ratios and verdicts.

use super::metric::{GENERATOR_PERCENT_MAX, Metric};
use super::{Plan, Samples};
use crate::ensemble::Product;

pub(super) struct Report {
    lines: Vec<Line>,
    notes: Vec<String>,
}

struct Line {
    metric: Metric,
    apache: Option<Summary>,
    pole: Option<Summary>,
    verdict: Verdict,
}

/// The values of several rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    median: f64,
    min: f64,
    max: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Reached,
    Missed,
    /// The load generator took too much of the machine.
    Inconclusive,
    /// No goal, or only one product.
    None,
}

impl Report {
    /// Evaluates the measured values.
    pub(super) fn new(samples: &Samples, rounds: usize, plan: Plan) -> Self {
        let mut metrics: Vec<Metric> = samples.keys().map(|(metric, _)| *metric).collect();
        metrics.dedup();
        let lines = metrics.into_iter().map(|metric| Line::new(metric, samples)).collect();
        let notes = vec![
            format!(
                "Rounds: {rounds}, alternating, each with new servers on an empty disk; median (least to most). Under load \
                 {:.0} s of warm-up, then {:.0} s that count. Kills a round: {}, freezes: {}; all pooled.",
                plan.warm_up.as_secs_f64(),
                plan.window.as_secs_f64(),
                plan.kills,
                plan.freezes
            ),
            machine(),
        ];
        let shares = [(Metric::WriteGenerator, Metric::WriteServers), (Metric::ReadGenerator, Metric::ReadServers)];
        let limits = shares.into_iter().filter_map(|(generator, servers)| limiting_factor(samples, generator, servers));
        Self { lines, notes: notes.into_iter().chain(limits).collect() }
    }

    pub(super) fn misses(&self) -> usize {
        self.lines.iter().filter(|line| line.verdict == Verdict::Missed).count()
    }

    /// The table for a terminal.
    pub(super) fn text(&self) -> String {
        let rows: Vec<[String; 6]> = std::iter::once(HEAD.map(str::to_owned)).chain(self.cells()).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
        let mut text = String::new();
        for row in &rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            text += cells.collect::<Vec<_>>().join("  ").trim_end();
            text += "\n";
        }
        text + "\n" + &self.notes.join("\n") + "\n" + &self.last_line()
    }

    /// The table for `docs`.
    pub(super) fn markdown(&self) -> String {
        let line = |cells: &[String; 6]| format!("| {} |\n", cells.join(" | "));
        let mut text = line(&HEAD.map(str::to_owned)) + "| --- | ---: | ---: | ---: | --- | --- |\n";
        for cells in self.cells() {
            text += &line(&cells);
        }
        text + "\n" + &self.notes.join("\n\n") + "\n\n" + &self.last_line() + "\n"
    }

    fn cells(&self) -> impl Iterator<Item = [String; 6]> {
        self.lines.iter().map(Line::cells)
    }

    fn last_line(&self) -> String {
        let count = |verdict| self.lines.iter().filter(|line| line.verdict == verdict).count();
        let (reached, missed) = (count(Verdict::Reached), count(Verdict::Missed));
        format!("{reached} goals reached, {missed} missed, {} not judged", count(Verdict::Inconclusive))
    }
}

impl Line {
    fn new(metric: Metric, samples: &Samples) -> Self {
        let of = |metric, product| samples.get(&(metric, product)).and_then(|values| Summary::of(values));
        let (apache, pole) = (of(metric, Product::Apache), of(metric, Product::Pole));
        let generator = metric.generator_share().and_then(|share| of(share, Product::Pole));
        let reached = pole.and_then(|pole| metric.goal().reached(pole.median, apache.map(|apache| apache.median)));
        let verdict = match reached {
            None => Verdict::None,
            Some(true) => Verdict::Reached,
            // A rate that was limited by the generator says nothing about the servers.
            Some(false) if generator.is_some_and(|share| share.median > GENERATOR_PERCENT_MAX) => Verdict::Inconclusive,
            Some(false) => Verdict::Missed,
        };
        Self { metric, apache, pole, verdict }
    }

    fn cells(&self) -> [String; 6] {
        let ratio = self.apache.zip(self.pole).map(|(apache, pole)| pole.median / apache.median);
        [
            format!("{} ({})", self.metric.name(), self.metric.unit()),
            self.apache.map(Summary::text).unwrap_or_default(),
            self.pole.map(Summary::text).unwrap_or_default(),
            ratio.map(|ratio| format!("{ratio:.3}")).unwrap_or_default(),
            self.metric.goal().text(),
            match self.verdict {
                Verdict::Reached => "reached".into(),
                Verdict::Missed => "MISSED".into(),
                Verdict::Inconclusive => "not judged".into(),
                Verdict::None => String::new(),
            },
        ]
    }
}

impl Summary {
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let even = sorted.len().is_multiple_of(2);
        let median = if even { f64::midpoint(sorted[middle - 1], sorted[middle]) } else { sorted[middle] };
        Some(Self { median, min, max })
    }

    pub(super) fn median(self) -> f64 {
        self.median
    }

    pub(super) fn text(self) -> String {
        format!("{} ({} to {})", figure(self.median), figure(self.min), figure(self.max))
    }
}

/// Three significant digits, or the whole number.
pub(super) fn figure(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// What limited a rate, if the generator took too much.
fn limiting_factor(samples: &Samples, generator: Metric, servers: Metric) -> Option<String> {
    let lines = [Product::Apache, Product::Pole].into_iter().filter_map(|product| {
        let share = Summary::of(samples.get(&(generator, product))?)?.median;
        let rest = Summary::of(samples.get(&(servers, product))?)?.median;
        let bound =
            if share + rest > 90.0 { "the CPUs of the machine, generator included" } else { "waiting, not CPU" };
        let over = share > GENERATOR_PERCENT_MAX;
        over.then(|| format!("{product}: {} {share:.0} %, servers {rest:.0} %: bound by {bound}", generator.name()))
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

pub(super) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name));
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').take(3).collect::<Vec<_>>().join(" ");
    format!("Machine: {cores} cores, {}; load averages at the end {load}.", model.unwrap_or("of an unknown kind"))
}

const HEAD: [&str; 6] = ["what", "Apache", "Pole", "Pole / Apache", "goal", "verdict"];

#[cfg(test)]
mod tests {
    use super::super::QUICK;
    use super::*;

    fn samples(entries: &[(Metric, Product, &[f64])]) -> Samples {
        entries.iter().map(|(metric, product, values)| ((*metric, *product), values.to_vec())).collect()
    }

    #[test]
    fn the_median_of_an_even_count_lies_between() {
        assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 3.0]), Some(Summary { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn a_missed_ratio_is_counted() {
        let found = samples(&[
            (Metric::WriteCpu, Product::Apache, &[90.0, 100.0, 95.0]),
            (Metric::WriteCpu, Product::Pole, &[40.0, 41.0, 10.0]),
        ]);
        let report = Report::new(&found, 3, QUICK);
        assert_eq!(report.misses(), 1);
        assert!(
            report.markdown().contains("| 95.0 (90.0 to 100) | 40.0 (10.0 to 41.0) | 0.421 |"),
            "{}",
            report.text()
        );
    }

    #[test]
    fn a_rate_held_down_by_the_generator_is_not_judged() {
        let found = samples(&[
            (Metric::WriteRate, Product::Apache, &[20_000.0]),
            (Metric::WriteRate, Product::Pole, &[50_000.0]),
            (Metric::WriteGenerator, Product::Pole, &[30.0]),
            (Metric::WriteServers, Product::Pole, &[69.0]),
        ]);
        let report = Report::new(&found, 1, QUICK);
        assert_eq!(report.misses(), 0);
        assert!(report.text().contains("bound by the CPUs of the machine"), "{}", report.text());
    }

    #[test]
    fn one_product_alone_is_not_compared() {
        let report = Report::new(&samples(&[(Metric::WriteCpu, Product::Apache, &[90.0])]), 1, QUICK);
        assert_eq!(report.misses(), 0);
    }
}
