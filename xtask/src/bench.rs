//! `cargo xtask bench`: Apache ZooKeeper and Pole side by side, and the table that compares them.
//!
//! In: how many rounds, which rows, which product. Out: the table on standard output and in `target/bench/report.md`; exit
//! code 1 if Pole misses a goal.
//! Why alternating: whatever else the machine does meets both. Only ratios of one run mean anything.
//! Holds: one product runs at a time. Each round has servers of its own, on an empty disk.
//! Not here: what is measured and how (`stage`), what is good enough (`metric`).

mod disk;
mod leader_loss;
mod metric;
mod report;
mod scaling;
mod stage;
mod tree;

use std::collections::BTreeMap;
use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};

use crate::command::target_dir;
use crate::ensemble::{Launcher, Product};
use crate::{Failure, arguments};
use metric::{Metric, Row};

/// Measures Apache ZooKeeper and Pole on this machine, one after the other, and compares.
#[derive(Debug, Parser)]
struct Options {
    /// How often each product is measured. Under five the medians mean little.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only these rows of the table.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Row>,
    /// Only one product; then nothing is compared.
    #[arg(long, value_enum, default_value = "both")]
    product: Choice,
    /// One short round, to see that everything runs. Its figures mean nothing.
    #[arg(long)]
    quick: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Choice {
    Apache,
    Pole,
    Both,
}

/// How long and how often.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Under load before anything counts, so that the JVM has compiled what it will.
    warm_up: Duration,
    /// Under load while it counts.
    window: Duration,
    /// Leaders killed in a round, one after the other. Five rounds must make twenty.
    kills: usize,
    /// Leaders frozen in a round.
    freezes: usize,
    /// Znodes of the large tree.
    znodes: u32,
    /// From ready to the look at the memory.
    settle: Duration,
}

/// What was measured, by what and whose, in the order of the rounds.
type Samples = BTreeMap<(Metric, Product), Vec<f64>>;

/// Runs the chore.
pub(crate) fn run(args: &[String]) -> Result<ExitCode, Failure> {
    let options: Options = arguments("bench", args)?;
    let products = match options.product {
        Choice::Apache => vec![Product::Apache],
        Choice::Pole => vec![Product::Pole],
        Choice::Both => vec![Product::Apache, Product::Pole],
    };
    let launchers = products.iter().map(|product| product.launcher()).collect::<Result<Vec<_>, _>>()?;
    let rows = if options.only.is_empty() { Row::value_variants().to_vec() } else { options.only };
    let (rounds, plan) = if options.quick { (1, QUICK) } else { (options.rounds, FULL) };

    let start = Instant::now();
    let mut samples = Samples::new();
    for round in 1..=rounds {
        for launcher in alternating(&launchers, round) {
            println!("round {round} of {rounds}, {}, after {:.0} s", launcher.product, start.elapsed().as_secs_f64());
            let note = &mut noting(&mut samples, launcher.product);
            stage::run(launcher, &rows, plan, note)?;
            tree::run(launcher, &rows, plan, note)?;
            leader_loss::run(launcher, &rows, plan, note)?;
        }
    }
    if products.contains(&Product::Pole) {
        // Once: it has rounds of its own.
        scaling::run(&rows, &mut noting(&mut samples, Product::Pole))?;
    }

    let report = report::Report::new(&samples, rounds, plan);
    let folder = target_dir().join("bench");
    fs::create_dir_all(&folder).map_err(|why| Failure::io("create", &folder, &why))?;
    let path = folder.join("report.md");
    fs::write(&path, report.markdown()).map_err(|why| Failure::io("write", &path, &why))?;
    println!("\n{}\nwritten to {}", report.text(), path.display());
    Ok(ExitCode::from(u8::from(report.misses() > 0)))
}

/// Tells a figure as it is measured, and keeps it.
fn noting(samples: &mut Samples, product: Product) -> impl FnMut(Metric, f64) {
    move |metric, value| {
        println!("  {:<44} {:>12} {}", metric.name(), report::figure(value), metric.unit());
        samples.entry((metric, product)).or_default().push(value);
    }
}

/// Who goes first changes from round to round: what one leaves behind in the caches of the machine meets each as often.
fn alternating(launchers: &[Launcher], round: usize) -> Vec<&Launcher> {
    let mut order: Vec<&Launcher> = launchers.iter().collect();
    if round.is_multiple_of(2) {
        order.reverse();
    }
    order
}

const FULL: Plan = Plan {
    warm_up: Duration::from_secs(5),
    window: Duration::from_secs(10),
    kills: 4,
    freezes: 1,
    znodes: 100_000,
    settle: Duration::from_secs(5),
};

const QUICK: Plan = Plan {
    warm_up: Duration::from_secs(1),
    window: Duration::from_secs(2),
    kills: 1,
    freezes: 1,
    znodes: 10_000,
    settle: Duration::from_secs(1),
};
