//! The simulator of `pole-elect` as a program.
//!
//! ```text
//! elect-sim --seeds 2000 [--first 1]     many seeds; the last line is `N passed, M failed`
//! elect-sim --seed 7 --trace             one seed, step by step
//! elect-sim --large 10000                the cost of many candidates, against first come
//! ```

use std::process::ExitCode;
use std::time::Instant;

use pole_elect::Strategy;
use pole_elect::sim::{Cost, Large, large, run};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (mut seeds, mut first, mut seed, mut trace, mut candidates) = (200, 1, None, false, None);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|text| text.parse::<u64>().ok());
        let known = match arg.as_str() {
            "--seeds" => number().map(|got| seeds = got),
            "--first" => number().map(|got| first = got),
            "--seed" => number().map(|got| seed = Some(got)),
            "--large" => number().map(|got| candidates = Some(got)),
            "--trace" => {
                trace = true;
                Some(())
            }
            _ => None,
        };
        if known.is_none() {
            eprintln!("elect-sim: {arg}: expected --seeds N, --first N, --seed N, --trace or --large N");
            return ExitCode::from(2);
        }
    }
    let passed = match (candidates, seed) {
        (Some(candidates), _) => compare(candidates as usize),
        (None, Some(seed)) => one(seed, trace),
        (None, None) => many(first, seeds),
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(seed: u64, trace: bool) -> bool {
    let outcome = run(seed, trace);
    print!("{}", outcome.trace);
    println!("seed {seed}: {}", outcome.violation.as_deref().unwrap_or("passed"));
    outcome.violation.is_none()
}

fn many(first: u64, seeds: u64) -> bool {
    let begin = Instant::now();
    let (mut failed, mut terms, mut faults, mut operations, mut seconds) = (0, 0, 0, 0, 0);
    for seed in first..first + seeds {
        let outcome = run(seed, false);
        if let Some(violation) = &outcome.violation {
            failed += 1;
            println!("seed {seed} failed {violation}; replay: elect-sim --seed {seed} --trace");
        }
        terms += outcome.terms;
        faults += outcome.faults;
        operations += outcome.operations;
        seconds += outcome.seconds;
        let done = seed - first + 1;
        if done.is_multiple_of(500) {
            println!("{done} seeds, {failed} failed, {:.0} s", begin.elapsed().as_secs_f64());
        }
    }
    let real = begin.elapsed().as_secs_f64().max(0.001);
    println!("{:.1} seeds/s, {:.0} virtual s/s", seeds as f64 / real, seconds as f64 / real);
    println!("{faults} faults, {terms} terms, {operations} store operations");
    println!("{} passed, {failed} failed", seeds - failed);
    failed == 0
}

fn compare(candidates: usize) -> bool {
    let mut passed = true;
    for (name, strategy) in [("best score", Strategy::BestScore), ("first come", Strategy::FirstCome)] {
        let Large { first, rest, change, after, violation } = large(candidates, strategy, 1);
        println!("{candidates} candidates, {name}");
        line("start to the first leader", first);
        line("one minute at rest", rest);
        line("crash of the leader to the next", change);
        line("the second after that", after);
        // A lease of 10 s, and nobody can know of the crash before it has ended.
        let in_time = first.ms < 10_000 && change.ms < 20_000;
        if !in_time {
            println!("  too slow");
        }
        if let Some(violation) = &violation {
            println!("  {violation}");
        }
        passed &= violation.is_none() && in_time;
    }
    println!("{} passed, {} failed", u32::from(passed), u32::from(!passed));
    passed
}

fn line(what: &str, cost: Cost) {
    println!("  {what:32} {:>7} ms {:>9} store operations {:>9} wake-ups", cost.ms, cost.operations, cost.wake_ups);
}
