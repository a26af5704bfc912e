//! The report: a summary, then each figure with an explanation, its table and the command that reproduces it.
//!
//! The output is an HTML page, and the figures as separate files.

mod latencies;
mod open;
mod ours;
mod real;
mod recoveries;
mod watched;

use std::collections::BTreeMap;

use super::figures::{Figure, LatencyKind};
use super::rows::PaperComparison;
use super::study::{LIMIT_PERCENT, Options, Study, Summary};
use crate::report::Page;

/// The page, and all figures by file name.
pub(super) fn report(options: &Options, study: &Study, summary: &Summary) -> (String, BTreeMap<String, String>) {
    let mut report = Report {
        page: Page::new(
            "The leader where it serves best: the paper's evaluation, repeated",
            "Experiments of “Leader Election for Replicated Services Using Application Scores” (Becker, Junqueira, \
             Serafini, 2011), run in virtual time on Pole's production code.",
        ),
        figures: BTreeMap::new(),
        options,
        study,
    };
    report.summary(summary);
    report.on_real_servers(summary);
    // A single case has no figures.
    for figure in Figure::ALL.into_iter().filter(|figure| options.case.is_none() && options.wants(*figure)) {
        match figure {
            Figure::F4b => report.around_the_crash(),
            Figure::F6 => report.every_leader(),
            Figure::F7a => report.uneven_two(),
            Figure::F7b => report.uneven_three_mean(),
            Figure::F7c => report.uneven_three_worst(),
            Figure::F8a => report.recovery_in_two(),
            Figure::F8b => report.recovery_in_three(),
            Figure::Open => report.open_question(summary.answered),
            Figure::Regret => report.regret(),
            Figure::Wander => report.wander(),
        }
    }
    // Only in the full report, not if single figures are selected.
    if options.only.is_empty() {
        report.election();
    }
    report.method();
    (report.page.finish(), report.figures)
}

struct Report<'a> {
    page: Page,
    figures: BTreeMap<String, String>,
    options: &'a Options,
    study: &'a Study,
}

impl Report<'_> {
    /// Adds a figure to the page and to the files.
    fn draw(&mut self, figure: Figure, file: &str, svg: String, caption: &str) {
        let command = format!("pole lab paper --only {}{}", figure.name(), self.options.repeated_by);
        self.page.figure(&format!("fig-{file}"), &svg, caption, &command);
        self.figures.insert(file.to_owned(), svg);
    }

    fn summary(&mut self, summary: &Summary) {
        self.page.section("summary", "Does it agree?");
        let tiles = tiles(summary);
        let tiles: String = tiles.iter().map(|(good, figure, text)| tile(*good, figure, text)).collect();
        self.page.html(&format!("<ul class=\"verdict\">\n{tiles}</ul>"));
        if summary.holds() && summary.cells > 0 {
            self.page
                .text("Yes: every winner is the predicted one or ties with it, and every latency lies within a tenth.");
        } else if !summary.holds() {
            self.page.text("Not everywhere. What differs:");
        }
        for other in &summary.others {
            self.page.text(other);
        }
        for (key, why) in &summary.failed {
            self.page.text(&format!("The run “{key}” failed: {why}"));
        }
        self.deviations(summary);
        self.stated();
    }

    /// The largest deviations of latencies.
    fn deviations(&mut self, summary: &Summary) {
        let worst = [("the formulas", &summary.from_formula), ("the paper's figures", &summary.from_paper)];
        for (what, worst) in worst {
            if let Some((percent, place)) = worst {
                self.page.text(&format!("Farthest from {what}: {percent:+.1} % ({place})."));
            }
        }
        if summary.ties > 0 {
            self.page.text(&format!(
                "Cells in which several servers tie by the formula, and the fluctuation of what was measured chose another than \
                 the highest id: {}. They are marked ~ below, and their latency is held against the formula for the chosen one.",
                summary.ties
            ));
        }
    }

    fn stated(&mut self) {
        if self.study.comparisons.is_empty() {
            return;
        }
        let rows: Vec<Vec<String>> = self
            .study
            .comparisons
            .iter()
            .map(|comparison| {
                let mut cells = stated_cells(comparison, comparison.formula_ms);
                cells.push(comparison.stated.source.to_owned());
                cells
            })
            .collect();
        self.page.table(
            "Every latency that the paper states, in ms. The formula has no disk and no processing in it.",
            &["setting", "p", "oracle", "of", "ours", "formula", "paper", "deviation", "section"],
            &rows,
        );
        if self
            .study
            .comparisons
            .iter()
            .any(|comparison| comparison.stated.approximate && comparison.stated.kind == LatencyKind::Before)
        {
            self.page.text(
                "“About” figures are read off a chart in the paper and are shown, not judged: the formula alone, without any \
                 disk, is above the first of them.",
            );
        }
    }

    fn method(&mut self) {
        let scale = &self.options.scale;
        self.page.section("how", "How it was run");
        let seconds = |ns: u64| ns / pole_sim::SECOND;
        self.page.text(&format!(
            "{} requests a second in all, {} s before the crash of p5 and {} s after it, means from {} s after the crash on; \
             seeds {:?}. Delays are Pareto distributed with a jitter of 2 %. Latency scores are compared in classes of 1 ms and \
             rates in classes of 10 %, so that ties go to the higher id.",
            10 * scale.load_percent,
            seconds(scale.before),
            seconds(scale.after),
            (scale.after / 3 / pole_sim::SECOND).min(10),
            scale.seeds,
        ));
        self.page.text(
            "Everything runs in the simulator, in virtual time, on the same code that serves: election, oracles, agreement and \
             failure detection. The same options give the same files, byte for byte, on every machine. The rows behind the \
             figures are in paper.csv, sites.csv, recovery.csv and regret.csv beside this page.",
        );
        let command = format!("pole lab paper{}", self.options.repeated_by);
        self.page.html(&format!("<p class=\"command\">All of it: <code>{command}</code></p>"));
    }
}

