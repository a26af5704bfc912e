//! The question that the paper leaves open: does `recovery` pick the server that recovers fastest, in any deployment?

use super::super::figures::Figure;
use super::super::question::{Answer, Question};
use super::super::rows::ms;
use super::super::study::{AnswerSummary, NEAR};
use super::Report;
use crate::report::chart::{Axes, Panel, Series};

impl Report<'_> {
    pub(super) fn open_question(&mut self, answered: Option<AnswerSummary>) {
        self.page.section("open", "The open question: who recovers fastest, anywhere?");
        let scale = &self.options.scale;
        self.page.text(&format!(
            "The paper asks for an oracle that picks the server under which an ensemble serves again soonest. Ours goes through \
             what the agreement will do, with what it has measured. Here it is asked in the paper's deployments and in {} \
             random ones: 3 to 7 servers at 2 to 5 sites, round trips log-uniform from 0.2 to 300 ms, lines log-uniform from \
             10 Mbit/s to 10 Gbit/s, 1 to N−1 servers behind by up to 1 GB, log-uniform; every round trip and every bandwidth \
             measured wrongly by up to 10 %. The server with the highest id, which led, is gone. Then every survivor is made to \
             lead in the simulator, on the production code, and the fastest is found by running, not by a formula. The time is \
             that from “I lead” to the first write committed. Seeds of the cases: {} and on.",
            scale.questions,
            scale.seeds.first().copied().unwrap_or(1).wrapping_mul(1_000_000),
        ));
        let Some(answered) = answered else { return };
        let line = |what: &str, (within, of): (usize, usize)| {
            let share = 100.0 * within as f64 / of.max(1) as f64;
            vec![what.to_owned(), of.to_string(), within.to_string(), format!("{share:.1} %")]
        };
        let (all, decided) = (answered.all, answered.decided);
        let close = (all.0 - decided.0, all.1 - decided.1);
        self.page.table(
            "In how many cases the leader by `recovery` is within 5 % of the fastest",
            &["cases", "of them", "within 5 %", "share"],
            &[
                line("all", all),
                line("decided: the second takes at least 5 % longer", decided),
                line("close: the second is within 5 %", close),
            ],
        );
        self.predictions();
        self.regrets_of_recovery();
        self.bad_choices();
    }

    /// A chart of the predicted against the measured time for the chosen servers.
    fn predictions(&mut self) {
        let point = |(_, answer): &(Question, Answer)| {
            let times = answer.times[&answer.chosen];
            // Both axes are logarithmic, since times range from a millisecond to minutes.
            Some((magnitude(times.predicted?), magnitude(times.measured)))
        };
        let points: Vec<(f64, f64)> = self.study.questions.iter().filter_map(point).collect();
        let axes = Axes { x: "foreseen: 0 is 1 ms, 1 is 10 ms, 2 is 100 ms …", y: "measured, likewise", events: &[] };
        let svg = Panel::points("", axes, &[Series::new("a case", points)])
            .svg("The recovery time that the oracle foresees for its choice, against the run");
        self.draw(
            Figure::Open,
            "open",
            svg,
            "What the oracle foresees for the leader that it picks, and what happened.",
        );
    }

    fn regrets_of_recovery(&mut self) {
        let mut regrets: Vec<f64> = self.study.questions.iter().map(|(_, answer)| 100.0 * answer.regret()).collect();
        regrets.sort_by(f64::total_cmp);
        let share = |limit: f64| {
            100.0 * regrets.iter().filter(|regret| **regret <= limit).count() as f64 / regrets.len().max(1) as f64
        };
        let points = (0..=20).map(|step| f64::from(step) * 2.5).map(|limit| (limit, share(limit))).collect();
        let axes = Axes { x: "slower than the fastest by at most, in %", y: "cases in %", events: &[] };
        let svg = Panel::lines("", axes, &[Series::new("recovery", points)])
            .svg("In how many cases the leader by recovery is at most so much slower than the fastest");
        self.draw(Figure::Open, "open-regret", svg, "How much slower than the fastest the picked leader is.");
    }

    /// A table of all cases in which the choice was bad.
    fn bad_choices(&mut self) {
        let mut rest: Vec<&(Question, Answer)> =
            self.study.questions.iter().filter(|(_, answer)| answer.regret() > NEAR).collect();
        rest.sort_by(|(_, a), (_, b)| b.regret().total_cmp(&a.regret()));
        let line = |(question, answer): &&(Question, Answer)| {
            let (chosen, best) = (answer.chosen, answer.best());
            let time = |id: u64| {
                let times = answer.times[&id];
                let predicted = times.predicted.map_or_else(|| "?".to_owned(), |ns| format!("{:.1}", ms(ns)));
                format!("p{id} {:.1} ({predicted})", ms(times.measured))
            };
            vec![
                question.name.clone(),
                question.topology.servers().count().to_string(),
                format!("{:.1}", question.longest_ms()),
                format!("{:.3}", question.backlog() as f64 / f64::from(1 << 20)),
                time(chosen),
                time(best),
                format!("{:+.0} %", 100.0 * answer.regret()),
            ]
        };
        let rows: Vec<Vec<String>> = rest.iter().map(line).collect();
        self.page.table(
            "The rest: cases in which it picked one that takes over 5 % longer. Times in ms, in brackets what it foresaw",
            &["case", "servers", "longest round trip ms", "backlog MB", "picked", "fastest", "slower by"],
            &rows,
        );
    }
}

/// The decimal logarithm of a time in milliseconds.
fn magnitude(ns: u64) -> f64 {
    let mut value = ms(ns).max(1e-3);
    let mut tens = 0.0;
    while value >= 10.0 {
        (value, tens) = (value / 10.0, tens + 1.0);
    }
    while value < 1.0 {
        (value, tens) = (value * 10.0, tens - 1.0);
    }
    // The fraction bit by bit, by squaring, which gives the same result on every machine.
    let mut digit = 0.5;
    for _ in 0..20 {
        value *= value;
        if value >= 10.0 {
            (value, tens) = (value / 10.0, tens + digit);
        }
        digit /= 2.0;
    }
    tens
}
