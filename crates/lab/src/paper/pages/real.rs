//! The section on real servers: each run beside the formula, the simulator and the paper.

use super::super::real::{REAL_LIMIT_PERCENT, Real, RealRow, RealSummary, case_name, is_within_limit};
use super::super::rows::Agreement;
use super::super::study::Summary;
use super::{Report, stated_cells, tile};

impl Report<'_> {
    /// Adds the section, if real servers were run.
    pub(super) fn on_real_servers(&mut self, summary: &Summary) {
        let (Some(real), Some(answer)) = (&self.options.real, &summary.real) else { return };
        self.page.section("real", "On real servers");
        let tiles: String = tiles(answer).iter().map(|(good, figure, text)| tile(*good, figure, text)).collect();
        self.page.html(&format!("<ul class=\"verdict\">\n{tiles}</ul>"));
        self.page.text(&method(real));
        let each: Vec<String> = real.constants_ms.iter().map(|ms| format!("{ms:.2}")).collect();
        self.page.text(&format!(
            "The one constant for disk and processing on this machine is {:.2} ms. It is measured, not fitted to the cells \
             below: what a write took over the formula in runs of the same load on an ensemble in one place ({} ms, of which it \
             is the median). The formula plus this constant, under the leader that was elected, is what each latency is held against. The simulator has \
             its own constant. An fsync, as the servers measure it, is {:.2} ms of it; that is what their scores contain, and \
             with it winners are predicted.",
            real.constant_ms,
            each.join(", "),
            real.disk_ms,
        ));
        if answer.ties > 0 {
            self.page.text(&format!(
                "Runs in which several servers tie by the formula, and fluctuation chose another than the highest id: {}. They \
                 are marked ~.",
                answer.ties
            ));
        }
        for other in &answer.others {
            self.page.text(other);
        }
        for (name, why) in &answer.failed {
            self.page.text(&format!("The run “{name}” failed: {why}"));
        }
        let rows: Vec<Vec<String>> = real.rows(&self.study.rows).iter().map(|row| line(real, row)).collect();
        self.page.table(
            "Real servers, by the names that --case takes: latency in ms, and how far off the formula plus the constant it is. ~ a \
             tie decided by fluctuation, ≠ not the predicted winner, – not judged, since the constant is more than the formula. First \
             write: from the crash until a write that was sent after it is answered, and in round trips of the quorum",
            &["case", "winner", "after", "formula", "off", "simulated", "before", "formula", "off", "first write"],
            &rows,
        );
        self.stated_beside_real(real);
        self.page.text("The rows are in real.csv and real-sites.csv beside this page.");
        let command = format!("pole lab paper --real{}{}", real.chosen_by, self.options.repeated_by);
        self.page.html(&format!("<p class=\"command\">Again: <code>{}</code></p>", command.replace('"', "&quot;")));
    }

    fn stated_beside_real(&mut self, real: &Real) {
        let comparisons = real.paper_comparisons();
        let rows: Vec<Vec<String>> = comparisons
            .iter()
            .map(|comparison| stated_cells(comparison, comparison.formula_ms + real.constant_ms))
            .collect();
        if !rows.is_empty() {
            self.page.table(
                "Latencies that the paper states, in ms, beside real servers under the same leader, and the formula plus this \
                 machine's constant",
                &["setting", "p", "oracle", "of", "real", "formula", "paper", "deviation"],
                &rows,
            );
        }
    }
}

fn method(real: &Real) -> String {
    let seconds = |ns: u64| ns / pole_sim::SECOND;
    format!(
        "Each run is five processes `pole server` on this machine, with the links of the deployment emulated between them, and \
         clients that speak ZooKeeper's protocol to the server that they stand beside. Writes of 1 kB in open loop, {} a second \
         in all against the paper's 1000: this machine bears several ensembles at once. {} s before the process of p5 is \
         killed and {} s after; means leave out a quarter of the first and a third of the second, and the last half second of \
         both. These figures are of real time: another run differs a little.",
        10 * real.scale.load_percent,
        seconds(real.scale.before),
        seconds(real.scale.after),
    )
}

fn line(real: &Real, row: &RealRow) -> Vec<String> {
    let after = &row.row;
    let sign = match after.agreement {
        Agreement::Same => "",
        Agreement::Tie => " ~",
        Agreement::Other => " ≠",
    };
    // The formula under the elected leader, recomputed from the deviation.
    let expected = after.shown_ms() / (1.0 + after.deviation_percent / 100.0);
    vec![
        case_name(&after.case),
        format!("p{}{sign}", after.winner),
        format!("{:.1}", after.shown_ms()),
        format!("{expected:.1}"),
        format!("{:+.1} %", after.deviation_percent),
        row.simulated.map_or_else(String::new, |(winner, ms)| format!("p{winner} {ms:.1}")),
        format!("{:.1}", row.before_ms),
        format!("{:.1}", row.before_predicted_ms + real.constant_ms),
        match real.checks_before(row) {
            true => format!("{:+.1} %", row.before_deviation_percent),
            false => "–".to_owned(),
        },
        row.first_write.map_or_else(String::new, |first| format!("{:.0} ({:.1})", first.ms, first.round_trips)),
    ]
}

/// The summary tiles.
fn tiles(answer: &RealSummary) -> Vec<(bool, String, String)> {
    let mut tiles = Vec::new();
    let (agree, cells) = (answer.agree, answer.cells);
    tiles.push((agree == cells, format!("{agree} of {cells}"), "winners as the formulas predict".to_owned()));
    let worst = [("the formulas", &answer.from_formula), ("the paper's figures", &answer.from_paper)];
    for (what, worst) in worst {
        if let Some((percent, place)) = worst {
            let text = format!("largest deviation from {what}, of {REAL_LIMIT_PERCENT} % allowed: {place}");
            tiles.push((is_within_limit(*percent), format!("{:.1} %", percent.abs()), text));
        }
    }
    tiles.push((true, format!("{:.2} ms", answer.constant_ms), "this machine's constant".to_owned()));
    tiles
}
