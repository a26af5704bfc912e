//! The HTML page of the comparison, and its figures.

use super::compare::{DEPLOYMENTS, RUNS, TOPOLOGIES, cell, elected};
use super::counts::formula;
use super::{Comparison, Condition, Count, Finding, Kind, Recording, Statistic};
use crate::player::Player;
use crate::report::Page;
use crate::report::chart::{self, Axes, Group, Series};

/// A figure with its file name.
pub(super) struct Figure {
    pub(super) file: &'static str,
    pub(super) svg: String,
    caption: &'static str,
}

pub(super) fn page(comparison: &Comparison) -> String {
    let (low, high, seed) = (*comparison.n.start(), *comparison.n.end(), comparison.seed);
    let command = format!("pole lab compare --n {low}..{high} --seed {seed}");
    let lead = "What ring, bully and their successors cost, how long they take, when they fail, and whom they elect; \
                POLE beside them, by its production code.";
    let mut page = Page::new("Election algorithms on one bench", lead);
    summary(comparison, &mut page);
    let mut figures = figures(comparison).into_iter();
    let mut draw = |page: &mut Page| {
        if let Some(Figure { file, svg, caption }) = figures.next() {
            page.figure(file.trim_end_matches(".svg"), &svg, caption, &command);
        }
    };
    counts(comparison, &mut page);
    draw(&mut page);
    draw(&mut page);
    conditions(comparison, &mut page);
    draw(&mut page);
    failures(comparison, &command, &mut page);
    quality(comparison, &mut page);
    draw(&mut page);
    page.finish()
}

/// All figures, in the order of the page.
pub(super) fn figures(comparison: &Comparison) -> Vec<Figure> {
    let messages = series(comparison, &[Kind::Ring, Kind::Raft, Kind::RaftPreVote, Kind::Chubby, Kind::Rotating]);
    let axes = Axes { x: "N", y: "messages", events: &[] };
    let squares = series(comparison, &[Kind::Bully, Kind::Fle, Kind::Viewstamped, Kind::Santos, Kind::Pole]);
    vec![
        Figure {
            file: "compare-messages-linear.svg",
            svg: chart::lines("Messages that grow with N", axes, &messages),
            caption: "Messages that grow with N: the mean of each algorithm whose best case is linear.",
        },
        Figure {
            file: "compare-messages-square.svg",
            svg: chart::lines("Messages that grow with the square of N", axes, &squares),
            caption: "Messages that grow faster: the mean of each algorithm in which all talk to all.",
        },
        Figure { file: "compare-time.svg", svg: times(comparison), caption: TIMES },
        Figure { file: "compare-quality.svg", svg: ratios(comparison), caption: RATIOS },
    ]
}

const TIMES: &str = "Time to a leader: from the crash of p5 on deployment 1 until all that live agree, without loss and \
                     with 5 % of all messages lost. A bar of zero: no run ended.";
const RATIOS: &str = "Quality of the leader: its mean request latency over the best possible leader's. 1 is best.";

fn series(comparison: &Comparison, kinds: &[Kind]) -> Vec<Series> {
    let point =
        |kind: Kind, n: usize| comparison.of(kind, n, Statistic::Mean).map(|count| (n as f64, count.messages.mean()));
    let line = |kind: &Kind| Series::new(kind.name(), comparison.n.clone().filter_map(|n| point(*kind, n)).collect());
    kinds.iter().map(line).collect()
}

fn times(comparison: &Comparison) -> String {
    let bar = |kind: Kind, condition: Condition| {
        comparison
            .condition_result(kind, condition)
            .filter(|result| result.ended > 0)
            .map_or(0.0, |result| result.time_ms)
    };
    let panels = SHOWN.map(|kinds| {
        let group = |kind: Kind| Group {
            name: kind.name().replace('-', "\n"),
            bars: vec![bar(kind, Condition::Crash), bar(kind, Condition::Loss(5))],
            labels: Vec::new(),
            mark: None,
        };
        chart::Panel::bars(
            "",
            "ms",
            &["crash", "crash, 5 % lost"],
            &kinds.iter().copied().map(group).collect::<Vec<_>>(),
        )
    });
    chart::stacked("Time to a leader", &panels)
}

