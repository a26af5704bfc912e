//! What the paper does not show: the regret of each oracle, and a leader that follows a wandering load.

use super::super::figures::{Figure, ORACLES};
use super::super::rows::{deviation, mean, ms};
use super::super::wander::{Wander, WanderResult};
use super::Report;
use crate::report::chart::{Axes, Panel, Series};
use pole_sim::SECOND;

impl Report<'_> {
    pub(super) fn regret(&mut self) {
        let topologies = self.options.scale.topologies;
        self.page.section("regret", "Regret: what each oracle costs on random topologies");
        self.page.text(&format!(
            "{topologies} random topologies: 3 to 7 servers at 2 to 5 sites, round trips log-uniform from 0.2 to 300 ms, random \
             loads. The server with the highest id crashes. Regret is the mean latency under the elected leader over that \
             under the best possible one, less one. The production oracles choose, from measurements with a jitter of 2 %; the \
             latencies are the formula's plus the constant for disk and processing.",
        ));
        let axes = Axes { x: "regret in %, at most", y: "topologies in %", events: &[] };
        let shares = |oracle: &&'static str| {
            let sorted = self.sorted_regrets(oracle);
            let share = |limit: f64| {
                100.0 * sorted.iter().filter(|percent| **percent <= limit).count() as f64 / sorted.len().max(1) as f64
            };
            Series::new(
                *oracle,
                (0..=10).map(|tens| f64::from(tens) * 20.0).map(|limit| (limit, share(limit))).collect(),
            )
        };
        let series: Vec<Series> = ORACLES.iter().map(shares).collect();
        let svg = Panel::lines("", axes, &series).svg("How many topologies have at most so much regret");
        self.draw(Figure::Regret, "regret", svg, "Regret: on how many topologies it is at most so much.");
        let line = |oracle: &&'static str| {
            let sorted = self.sorted_regrets(oracle);
            let at = |percent: usize| {
                sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
            };
            let best = sorted.iter().filter(|percent| **percent < 1.0).count();
            let best = 100.0 * best as f64 / sorted.len().max(1) as f64;
            let figures =
                [mean(sorted.iter().copied()), at(50), at(95), at(100)].map(|percent| format!("{percent:.1} %"));
            [vec![(*oracle).to_owned()], figures.to_vec(), vec![format!("{best:.1} %")]].concat()
        };
        let rows: Vec<Vec<String>> = ORACLES.iter().map(line).collect();
        self.page.table(
            "Regret over all topologies; the last column: how often it is below 1 %",
            &["oracle", "mean", "median", "95th percentile", "most", "best elected"],
            &rows,
        );
        self.sampled();
    }

    fn sorted_regrets(&self, oracle: &str) -> Vec<f64> {
        let of = self.study.regrets.iter().filter(|regret| regret.oracle == oracle);
        let mut sorted: Vec<f64> = of.map(|regret| regret.percent()).collect();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    fn sampled(&mut self) {
        let Some((percent, place)) = self.study.farthest_sample() else { return };
        self.page.text(&format!(
            "The first {} of them were also run in the simulator under `latency`. The measured means lie within {:.1} % of the \
             formula plus the constant ({place}).",
            self.study.sampled.len(),
            percent.abs()
        ));
        let points = self.study.sampled.iter().map(|sampled| (sampled.formula_ms, sampled.mean_ms)).collect();
        let axes = Axes { x: "formula plus the constant, in ms", y: "measured in ms", events: &[] };
        let svg = Panel::points("", axes, &[Series::new("a random topology", points)])
            .svg("Formula against run, random topologies");
        self.draw(Figure::Regret, "regret-sample", svg, "Random topologies: the formula and a run.");
        let line = |sampled: &super::super::study::SampledTopology| {
            let off = deviation(sampled.mean_ms, sampled.formula_ms);
            vec![
                sampled.seed.to_string(),
                format!("p{}", sampled.leader),
                format!("{:.1}", sampled.mean_ms),
                format!("{:.1}", sampled.formula_ms),
                format!("{off:+.1} %"),
            ]
        };
        let rows: Vec<Vec<String>> = self.study.sampled.iter().take(20).map(line).collect();
        self.page.table(
            "Random topologies that were run, means in ms",
            &["topology", "leader", "ours", "formula", "deviation"],
            &rows,
        );
    }

    pub(super) fn wander(&mut self) {
        self.page.section("wander", "A load that wanders");
        let minutes = self.options.scale.stay / SECOND / 60;
        self.page.text(&format!(
            "Two servers in America, two in Europe, one in Asia. Nearly all of the load stays {minutes} minutes at one place, then \
             moves on, as working hours do. With resignation on and its default settings (a gain of a tenth, held for 10 s, a \
             cool-down that doubles with every move of the last hour, six moves an hour at most), the leader goes after it. Both \
             runs begin with the best leader for the first place.",
        ));
        let study = self.study;
        let follows = study.wanders.iter().find(|(wander, _)| wander.resign);
        let stays = study.wanders.iter().find(|(wander, _)| !wander.resign);
        let (Some((wander, follows)), Some((_, stays))) = (follows, stays) else { return };
        let best = best_course(wander);
        let series = [
            course("the leader follows", follows),
            course("the leader stays", stays),
            Series::new("best possible, by the formula", best.clone()),
        ];
        let moves: Vec<(f64, String)> =
            follows.leaders.iter().map(|(at, id)| (*at as f64 / 60.0, format!("p{id}"))).collect();
        let events: Vec<(f64, &str)> = moves.iter().map(|(at, name)| (*at, name.as_str())).collect();
        let axes = Axes { x: "minutes", y: "mean latency in ms", events: &events };
        let svg = Panel::lines("", axes, &series).svg("Mean latency over time while the load wanders");
        self.draw(
            Figure::Wander,
            "wander",
            svg,
            "A load that wanders: mean latency over time. Dotted lines: who leads from there on.",
        );
        let best_ms = mean(wander.best_ms().into_iter());
        let line = |name: &str, run: &WanderResult| {
            let moves = run.leaders.len().saturating_sub(1);
            vec![
                name.to_owned(),
                moves.to_string(),
                format!("{:.1}", ms(run.mean_ns)),
                format!("{:+.0} %", deviation(ms(run.mean_ns), best_ms)),
                format!("{:.0}", ms(run.longest_ns)),
                run.requests.to_string(),
            ]
        };
        let best = vec![
            "best possible, by the formula".to_owned(),
            String::new(),
            format!("{best_ms:.1}"),
            String::new(),
            String::new(),
            String::new(),
        ];
        self.page.table(
            "Over the whole time",
            &["", "moves", "mean ms", "over the best", "longest ms", "requests"],
            &[line("the leader follows", follows), line("the leader stays", stays), best],
        );
    }
}

fn course(name: &str, run: &WanderResult) -> Series {
    Series::new(name, run.course.iter().map(|(at, ns)| (*at as f64 / 60.0, ms(*ns))).collect())
}

/// The best possible latency over time, as steps.
fn best_course(wander: &Wander) -> Vec<(f64, f64)> {
    let minutes = wander.stay as f64 / SECOND as f64 / 60.0;
    let steps = wander.best_ms().into_iter().enumerate();
    steps.flat_map(|(at, ms)| [(minutes * at as f64, ms), (minutes * (at + 1) as f64, ms)]).collect()
}
