//! Figures 8a and 8b: recovery times, and whether the estimate of `recovery` is right.

use super::super::figures::Figure;
use super::super::rows::{RecoveryRow, mean};
use super::Report;
use crate::report::chart::{Axes, Panel, Series};

impl Report<'_> {
    pub(super) fn recovery_in_two(&mut self) {
        self.page.section("figure-8a", "Figure 8a: recovery in two data centres");
        self.page.text(
            "p1 was down while 0 to 250 MB were written and is back just before p5 crashes. `history` elects p4, which lacks \
             nothing; `rotating` elects p1, which must first get everything, from the quickest server that has it. The \
             time is that from the choice of the leader to its first commit. p1 is brought level as it starts, so some of its \
             backlog has come in by the crash.",
        );
        let mut series = Vec::new();
        for rtt_us in &self.options.scale.round_trips_us {
            let rtt = *rtt_us as f64 / 1e3;
            series.push(self.over_backlogs(
                Figure::F8a,
                Some(rtt),
                |row| row.leader == 1,
                format!("p1, round trip {rtt} ms"),
            ));
        }
        series.push(self.over_backlogs(
            Figure::F8a,
            self.longest_round_trip(),
            |row| row.leader == 4,
            "p4, longest round trip".to_owned(),
        ));
        series.push(self.over_backlogs(
            Figure::F8a,
            self.longest_round_trip(),
            |row| row.oracle == "recovery",
            "as recovery elects".to_owned(),
        ));
        let axes = Axes { x: "backlog of p1 in MB", y: "recovery in ms", events: &[] };
        let svg = Panel::lines("", axes, &series).svg("Recovery time against the backlog of p1, two data centres");
        self.draw(Figure::F8a, "8a", svg, "Figure 8a: recovery time against the backlog of p1.");
        self.recovery_table(Figure::F8a, &["history", "rotating", "recovery"]);
        self.estimates(Figure::F8a);
    }

    fn longest_round_trip(&self) -> Option<f64> {
        self.options.scale.round_trips_us.iter().max().map(|us| *us as f64 / 1e3)
    }

    pub(super) fn recovery_in_three(&mut self) {
        self.page.section("figure-8b", "Figure 8b: recovery in three data centres");
        self.page.text(
            "D1 to D2 77.06 ms, D2 to D3 20.75 ms, D1 to D3 9.88 ms; both servers of D2 are outdated. p1 and p4 have the same \
             history, but p1 is closer to those who must be brought level. `history` takes the higher id, p4. The paper \
             leaves open which oracle would take p1; `recovery` does.",
        );
        let led = |leader: u64| {
            self.over_backlogs(Figure::F8b, None, |row| row.leader == leader, format!("leader p{leader}"))
        };
        let mut series: Vec<Series> = [1, 2, 3, 4].map(led).to_vec();
        series.push(self.over_backlogs(
            Figure::F8b,
            None,
            |row| row.oracle == "recovery",
            "as recovery elects".to_owned(),
        ));
        let axes = Axes { x: "backlog of D2 in MB", y: "recovery in ms", events: &[] };
        let svg = Panel::lines("", axes, &series).svg("Recovery time against the backlog of D2, three data centres");
        self.draw(Figure::F8b, "8b", svg, "Figure 8b: recovery time under each possible leader.");
        self.recovery_table(Figure::F8b, &["history", "rotating", "latency", "recovery"]);
        self.estimates(Figure::F8b);
    }

    fn over_backlogs(
        &self,
        figure: Figure,
        rtt_ms: Option<f64>,
        counts: impl Fn(&RecoveryRow) -> bool,
        name: String,
    ) -> Series {
        let of = |backlog: u64| {
            let rows = self.study.recoveries.iter().filter(|row| {
                row.figure == figure
                    && counts(row)
                    && row.backlog_mb == backlog
                    && rtt_ms.is_none_or(|rtt| row.rtt_ms == rtt)
            });
            mean(rows.map(|row| row.recovery_ms))
        };
        let points = self.options.scale.backlogs_mb.iter().map(|backlog| (*backlog as f64, of(*backlog)));
        Series::new(name, points.filter(|(_, ms)| ms.is_finite()).collect())
    }

    /// A table with a row per setting and a column per oracle: the leader, the time and the estimate.
    fn recovery_table(&mut self, figure: Figure, oracles: &[&str]) {
        let first_seed = self.options.scale.seeds.first().copied();
        let of = |row: &&RecoveryRow| row.figure == figure && Some(row.seed) == first_seed;
        let rows: Vec<&RecoveryRow> = self.study.recoveries.iter().filter(of).collect();
        let mut places: Vec<(f64, u64)> = rows.iter().map(|row| (row.rtt_ms, row.backlog_mb)).collect();
        places.dedup();
        let line = |(rtt_ms, backlog_mb): &(f64, u64)| {
            let here = || rows.iter().filter(|row| row.rtt_ms == *rtt_ms && row.backlog_mb == *backlog_mb);
            let cell = |row: &&RecoveryRow| format!("p{} {:.0} ({:.0})", row.leader, row.recovery_ms, row.predicted_ms);
            let by = |oracle: &&str| here().find(|row| row.oracle == *oracle).map(cell).unwrap_or_default();
            let fastest = here().next().map(|row| format!("p{} {:.0}", row.best_leader, row.best_ms));
            let mut line = vec![rtt_ms.to_string(), backlog_mb.to_string()];
            line.extend(oracles.iter().map(by));
            line.extend(fastest);
            line
        };
        let lines: Vec<Vec<String>> = places.iter().map(line).collect();
        let head: Vec<&str> =
            ["D1–D2 ms", "backlog MB"].into_iter().chain(oracles.iter().copied()).chain(["fastest"]).collect();
        self.page.table(
            "Who led, recovery in ms, and in brackets the estimate. Fastest: the least median over all runs in which a server led.",
            &head,
            &lines,
        );
    }

    /// A chart of the estimated against the measured time, by leader.
    fn estimates(&mut self, figure: Figure) {
        let of = |leader: u64| {
            let rows = self.study.recoveries.iter().filter(|row| row.figure == figure && row.leader == leader);
            Series::new(format!("p{leader} led"), rows.map(|row| (row.predicted_ms, row.recovery_ms)).collect())
        };
        let series: Vec<Series> = [1, 2, 3, 4].map(of).into_iter().filter(|series| !series.points.is_empty()).collect();
        let axes = Axes { x: "estimate in ms", y: "measured in ms", events: &[] };
        let svg = Panel::points("", axes, &series).svg("Estimated against measured recovery time");
        let name = figure.name();
        let caption = format!("What the oracle `recovery` foresees, and what happened, figure {name}.");
        self.draw(figure, &format!("{name}-estimate"), svg, &caption);
    }
}
