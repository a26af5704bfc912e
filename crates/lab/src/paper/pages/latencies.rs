//! Figures 4b, 6, 7a, 7b and 7c: request latencies under the leader that each oracle elects.

use std::collections::BTreeSet;

use super::super::figures::{Case, Figure, LEADERS, ORACLES, Share};
use super::super::formula::Formula;
use super::super::job::Crash;
use super::super::rows::{Agreement, DISK_MS, Direct, Row, mean, ms};
use super::{Report, setting};
use crate::report::chart::{self, Axes, Group, Panel, Series};

impl Report<'_> {
    pub(super) fn around_the_crash(&mut self) {
        self.page.section("figure-4b", "Figure 4b: two data centres, around the crash");
        self.page.text(
            "p5 leads in D2, which holds a whole quorum, and crashes at 0. Afterwards every proposal must cross the slow link \
             under either leader: before the crash the mean is half a round trip between the sites, afterwards one and a half, \
             under every oracle. Only who waits differs: with p4 the clients of D1, with p1 those of D2.",
        );
        let panels: Vec<Panel> = ["history", "rotating"].into_iter().filter_map(|oracle| self.course(oracle)).collect();
        let svg = chart::stacked("Latency of each data centre around the crash of p5", &panels);
        self.draw(Figure::F4b, "4b", svg, "Figure 4b: latency of each data centre over time, p5 crashes at 0.");
        self.matrix(Figure::F4b, Row::shown_mean, "mean after the crash");
    }

    fn course(&self, oracle: &str) -> Option<Panel> {
        let (_, run) = self.study.runs.iter().find(|(case, _)| case.figure == Figure::F4b && case.oracle == oracle)?;
        let of = |site: &str| {
            let points = run.course.iter().filter(|moment| moment.site == site);
            let points = points.map(|moment| (moment.at_ms as f64 / 1e3, ms(moment.mean_ns))).collect();
            Series::new(format!("requests at {site}"), points)
        };
        let axes = Axes { x: "seconds since the crash", y: "latency in ms", events: &[(0.0, "crash")] };
        Some(Panel::lines(&format!("{oracle} elects p{}", run.winner), axes, &[of("D1"), of("D2")]))
    }

    pub(super) fn every_leader(&mut self) {
        self.page.section("figure-6", "Figure 6: three data centres, every possible leader");
        self.page.text(
            "Even load. Each group is one new leader; its bars are the requests of each data centre, the dashed line is the \
             mean over all, and the number stands over the leader's own data centre, where a request takes just one round of \
             consensus. In deployments 1 and 2 p3 and p4 are equally near to a quorum, yet one of them is far better for the \
             clients.",
        );
        let panels: Vec<Panel> = ["d1", "d2", "d3"].into_iter().map(|setting| self.leaders_of(setting)).collect();
        let svg = chart::stacked("Mean latency per data centre for each possible new leader", &panels);
        self.draw(Figure::F6, "6", svg, "Figure 6: mean latency per data centre for each possible new leader.");
        self.leaders_table();
        self.matrix(Figure::F6, Row::shown_mean, "mean after the crash, even load");
    }

    fn leaders_of(&self, preset: &'static str) -> Panel {
        let groups: Vec<Group> = LEADERS
            .iter()
            .filter_map(|oracle| {
                let runs: Vec<&(Case, Crash)> = self.runs_of(Figure::F6, preset, Share::Even, oracle);
                let (case, first) = runs.first()?;
                let topology = case.topology();
                let own = topology.site(first.winner)?.to_owned();
                let bars: Vec<f64> = SITES.iter().map(|site| site_mean(&runs, site)).collect();
                let labels = SITES
                    .iter()
                    .zip(&bars)
                    .map(|(site, ms)| if *site == own { format!("{ms:.0}") } else { String::new() });
                let mark = Some(mean(runs.iter().map(|(_, run)| ms(run.after_ns))));
                Some(Group { name: format!("p{}\n{own}", first.winner), labels: labels.collect(), bars, mark })
            })
            .collect();
        Panel::bars(setting(preset), "latency in ms", &["requests at D1", "requests at D2", "requests at D3"], &groups)
    }

    fn leaders_table(&mut self) {
        let mut rows = Vec::new();
        for preset in ["d1", "d2", "d3"] {
            for oracle in LEADERS {
                let runs = self.runs_of(Figure::F6, preset, Share::Even, oracle);
                let Some((case, first)) = runs.first() else { continue };
                let topology = case.topology();
                let (formula, leader) = (Formula::after_crash(&topology), first.winner);
                let pair = |ours: f64, formula: f64| format!("{ours:.1} / {:.1}", formula + DISK_MS);
                let mut row = vec![setting(preset).to_owned(), format!("p{leader}")];
                row.extend(SITES.iter().map(|site| pair(site_mean(&runs, site), formula.site_ms(leader, site))));
                row.push(pair(mean(runs.iter().map(|(_, run)| ms(run.after_ns))), formula.latency_ms(leader)));
                rows.push(row);
            }
        }
        let caption = format!("Ours / formula plus {DISK_MS:.2} ms, in ms");
        self.page.table(&caption, &["setting", "leader", "D1", "D2", "D3", "mean"], &rows);
    }

    pub(super) fn uneven_two(&mut self) {
        self.page.section("figure-7a", "Figure 7a: two data centres, uneven load");
        self.page.text(
            "The share p of the requests comes from D2, the rest from D1. Every leader needs one crossing for its quorum; a \
             request from the other site needs one more. Oracles that see the requests put the leader where they come from \
             and halve the latency at the ends; the others cannot know.",
        );
        let axes = Axes { x: "share p of the load at D2", y: "mean latency in ms", events: &[] };
        let svg = Panel::lines("", axes, &self.by_share(Figure::F7a, "two"))
            .svg("Mean latency against the share p, two data centres");
        self.draw(Figure::F7a, "7a", svg, "Figure 7a: mean latency under each oracle, two data centres.");
        self.matrix(Figure::F7a, Row::shown_mean, "mean after the crash");
    }

    pub(super) fn uneven_three_mean(&mut self) {
        self.page.section("figure-7b", "Figure 7b: three data centres, uneven load, mean");
        self.page.text(
            "In deployment 1 the share p comes from D3, in deployment 3 from D2, the rest evenly from the others. `latency` is \
             never beaten. `request` goes where most requests come from, even when that is far from any quorum (deployment 2, \
             p = 1). Oracles that do not see the requests can be several times slower.",
        );
        self.uneven_three(Figure::F7b, "mean latency in ms");
        self.matrix(Figure::F7b, Row::shown_mean, "mean after the crash");
    }

    pub(super) fn uneven_three_worst(&mut self) {
        self.page.section("figure-7c", "Figure 7c: three data centres, uneven load, worst");
        self.page.text(
            "The same loads, and of each run the data centre that waits longest. `worst-case` is best here at every p; \
             `latency` gives up the farthest few for the many. A data centre without clients has no latency, so at p = 0 and \
             p = 1 half a percent of the load is left to those that would have none.",
        );
        self.uneven_three(Figure::F7c, "worst latency in ms");
        self.matrix(Figure::F7c, Row::shown_worst, "data centre that waits longest");
    }

    fn uneven_three(&mut self, figure: Figure, y: &str) {
        let axes = Axes { x: "share p of the load", y, events: &[] };
        let panel = |preset: &str| Panel::lines(setting(preset), axes, &self.by_share(figure, preset));
        let what = if figure == Figure::F7b { "mean" } else { "worst" };
        let svg = chart::stacked(
            &format!("{what} latency against the share p, three data centres"),
            &["d1", "d3"].map(panel),
        );
        let name = figure.name();
        self.draw(figure, name, svg, &format!("Figure {name}: {what} latency under each oracle, deployments 1 and 3."));
    }

    /// One line per oracle; oracles with equal values share one.
    fn by_share(&self, figure: Figure, preset: &str) -> Vec<Series> {
        let mut merged: Vec<Series> = Vec::new();
        for oracle in ORACLES {
            let mut points: Vec<(f64, f64)> = Vec::new();
            for share in self.options.scale.shares() {
                let ours = self.rows_of(figure, preset, share, oracle);
                if !ours.is_empty() {
                    points.push((share.value(), mean(ours.iter().map(|row| row.shown_ms()))));
                }
            }
            let alike = |other: &[(f64, f64)]| {
                other.len() == points.len() && other.iter().zip(&points).all(|(a, b)| (a.1 / b.1 - 1.0).abs() < 0.015)
            };
            match merged.iter_mut().find(|other| alike(&other.points)) {
                Some(other) => other.name += &format!(", {oracle}"),
                None => merged.push(Series::new(oracle, points)),
            }
        }
        merged
    }

    /// Two tables with a row per setting and a column per oracle: the winner, the latency and the formula, as in the
    /// paper and with direct acknowledgements.
    fn matrix(&mut self, figure: Figure, shown: fn(&Row) -> f64, what: &str) {
        let legend = format!(
            "{what} in ms, and in brackets formula plus {DISK_MS:.2} ms for the predicted winner; ~ a tie decided by \
             fluctuation, ≠ not the predicted winner"
        );
        self.matrix_of(figure, &format!("Winner, {legend}"), |row| Some(Cell::of(row, shown(row))));
        let caption = format!("The same with direct acknowledgements: winner, {legend}");
        self.matrix_of(figure, &caption, |row| row.direct.as_ref().map(Cell::of_direct));
    }

    fn matrix_of(&mut self, figure: Figure, caption: &str, cell: impl Fn(&Row) -> Option<Cell>) {
        let of_figure = || self.study.rows.iter().filter(|row| row.case.figure == figure);
        let mut places: Vec<(&'static str, Share)> =
            of_figure().map(|row| (row.case.setting, row.case.share)).collect();
        let mut seen = BTreeSet::new();
        places.retain(|place| seen.insert(*place));
        let mut rows = Vec::new();
        for (preset, share) in places {
            let of = |oracle: &&'static str| -> Vec<Cell> {
                self.rows_of(figure, preset, share, oracle).into_iter().filter_map(&cell).collect()
            };
            let mut row = vec![setting(preset).to_owned(), share.text()];
            row.extend(ORACLES.iter().map(|oracle| text_of(&of(oracle))));
            let all = of_figure().filter(|row| (row.case.setting, row.case.share) == (preset, share)).filter_map(&cell);
            let farthest = all.map(|cell| cell.deviation_percent).max_by(|a, b| a.abs().total_cmp(&b.abs()));
            row.push(farthest.map(|percent| format!("{percent:+.1} %")).unwrap_or_default());
            rows.push(row);
        }
        let head: Vec<&str> = ["setting", "p"].into_iter().chain(ORACLES).chain(["farthest off"]).collect();
        self.page.table(caption, &head, &rows);
    }

    fn rows_of(&self, figure: Figure, preset: &str, share: Share, oracle: &str) -> Vec<&Row> {
        let is_of =
            |case: &Case| (case.figure, case.setting, case.share, case.oracle) == (figure, preset, share, oracle);
        self.study.rows.iter().filter(|row| is_of(&row.case)).collect()
    }

    fn runs_of(&self, figure: Figure, preset: &str, share: Share, oracle: &str) -> Vec<&(Case, Crash)> {
        let is_of =
            |case: &Case| (case.figure, case.setting, case.share, case.oracle) == (figure, preset, share, oracle);
        self.study.runs.iter().filter(|(case, _)| is_of(case)).collect()
    }
}

