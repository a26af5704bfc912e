//! `cargo xtask bench`: compares Apache ZooKeeper and Pole on this machine.
//!
//! Prints the table, and writes it to `target/bench/report.md`, with pictures of the curves beside it. The exit code is 1
//! if Pole misses a goal. The products alternate, so that other load on the machine affects both; only ratios within one
//! run are meaningful. One product runs at a time, and each round has new servers on an empty disk.
//!
//! The measurements are in `three_servers`, `arrivals`, `tree`, `leader_loss` and `scaling`, the goals in `metric`. `elect`
//! is a benchmark of its own: `pole-elect` against other libraries. So is `growth`: how the figures change with the size.

mod arrivals;
mod disk;
mod elect;
mod growth;
mod leader_loss;
mod metric;
mod pictures;
mod report;
mod scaling;
mod three_servers;
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
    /// How often each product is measured: five times, and once for `growth`. With fewer than five rounds the medians
    /// mean little.
    #[arg(long)]
    rounds: Option<usize>,
    /// Only these rows of the table.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Row>,
    /// Only one product; then nothing is compared.
    #[arg(long, value_enum, default_value = "both")]
    product: Choice,
    /// One short round, to check that everything runs. Its figures mean nothing.
    #[arg(long)]
    quick: bool,
    /// Only these curves of `growth`.
    #[arg(long, value_enum, value_delimiter = ',')]
    curves: Vec<growth::Curve>,
    /// These sizes for every selected curve of `growth`, instead of its own.
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<u32>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Choice {
    Apache,
    Pole,
    Both,
}

/// Durations and counts of the measurements.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// The time under load before the measurement, in which the JVM compiles its hot code.
    warm_up: Duration,
    /// The time under load that is measured.
    window: Duration,
    /// Leaders killed in a round, one after the other. Five rounds make twenty.
    kills: usize,
    /// Leaders frozen in a round.
    freezes: usize,
    /// Znodes of the large tree.
    znodes: u32,
    /// The time from ready to the measurement of memory.
    settle: Duration,
}

/// The measured values by metric and product, in the order of the rounds.
type Samples = BTreeMap<(Metric, Product), Vec<f64>>;

pub fn run(args: &[String]) -> Result<ExitCode, Failure> {
    let options: Options = arguments("bench", args)?;
    let is_default = |row: &Row| !matches!(row, Row::Elect | Row::Arrivals | Row::Observers | Row::Growth);
    let all = || Row::value_variants().iter().copied().filter(is_default).collect();
    let rows: Vec<Row> = if options.only.is_empty() { all() } else { options.only };
    let (rounds, plan) = if options.quick { (1, QUICK) } else { (options.rounds.unwrap_or(ROUNDS), FULL) };
    if rows.contains(&Row::Elect) {
        elect::run(rounds, options.quick)?;
    }
    let mut code = ExitCode::SUCCESS;
    if rows.contains(&Row::Growth) {
        let products = options.product.products();
        let scope = growth::Scope { curves: options.curves, sizes: options.sizes, is_quick: options.quick };
        code = growth::run(&products, &scope, options.rounds.unwrap_or(1), plan)?;
    }
    if rows.iter().all(|row| matches!(row, Row::Elect | Row::Growth)) {
        return Ok(code);
    }
    let compared = compare(options.product, &rows, rounds, plan)?;
    Ok(if code == ExitCode::SUCCESS { compared } else { code })
}

impl Choice {
    fn products(self) -> Vec<Product> {
        match self {
            Self::Apache => vec![Product::Apache],
            Self::Pole => vec![Product::Pole],
            Self::Both => vec![Product::Apache, Product::Pole],
        }
    }
}

/// Apache ZooKeeper and Pole, round by round.
fn compare(choice: Choice, rows: &[Row], rounds: usize, plan: Plan) -> Result<ExitCode, Failure> {
    let products = choice.products();
    let launchers = products.iter().map(|product| product.launcher()).collect::<Result<Vec<_>, _>>()?;

    arrivals::calibrate(rows, plan)?;
    let start = Instant::now();
    let mut samples = Samples::new();
    for round in 1..=rounds {
        for launcher in alternating(&launchers, round) {
            println!("round {round} of {rounds}, {}, after {:.0} s", launcher.product, start.elapsed().as_secs_f64());
            let record = &mut recorder(&mut samples, launcher.product);
            three_servers::run(launcher, rows, plan, record)?;
            arrivals::run(launcher, rows, plan, record)?;
            tree::run(launcher, rows, plan, record)?;
            leader_loss::run(launcher, rows, plan, record)?;
        }
    }
    if products.contains(&Product::Pole) {
        // Run once: it has rounds of its own.
        scaling::run(rows, &mut recorder(&mut samples, Product::Pole))?;
    }

    let report = report::Report::new(&samples, rounds, plan);
    let folder = target_dir().join("bench");
    fs::create_dir_all(&folder).map_err(|why| Failure::io("create", &folder, &why))?;
    let path = folder.join("report.md");
    fs::write(&path, report.markdown()).map_err(|why| Failure::io("write", &path, &why))?;
    for (name, svg) in pictures::all(&samples) {
        let path = folder.join(name);
        fs::write(&path, svg).map_err(|why| Failure::io("write", &path, &why))?;
    }
    println!("\n{}\nwritten to {}", report.text(), path.display());
    Ok(ExitCode::from(u8::from(report.misses() > 0)))
}

/// Prints a value when it is measured, and stores it.
fn recorder(samples: &mut Samples, product: Product) -> impl FnMut(Metric, f64) {
    move |metric, value| {
        println!("  {:<44} {:>12} {}", metric.name(), report::figure(value), metric.unit());
        samples.entry((metric, product)).or_default().push(value);
    }
}

/// The order changes from round to round, so that the state of caches affects both products equally.
fn alternating(launchers: &[Launcher], round: usize) -> Vec<&Launcher> {
    let mut order: Vec<&Launcher> = launchers.iter().collect();
    if round.is_multiple_of(2) {
        order.reverse();
    }
    order
}

/// The median of fewer rounds means little.
const ROUNDS: usize = 5;

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
