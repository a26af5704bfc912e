//! `cargo xtask compat`: third-party clients against Apache ZooKeeper and against Pole.
//!
//! It runs the tests of kazoo and of a client in Rust, scripts for Apache's command line, programs with Curator's
//! recipes and with Apache's clients in Java and C, clients that authenticate by SASL, with passwords or by Kerberos,
//! Apache's file tools on Pole's files, the contract of `pole-elect` on all its stores, the move from Apache to Pole and
//! back, and whole applications. It prints the differences; the exit code is 1 if anything works on Apache only, or if
//! nothing could be run.
//!
//! A run without Apache is compared with a recording of Apache (`--record`), so CI needs only Pole. Parts that cannot
//! be run here (no Python, no Java, no network) are reported, and counted in the last line.
//!
//! Servers are started by `ensemble`.

mod apps;
mod c;
mod cli;
mod elect;
mod java;
mod kazoo;
mod kerberos;
mod moving;
mod options;
mod programs;
mod python;
mod recording;
mod results;
mod rust;
mod sasl;
mod servers;
mod storage;
mod suite;
mod tls;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::Failure;
use crate::command::target_dir;
use crate::ensemble::{Launcher, Product};
use options::{Options, Part};

pub use cli::replay as replay_cli;

/// Runs the parts that the arguments select.
pub fn run(args: &[String]) -> Result<ExitCode, Failure> {
    let options = Options::parse(args)?;
    let launchers = launchers(&options)?;
    let mut all = Tally::default();
    for (part, prepare, run) in PARTS.iter().filter(|(part, ..)| options.selects(*part)) {
        // A part with missing tools is not run. Any later error is a failure.
        if let Err(why) = prepare() {
            println!("{part:?} could not be run: {}", message(why));
            all.not_run += 1;
            continue;
        }
        for &size in options.sizes_of(*part) {
            all.add(&run(&options, size, &launchers).unwrap_or_else(|why| {
                println!("{part:?} with servers: {size} FAILED: {}", message(why));
                Tally::of(false)
            }));
        }
    }
    println!("{} passed, {} failed, {} not run", all.passed, all.failed, all.not_run);
    Ok(ExitCode::from(u8::from(all.failed > 0 || all.passed == 0)))
}

/// The servers to run. Without Apache, Pole can still be compared with the recording.
fn launchers(options: &Options) -> Result<Vec<Launcher>, Failure> {
    let mut found = Vec::new();
    for product in &options.products {
        match product.launcher() {
            Ok(launcher) => found.push(launcher),
            Err(Failure::Check(why)) if *product == Product::Apache && options.products.len() > 1 => {
                println!("Apache is not run, its recording stands for it: {why}");
            }
            Err(why) => return Err(why),
        }
    }
    Ok(found)
}

/// Finds or installs what a part needs.
type Prepare = fn() -> Result<(), Failure>;
/// Runs a part with this number of servers on these products.
type Run = fn(&Options, usize, &[Launcher]) -> Result<Tally, Failure>;

const PARTS: &[(Part, Prepare, Run)] = &[
    (Part::Kazoo, kazoo::prepare, kazoo::run),
    (Part::Tls, kazoo::prepare, tls::run),
    (Part::Cli, java::prepare, cli::run),
    (Part::Curator, java::prepare, programs::curator),
    (Part::Failover, java::prepare, programs::failover),
    (Part::C, c::prepare, programs::in_c),
    (Part::Sasl, sasl::prepare, sasl::run),
    (Part::Kerberos, kerberos::prepare, kerberos::run),
    (Part::Rust, rust::prepare, rust::run),
    (Part::Storage, java::prepare, storage::run),
    (Part::Elect, elect::prepare, elect::run),
    (Part::Move, moving::prepare, moving::run),
    (Part::Apps, apps::prepare, apps::run),
];

fn message(why: Failure) -> String {
    match why {
        Failure::Usage(text) | Failure::Check(text) => text,
    }
}

/// The number of checks by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: usize,
    /// Works on Apache only.
    failed: usize,
    /// Left out, with the reason printed.
    not_run: usize,
}

impl Tally {
    fn of(passed: bool) -> Self {
        Self { passed: usize::from(passed), failed: usize::from(!passed), not_run: 0 }
    }

    fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.not_run += other.not_run;
    }
}

/// The words of a command without the last one, the path of a configuration, which the started harness appends.
fn words_before_config(command: &Command) -> Vec<String> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let mut words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    words.pop();
    words
}

/// The folder of tools, logs and results.
fn work_dir() -> PathBuf {
    target_dir().join("compat")
}
