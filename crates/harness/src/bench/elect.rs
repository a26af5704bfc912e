//! `cargo xtask bench --only elect`: elections over a store, `pole-elect` against the libraries that others use there.
//!
//! Each pair is a store and a program: `pole-elect` on every store, and the usual library on its own store (etcd's
//! `concurrency`, Curator's `LeaderLatch`, client-go's `leaderelection`). A pair gets a new server and three candidates,
//! each a process. First the requests that reach the store while nothing happens are counted, by the store itself. Then
//! the leader is lost in three ways, and each time a new candidate takes its place. All have the same lease.
//!
//! Prints the table, and writes it to `target/bench/elect.md`. A pair whose server or program is missing is skipped by
//! name. There are no goals: the lease bounds most figures, and the table says by how much each library misses it.

mod candidates;
mod program;
mod store;

use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::report::{Summary, figure, machine};
use crate::Failure;
use crate::command::target_dir;
use crate::rng::Rng;
use candidates::{Candidates, Loss};
use program::Program;
use store::{Running, Store};

/// Durations of the measurements.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// From a change to the next measurement, besides a random part of a lease. Long enough for every library to have
    /// renewed its lease and to know the candidates.
    settle: Duration,
    /// The time in which requests are counted.
    rest: Duration,
}

/// A measured value, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Metric {
    NewLeader(Loss),
    AtRest,
}

impl Metric {
    fn name(self) -> String {
        match self {
            Self::NewLeader(loss) => format!("new leader after {} (ms)", loss.name()),
            Self::AtRest => "requests at rest (/s)".to_owned(),
        }
    }
}

type Samples = BTreeMap<(Store, Metric, Program), Vec<f64>>;

/// Measures all pairs, `rounds` times.
pub(super) fn run(rounds: usize, quick: bool) -> Result<(), Failure> {
    let plan = if quick { QUICK } else { FULL };
    let pairs = pairs();
    if pairs.is_empty() {
        return Err(Failure::Check("no store and no library to compare: see docs/benchmarks.md".to_owned()));
    }
    let start = Instant::now();
    let mut rng = Rng::new(1);
    let mut samples = Samples::new();
    for round in 1..=rounds {
        for (store, program) in alternating(&pairs, round) {
            println!("round {round} of {rounds}, {program} on {store}, after {:.0} s", start.elapsed().as_secs_f64());
            for (metric, value) in measured(store, program, plan, &mut rng)? {
                samples.entry((store, metric, program)).or_default().push(value);
            }
        }
    }
    let table = table(&samples, rounds, plan);
    let folder = target_dir().join("bench");
    fs::create_dir_all(&folder).map_err(|why| Failure::io("create", &folder, &why))?;
    let path = folder.join("elect.md");
    fs::write(&path, &table).map_err(|why| Failure::io("write", &path, &why))?;
    println!("\n{table}\nwritten to {}", path.display());
    Ok(())
}

/// The pairs that can be run here. Stores first, so that a missing server is reported once.
fn pairs() -> Vec<(Store, Program)> {
    let (mut pairs, mut skipped) = (Vec::new(), 0);
    for (store, programs) in ALL {
        if let Err(Failure::Check(why) | Failure::Usage(why)) = store.prepare() {
            println!("{store}: skipped, {why}");
            skipped += programs.len();
            continue;
        }
        for program in *programs {
            match program.prepare() {
                Ok(()) => pairs.push((*store, program)),
                Err(Failure::Check(why) | Failure::Usage(why)) => {
                    println!("{program} on {store}: skipped, {why}");
                    skipped += 1;
                }
            }
        }
    }
    println!("{} pairs are measured, {skipped} skipped", pairs.len());
    pairs
}

/// The order changes from round to round, so that the state of the machine affects all alike.
fn alternating(pairs: &[(Store, Program)], round: usize) -> Vec<(Store, Program)> {
    let mut order = pairs.to_vec();
    if round.is_multiple_of(2) {
        order.reverse();
    }
    order
}

/// The figures of one pair in one round. If the machine was too busy for a lease of this length, the pair is measured
/// again.
fn measured(store: Store, program: Program, plan: Plan, rng: &mut Rng) -> Result<Vec<(Metric, f64)>, Failure> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let mut figures = Vec::new();
        let result = measure(store, program, plan, rng, &mut |metric, value| {
            println!("  {:<44} {:>12}", metric.name(), figure(value));
            figures.push((metric, value));
        });
        match result {
            Ok(()) => return Ok(figures),
            Err(Failure::Check(why) | Failure::Usage(why)) => {
                println!("  no figures: {why}");
                last = Some(Failure::Check(why));
            }
        }
    }
    Err(last.unwrap_or_else(|| Failure::Check("nothing was measured".to_owned())))
}