fn ratios(comparison: &Comparison) -> String {
    let panels = SHOWN.map(|kinds| {
        let ratio = |kind: Kind, name: &str| {
            let found = comparison.qualities.iter().find(|quality| quality.kind == kind && quality.topology == name);
            found.map_or(0.0, super::Quality::ratio)
        };
        let group = |kind: Kind| Group {
            name: kind.name().replace('-', "\n"),
            bars: TOPOLOGIES.iter().map(|name| ratio(kind, name)).collect(),
            labels: Vec::new(),
            mark: None,
        };
        chart::Panel::bars("", "times the best", &TOPOLOGIES, &kinds.iter().copied().map(group).collect::<Vec<_>>())
    });
    chart::stacked("Quality of the leader", &panels)
}

/// Few enough per panel for their names to fit.
const SHOWN: [&[Kind]; 3] = [
    &[Kind::Ring, Kind::RingRepair2, Kind::Bully, Kind::Invitation],
    &[Kind::Raft, Kind::RaftPreVote, Kind::Chubby, Kind::Fle],
    &[Kind::Rotating, Kind::Santos, Kind::Viewstamped, Kind::Pole],
];

fn summary(comparison: &Comparison, page: &mut Page) {
    let mismatches = comparison.mismatches();
    let checked = comparison.counts.iter().filter(|count| count.expected.is_some()).count();
    let differing = comparison.counts.iter().filter(|count| !count.agrees()).count();
    let (held, all) = (comparison.findings.iter().filter(|found| found.holds).count(), comparison.findings.len());
    page.section("summary", "In short");
    let class = |good: bool| if good { "good" } else { "bad" };
    page.html(&format!(
        "<ul class=\"verdict\"><li class=\"{}\"><b>{checked}</b>counts with a formula, {differing} differ</li>\
         <li class=\"{}\"><b>{held} of {all}</b>predictions hold</li>\
         <li><b>{}</b>algorithms, N = {} to {}, seed {}</li></ul>",
        class(differing == 0),
        class(held == all),
        Kind::ALL.len(),
        comparison.n.start(),
        comparison.n.end(),
        comparison.seed,
    ));
    mismatches.iter().for_each(|mismatch| page.text(mismatch));
    page.text(
        "Ring and bully are cheap and need nobody's consent, which is why a wrong suspicion or a cut network gives them two \
         leaders at once. The others need a majority that accepts the leader, and two majorities share a process. Most take \
         the leader as ids, turns or dice bring it; latency-aware rotation seeks the fastest quorum, by way of elections in \
         between; POLE elects the best score at once.",
    );
}

fn counts(comparison: &Comparison, page: &mut Page) {
    page.section("counts", "Messages and message delays");
    page.text(
        "Nothing fails but the old leader. A delay is a message on the way from cause to effect, or an expired timeout, until \
         the last process knows. N is the number of living members for the ring, and counts the dead leader for all others; \
         M = N - 1, Q = N/2 + 1. Bully's worst case counts Election messages, as the lecture does. Where the formula has no \
         worst case, the worst is the most that was seen.",
    );
    let shown = [3, 5, 8, 16, 32].into_iter().filter(|n| comparison.n.contains(n)).chain([*comparison.n.end()]);
    let mut shown: Vec<usize> = shown.collect();
    shown.dedup();
    for n in shown {
        let row = |kind: Kind| {
            let figures = Statistic::ALL.iter().flat_map(|statistic| match comparison.of(kind, n, *statistic) {
                Some(Count { messages, delays, .. }) => [messages.to_string(), delays.to_string()],
                None => [String::new(), String::new()],
            });
            let mut row = vec![kind.name().to_owned()];
            row.extend(figures);
            row.push(formula(kind).to_owned());
            row
        };
        let head = ["algorithm", "best", "delays", "worst", "delays", "mean", "delays", "formula"];
        let rows: Vec<_> = Kind::ALL.map(row).into();
        page.table(&format!("N = {n}"), &head, &rows);
    }
}