/// What a table shows of a run.
struct Cell {
    winner: u64,
    agreement: Agreement,
    shown_ms: f64,
    predicted_ms: f64,
    deviation_percent: f64,
}

impl Cell {
    fn of(row: &Row, shown_ms: f64) -> Self {
        let Row { winner, agreement, predicted_ms, deviation_percent, .. } = *row;
        Self { winner, agreement, shown_ms, predicted_ms, deviation_percent }
    }

    fn of_direct(direct: &Direct) -> Self {
        let Direct { winner, agreement, shown_ms, predicted_ms, deviation_percent, .. } = *direct;
        Self { winner, agreement, shown_ms, predicted_ms, deviation_percent }
    }
}

/// The runs of one cell, which differ in their seeds.
fn text_of(cells: &[Cell]) -> String {
    let Some(first) = cells.first() else { return String::new() };
    let mut winners: Vec<u64> = cells.iter().map(|cell| cell.winner).collect();
    winners.sort_unstable();
    winners.dedup();
    let winners: Vec<String> = winners.iter().map(|id| format!("p{id}")).collect();
    let sign = if cells.iter().any(|cell| cell.agreement == Agreement::Other) {
        " ≠"
    } else if cells.iter().any(|cell| cell.agreement == Agreement::Tie) {
        " ~"
    } else {
        ""
    };
    let ours = mean(cells.iter().map(|cell| cell.shown_ms));
    format!("{}{sign} {ours:.1} ({:.1})", winners.join(" or "), first.predicted_ms + DISK_MS)
}

impl Row {
    fn shown_mean(&self) -> f64 {
        self.mean_ms
    }

    fn shown_worst(&self) -> f64 {
        self.worst_ms
    }
}

fn site_mean(runs: &[&(Case, Crash)], name: &str) -> f64 {
    let of = |run: &Crash| run.sites.iter().find(|site| site.after && site.site == name).map(|site| ms(site.mean_ns));
    mean(runs.iter().filter_map(|(_, run)| of(run)))
}

const SITES: [&str; 3] = ["D1", "D2", "D3"];