/// The summary tiles: whether the value is good, the value, its description.
fn tiles(summary: &Summary) -> Vec<(bool, String, String)> {
    let near = |worst: &Option<(f64, String)>| worst.as_ref().is_none_or(|(percent, _)| percent.abs() <= LIMIT_PERCENT);
    let percent = |worst: &Option<(f64, String)>| worst.as_ref().map(|(percent, _)| format!("{:.1} %", percent.abs()));
    let mut tiles = Vec::new();
    if summary.cells > 0 {
        let (agree, cells) = (summary.agree, summary.cells);
        tiles.push((agree == cells, format!("{agree} of {cells}"), "winners as the formulas predict".to_owned()));
    }
    if let Some(text) = percent(&summary.from_formula) {
        tiles.push((near(&summary.from_formula), text, "largest deviation from the formulas".to_owned()));
    }
    if let Some(text) = percent(&summary.from_paper) {
        tiles.push((near(&summary.from_paper), text, "largest deviation from the paper's figures".to_owned()));
    }
    tiles.push((true, format!("{:.2} ms", summary.disk_ms), "the one constant for disk and processing".to_owned()));
    if summary.recoveries.0 > 0 {
        let (all, near) = summary.recoveries;
        let text = "leaders by “recovery” within 5 % or 2 ms of the fastest to recover".to_owned();
        tiles.push((all == near, format!("{near} of {all}"), text));
    }
    if let Some(answered) = summary.answered {
        let (within, of) = answered.all;
        let text = "cases of the open question in which “recovery” picks the fastest or one within 5 %".to_owned();
        tiles.push((answered.holds(), format!("{:.1} %", 100.0 * within as f64 / of.max(1) as f64), text));
    }
    tiles
}

fn tile(good: bool, figure: &str, text: &str) -> String {
    let class = if good { "good" } else { "bad" };
    format!("<li class=\"{class}\"><b>{figure}</b>{text}</li>\n")
}

/// A latency of the paper beside ours: setting, share, oracle, kind, ours, the formula, the paper's, the deviation.
fn stated_cells(comparison: &PaperComparison, formula_ms: f64) -> Vec<String> {
    let stated = &comparison.stated;
    let (paper, deviation) = match stated.approximate {
        true => (format!("about {}", stated.ms), "–".to_owned()),
        false => (stated.ms.to_string(), format!("{:+.1} %", comparison.deviation_percent)),
    };
    vec![
        setting(stated.setting).to_owned(),
        stated.share.text(),
        stated.oracle.map_or_else(|| "any".to_owned(), who),
        stated.kind.text(),
        format!("{:.1}", comparison.ours_ms),
        format!("{formula_ms:.1}"),
        paper,
        deviation,
    ]
}

/// The name of a deployment for readers.
fn setting(preset: &str) -> &'static str {
    match preset {
        "two" => "two data centres",
        "d1" => "deployment 1",
        "d2" => "deployment 2",
        "d3" => "deployment 3",
        _ => "another",
    }
}

/// The name of an oracle for readers, or of the leader that was forced to win.
fn who(oracle: &str) -> String {
    oracle.strip_prefix("leader=").map_or_else(|| oracle.to_owned(), |id| format!("leader p{id}"))
}