fn conditions(comparison: &Comparison, page: &mut Page) {
    page.section("time", "Time to a leader");
    page.text(&format!(
        "p5 leads and crashes; milliseconds until all that live agree, mean of {RUNS} runs. The failure detector needs 400 to \
         440 ms; a lease lasts 1 s; timeouts are 200 ms. A lost message is lost for good. In brackets: how many of the {RUNS} \
         runs ended within 30 s, if not all. An exclamation mark: two leaders at once in some run."
    ));
    let head: Vec<String> =
        ["algorithm".to_owned()].into_iter().chain(Condition::ALL.map(|condition| condition.to_string())).collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    for name in DEPLOYMENTS {
        let row = |kind: Kind| -> Vec<String> {
            let found = |condition: Condition| {
                let is = |result: &&super::NetworkConditions| {
                    result.kind == kind && result.condition == condition && result.topology == name
                };
                comparison.conditions.iter().find(is).map_or(String::new(), cell)
            };
            [kind.name().to_owned()].into_iter().chain(Condition::ALL.map(found)).collect()
        };
        let rows: Vec<Vec<String>> = Kind::ALL.map(row).into();
        page.table(&format!("Deployment {name}"), &head, &rows);
    }
}

fn failures(comparison: &Comparison, command: &str, page: &mut Page) {
    page.section("failures", "What goes wrong, and what does not");
    page.text("Five processes, 0 to 4. Two leaders at once: two that live, each accepted by as many as its algorithm asks for.");
    for grouped in comparison.grouped() {
        let [Finding { case, predicted, seen, .. }, ..] = grouped else { continue };
        let kinds: Vec<&str> = grouped.iter().map(|found| found.kind.name()).collect();
        let holds = if grouped.iter().all(|found| found.holds) { "" } else { "DIFFERS: " };
        page.text(&format!("{holds}{case}, {}: {predicted}. Seen: {seen}.", kinds.join(", ")));
    }
    let recording = |case: &str, kind: Kind| {
        let found = comparison.findings.iter().find(|found| found.case == case && found.kind == kind);
        found.and_then(|found| found.outcome.recording.as_ref())
    };
    for (case, kind, steps, caption) in DRAWN {
        if let Some(recording) = recording(case, kind) {
            let svg = Player(recording).controls(caption, steps);
            page.figure(&format!("play-{kind}-{case}"), &svg, caption, command);
        }
    }
    if let Some(recording) = recording("partition", Kind::Raft) {
        record(
            "The record of raft, partition: what changed a belief. * leads, x is dead, - knows no leader",
            recording,
            page,
        );
    }
}

/// Recordings that are drawn, with the number of steps.
const DRAWN: [(&str, Kind, usize, &str); 3] = [
    (
        "wrong-detector",
        Kind::Bully,
        12,
        "Bully, a wrong suspicion: 3 believes 4 dead and leads at once; both have a thick line.",
    ),
    ("timeout too short", Kind::Bully, 24, "Bully, a timeout shorter than a round trip: silence is taken for death."),
    ("would-be leader dies", Kind::Ring, 24, "Ring, the would-be leader dies: Election 4 goes round for ever."),
];

/// A table of the steps that changed a view.
fn record(caption: &str, recording: &Recording, page: &mut Page) {
    let mut rows = Vec::new();
    let mut before = None;
    for step in recording.steps.iter().filter(|step| !step.kind.is_sending()) {
        if before != Some(&step.views) {
            let (what, views) = (recording.describe(step), step.views_summary(&recording.names));
            rows.push(vec![format!("{:.3} ms", step.at as f64 / 1e6), what, views]);
        }
        before = Some(&step.views);
    }
    page.table(caption, &["when", "what", "who believes in whom"], &rows);
}

fn quality(comparison: &Comparison, page: &mut Page) {
    page.section("quality", "How good the leader is");
    page.text(
        "The mean request latency of the elected leader by the paper's formula, divided by the least that any living server \
         would give, after the crash of p5 under an even load. Ring, bully and fast leader election go by the highest id here, \
         since all histories are alike.",
    );
    let head = ["algorithm", "d1: leader", "times best", "d2: leader", "times best", "d3: leader", "times best"];
    let row = |kind: Kind| -> Vec<String> {
        let found = |name: &str| {
            let found = comparison.qualities.iter().find(|quality| quality.kind == kind && quality.topology == name);
            found.map_or([String::new(), String::new()], |found| [elected(found), format!("{:.2}", found.ratio())])
        };
        [kind.name().to_owned()].into_iter().chain(TOPOLOGIES.iter().flat_map(|name| found(name))).collect()
    };
    let rows: Vec<Vec<String>> = Kind::ALL.map(row).into();
    page.table("Leaders", &head, &rows);
}
