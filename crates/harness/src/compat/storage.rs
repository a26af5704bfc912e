//! Apache's own programs on Pole's files: its toolkit reads our log, its formatter our snapshot, its server starts on
//! both.
//!
//! Runs the tests `tools::` of `pole-storage`, which are ignored elsewhere because they need Java. Each is one check.
//! The expected content of the files is in the tests.

use super::options::Options;
use super::{Tally, java, work_dir};
use crate::Failure;
use crate::command::{logged, program};
use crate::ensemble::Launcher;

/// Runs the tests. They start no server of either product through us, so sizes and launchers do not matter.
pub(super) fn run(_options: &Options, _size: usize, _launchers: &[Launcher]) -> Result<Tally, Failure> {
    let log = work_dir().join("storage.log");
    let mut cargo = program("cargo");
    cargo.args(["test", "--package", "pole-storage", "--test", "it", "--", "--ignored", "tools::"]);
    cargo.env("ZOOKEEPER_CLASSPATH", java::class_path(java::SERVER)?);
    let finished = logged(&mut cargo, &log, None)?;
    let tests = tests(&finished.output);
    if tests.is_empty() {
        return Err(Failure::Check(format!("no test was run; full output: {}", log.display())));
    }
    let mut tally = Tally::default();
    for (name, passed) in tests {
        println!("storage {name}: {}", if passed { "ok" } else { "FAILED" });
        tally.add(&Tally::of(passed));
    }
    // A test that aborts its program has no line of its own.
    if !finished.passed() && tally.failed == 0 {
        tally.failed = 1;
    }
    if tally.failed > 0 {
        println!("    full output: {}", log.display());
    }
    Ok(tally)
}

/// The name and the result of each `test tools::name ... ok`.
fn tests(output: &str) -> Vec<(&str, bool)> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("test tools::")?.split_once(" ... "));
    lines.map(|(name, end)| (name, end == "ok")).collect()
}

#[test]
fn each_test_is_a_check() {
    let output =
        "running 2 tests\ntest tools::reads_our_log ... ok\ntest tools::starts ... FAILED\n\ntest result: FAILED.";
    assert_eq!(tests(output), [("reads_our_log", true), ("starts", false)]);
}
