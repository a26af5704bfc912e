//! `cargo xtask compat`: clients that we did not write, against Apache ZooKeeper and against Pole.
//!
//! In: the tests of kazoo and of a client in Rust, scripts for Apache's command line, programs over Curator's recipes and Apache's
//! clients in Java and C; and Apache's programs for files, on ours. Out: what differs; exit code 1 if anything works on Apache only, or if nothing could be
//! run.
//! Why: a promise to speak somebody else's protocol is tested by somebody else's clients.
//! Holds: a run without Apache is held against what was recorded from Apache (`--record`), so CI needs only Pole.
//! What cannot be run here (no Python, no Java, no network) is said, and counted in the last line.
//! Not here: starting servers (`ensemble`).

mod c;
mod cli;
mod java;
mod kazoo;
mod options;
mod programs;
mod python;
mod recording;
mod results;
mod rust;
mod servers;
mod storage;
mod suite;
mod tls;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::Failure;
use crate::command::{is_installed, program, target_dir};
use crate::ensemble::{Launcher, Product};
use options::{Options, Part};

/// Runs the parts that the arguments choose.
pub(crate) fn run(args: &[String]) -> Result<ExitCode, Failure> {
    let options = Options::parse(args)?;
    let launchers = launchers(&options)?;
    let mut all = Tally::default();
    for (part, prepare, run) in PARTS.iter().filter(|(part, ..)| options.chooses(*part)) {
        // Missing tools keep a part from being run; whatever goes wrong after that is a failure.
        if let Err(why) = prepare() {
            println!("{part:?} could not be run: {}", words(why));
            all.not_run += 1;
            continue;
        }
        for &size in options.sizes_of(*part) {
            all.add(&run(&options, size, &launchers).unwrap_or_else(|why| {
                println!("{part:?} with servers: {size} FAILED: {}", words(why));
                Tally::of(false)
            }));
        }
    }
    println!("{} passed, {} failed, {} not run", all.passed, all.failed, all.not_run);
    Ok(ExitCode::from(u8::from(all.failed > 0 || all.passed == 0)))
}

/// The servers to run. Without Apache, Pole can still be held against the recording.
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
/// Runs a part with so many servers on these products.
type Run = fn(&Options, usize, &[Launcher]) -> Result<Tally, Failure>;

const PARTS: &[(Part, Prepare, Run)] = &[
    (Part::Kazoo, kazoo::prepare, kazoo::run),
    (Part::Tls, kazoo::prepare, tls::run),
    (Part::Cli, java::prepare, cli::run),
    (Part::Curator, java::prepare, programs::curator),
    (Part::Failover, java::prepare, programs::failover),
    (Part::C, c::prepare, programs::in_c),
    (Part::Rust, rust::prepare, rust::run),
    (Part::Storage, java::prepare, storage::run),
];

fn words(why: Failure) -> String {
    match why {
        Failure::Usage(words) | Failure::Check(words) => words,
    }
}

/// How many checks ended how.
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

/// A program that the kernel ends when our thread ends, however it ends, where `setpriv` is installed. It then has the
/// process id of the program.
fn tied(name: &str) -> Command {
    if !is_installed("setpriv") {
        return program(name);
    }
    let mut command = program("setpriv");
    command.args(["--pdeathsig", "KILL", "--", name]);
    command
}

/// The words of a command whose last one, the path of a configuration, is left to whoever runs it.
fn words_before_config(command: &Command) -> Vec<String> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let mut words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    words.pop();
    words
}

/// Where tools, logs and results are kept.
fn work_dir() -> PathBuf {
    target_dir().join("compat")
}
