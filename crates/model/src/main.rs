//! The model checker: the production election and agreement in every order of events within bounds.
//!
//! ```sh
//! cargo xtask model --minutes 2           # all configurations, one after the other
//! cargo xtask model --only agreement        # those whose names contain "agreement"
//! cargo xtask model --self-test           # a planted bug must be found
//! ```
//!
//! It prints a line for each configuration, the steps to each violation, and a last line for programs. The exit code is
//! 0, 1 for a violation (or a planted bug that was missed), or 2 for bad arguments.
//!
//! A simulator covers the orders of events that its random numbers choose; within the bounds, the model checker covers
//! all of them. There is no time (timers expire in any order), no sockets, and no snapshots, since the logs of such
//! short runs are never trimmed.
//!
//! Suggested reading order: `plan` (what is explored), then `zab` and `election` (one model each), `run` (one
//! exploration).

mod digest;
mod election;
mod live_states;
mod plan;
mod run;
mod self_test;
mod violation;
mod zab;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use run::Outcome;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(what) => {
            eprintln!("model: {what}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    // A panic of production code is a finding and is reported with the steps that lead to it.
    std::panic::set_hook(Box::new(|_| {}));
    if options.self_test { self_test::run(options.threads) } else { explore_all(&options) }
}

/// Explores one configuration after the other until the time is up.
fn explore_all(options: &Options) -> ExitCode {
    let start = Instant::now();
    let end = start + options.time;
    let (mut states, mut depth, mut complete, mut violations) = (0, 0, true, 0);
    println!(
        "{:<64} {:>11} {:>10} {:>5} {:>8} {:>7}",
        "configuration", "states", "unique", "depth", "complete", "seconds"
    );
    for configuration in plan::configurations().into_iter().filter(|one| one.name.contains(&options.only)) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            println!("{:<64} not begun: no time left", configuration.name);
            complete = false;
            continue;
        }
        let outcome = configuration.explore(left, options.threads);
        print(&configuration.name, &outcome);
        states += outcome.unique;
        depth = depth.max(outcome.depth);
        complete &= outcome.complete;
        violations += outcome.violations.len();
    }
    let seconds = start.elapsed().as_secs();
    println!("{}", plan::LEGEND);
    let complete = if complete { "yes" } else { "no" };
    println!("states={states} depth={depth} complete={complete} seconds={seconds} violations={violations}");
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn print(name: &str, outcome: &Outcome) {
    let Outcome { states, unique, depth, complete, seconds, violations } = outcome;
    let complete = if *complete { "yes" } else { "no" };
    println!("{name:<64} {states:>11} {unique:>10} {depth:>5} {complete:>8} {seconds:>7.1}");
    for (property, steps) in violations {
        println!("VIOLATION of \"{property}\", after {} steps:", steps.len() - 1);
        steps.iter().for_each(|step| println!("  {step}"));
    }
}

/// The command line arguments.
#[derive(Debug)]
struct Options {
    time: Duration,
    threads: usize,
    /// Only configurations whose name contains this text.
    only: String,
    self_test: bool,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut options = Self { time: MINUTES_DEFAULT, threads, only: String::new(), self_test: false };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--minutes" => {
                    let text = value()?;
                    let minutes = text.parse().ok().filter(|minutes: &f64| *minutes > 0.0 && *minutes < 1e6);
                    let minutes = minutes.ok_or(format!("--minutes {text}: expected a number above 0"))?;
                    options.time = Duration::from_secs_f64(minutes * 60.0);
                }
                "--threads" => {
                    let text = value()?;
                    let threads = text.parse().ok().filter(|threads| (1..=256).contains(threads));
                    options.threads = threads.ok_or(format!("--threads {text}: expected 1 to 256"))?;
                }
                "--only" => options.only = value()?,
                "--self-test" => options.self_test = true,
                _ => return Err(format!("unknown argument {arg}")),
            }
        }
        Ok(options)
    }
}

/// What CI can afford.
const MINUTES_DEFAULT: Duration = Duration::from_secs(5 * 60);

const USAGE: &str = "\
usage: model [--minutes M] [--threads N] [--only TEXT] [--self-test]

  --minutes M    time limit; complete=no if the exploration is not finished by then (default 5)
  --threads N    number of threads (default: all processors)
  --only TEXT    only configurations whose names contain TEXT
  --self-test    plant bugs in the harness and check that each is found";