fn measure(
    store: Store,
    program: Program,
    plan: Plan,
    rng: &mut Rng,
    record: &mut dyn FnMut(Metric, f64),
) -> Result<(), Failure> {
    let mut running = store.start()?;
    let mut candidates = Candidates::start(program, &running, CANDIDATES)?;
    sleep(plan.settle);
    record(Metric::AtRest, rate_at_rest(&mut running, plan.rest)?);
    for loss in [Loss::Resigned, Loss::Killed, Loss::Stopped] {
        // At a random time between two renewals.
        sleep(rng.between(Duration::ZERO, LEASE));
        let took = candidates.lose_leader(loss)?;
        record(Metric::NewLeader(loss), took.as_secs_f64() * 1e3);
        candidates.add(&running)?;
        sleep(plan.settle);
    }
    drop(candidates);
    running.done()
}

/// The requests that the store received in a second, by its own count.
fn rate_at_rest(running: &mut Running, window: Duration) -> Result<f64, Failure> {
    let (before, start) = (running.requests()?, Instant::now());
    sleep(window);
    Ok((running.requests()? - before) / start.elapsed().as_secs_f64())
}

/// The table, as Markdown: a line for each store and metric, `pole-elect` and the other library side by side.
fn table(samples: &Samples, rounds: usize, plan: Plan) -> String {
    let mut lines: Vec<(Store, Metric)> = samples.keys().map(|(store, metric, _)| (*store, *metric)).collect();
    lines.dedup();
    let mut text = "| store | what | pole-elect | the other | which |\n| --- | --- | ---: | ---: | --- |\n".to_owned();
    for (store, metric) in lines {
        let cell = |program: Program| {
            let values = samples.get(&(store, metric, program));
            values.and_then(|values| Summary::of(values)).map(Summary::text).unwrap_or_default()
        };
        let other = ALL.iter().find(|(of, _)| *of == store).map_or(Program::PoleElect, |(_, programs)| programs[1]);
        let (ours, theirs) = (cell(Program::PoleElect), cell(other));
        text += &format!("| {store} | {} | {ours} | {theirs} | {other} |\n", metric.name());
    }
    let notes = format!(
        "Rounds: {rounds}, alternating, each with a new server and {CANDIDATES} candidates; median (least to most). Lease: \
         {} s. Requests are counted for {} s.",
        LEASE.as_secs(),
        plan.rest.as_secs()
    );
    text + "\n" + &notes + "\n\n" + &machine() + "\n"
}

/// Each store with its programs, ours first.
const ALL: &[(Store, [Program; 2])] = &[
    (Store::Etcd, [Program::PoleElect, Program::Concurrency]),
    (Store::ZooKeeper, [Program::PoleElect, Program::LeaderLatch]),
    (Store::Kubernetes, [Program::PoleElect, Program::ClientGo]),
];

const CANDIDATES: usize = 3;

/// How often a pair is measured before the benchmark fails.
const ATTEMPTS: usize = 3;

/// The lease of every library. ZooKeeper grants no session shorter than 4 s with its default tick.
const LEASE: Duration = Duration::from_secs(5);

const FULL: Plan = Plan { settle: Duration::from_secs(5), rest: Duration::from_secs(10) };
const QUICK: Plan = Plan { settle: Duration::from_secs(2), rest: Duration::from_secs(3) };

#[test]
fn the_table_has_both_programs_and_what_is_missing_is_empty() {
    let metric = Metric::NewLeader(Loss::Killed);
    let samples = Samples::from([
        ((Store::Etcd, metric, Program::PoleElect), vec![4000.0, 5000.0, 4500.0]),
        ((Store::Etcd, metric, Program::Concurrency), vec![5000.0]),
        ((Store::Kubernetes, Metric::AtRest, Program::ClientGo), vec![0.5]),
    ]);
    let table = table(&samples, 3, QUICK);
    let expected = "| etcd | new leader after kill -9 (ms) | 4500 (4000 to 5000) | 5000 (5000 to 5000) | concurrency |";
    assert!(table.contains(expected), "{table}");
    assert!(table.contains("| Kubernetes | requests at rest (/s) |  | 0.50 (0.50 to 0.50) | client-go |"), "{table}");
}
