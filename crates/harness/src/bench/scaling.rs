//! Reads inside one server: the throughput of two threads compared with one.
//!
//! Runs the test `reads_scale_with_the_cores` of `pole-server` in release, and records the ratio of each of its
//! rounds. It is a test and not a benchmark of servers, because sockets and the load generator take more CPU time
//! than the reads, and would hide lock contention. Apache cannot be measured in the same way.

use super::metric::{Metric, Row};
use crate::Failure;
use crate::command::{logged, program, target_dir};

/// Runs the measurement if selected. Not while servers run: it needs two idle cores.
pub(super) fn run(rows: &[Row], record: &mut dyn FnMut(Metric, f64)) -> Result<(), Failure> {
    if !rows.contains(&Row::Scaling) {
        return Ok(());
    }
    let log = target_dir().join("bench").join("scaling.log");
    let mut cargo = program("cargo");
    cargo.args(["test", "--release", "--package", "pole-server", "--lib", TEST, "--", "--ignored", "--nocapture"]);
    let output = logged(&mut cargo, &log, None)?.output;
    // The test also fails when its best round misses the goal, which the table reports.
    let ratios = ratios(&output);
    if ratios.is_empty() {
        return Err(Failure::Check(format!("the test {TEST} printed no ratio; full output: {}", log.display())));
    }
    ratios.into_iter().for_each(|ratio| record(Metric::Scaling, ratio));
    Ok(())
}

/// The last number of each `round 1: one thread 9 reads/s, two threads 17 reads/s, 1.89 times`.
fn ratios(output: &str) -> Vec<f64> {
    let rounds = output.lines().filter(|line| line.starts_with("round "));
    rounds.filter_map(|line| line.strip_suffix(" times")?.rsplit(' ').next()?.parse().ok()).collect()
}

const TEST: &str = "reads_scale_with_the_cores";

#[test]
fn the_ratio_of_each_round_is_read() {
    let output = "running 1 test\nround 1: one thread 9 reads/s, two threads 17 reads/s, 1.89 times\n\
                  round 2: one thread 9 reads/s, two threads 16 reads/s, 1.78 times\n\
                  two threads read 1.89 times as much\ntest result: ok\n";
    assert_eq!(ratios(output), [1.89, 1.78]);
}
