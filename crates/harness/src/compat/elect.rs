//! The contract of `pole-elect`, with all its cases, on every store whose server is found here.
//!
//! `cargo test` runs the essential cases only. Which servers are found, and how, is said in `docs/elect-stores.md`. The
//! test starts them itself, so the launchers are not used, but the binary of Pole that was built for them is.

use std::env;
use std::time::Duration;

use super::options::Options;
use super::{Tally, work_dir};
use crate::Failure;
use crate::command::{logged, program, target_dir};
use crate::ensemble::Launcher;

/// The test says by itself which servers are missing.
pub(super) fn prepare() -> Result<(), Failure> {
    Ok(())
}

pub(super) fn run(_options: &Options, _size: usize, _launchers: &[Launcher]) -> Result<Tally, Failure> {
    let mut cargo = program("cargo");
    cargo.args(["test", "--package", "pole-elect", "--test", "contract"]).env("POLE_ELECT_CONTRACT", "full");
    let pole = target_dir().join("release/pole");
    if env::var_os("POLE_BIN").is_none() && pole.is_file() {
        cargo.env("POLE_BIN", pole);
    }
    let log = work_dir().join("elect.log");
    let done = logged(&mut cargo, &log, Some(LIMIT))?;
    for line in done.output.lines().filter(|line| line.contains(": skipped, ") || line.contains(" passed, ")) {
        println!("elect: {line}");
    }
    if !done.passed() {
        println!("elect FAILED; full output: {}", log.display());
    }
    Ok(tally(&done.output, done.passed()))
}

/// A store whose server is missing passes its test, and says that it was skipped.
fn tally(output: &str, passed: bool) -> Tally {
    let count = |wanted: &dyn Fn(&str) -> bool| output.lines().filter(|line| wanted(line)).count();
    let not_run = count(&|line| line.ends_with(", all skipped"));
    let ok = count(&|line| line.starts_with("test ") && line.ends_with(" ok"));
    Tally { passed: ok.saturating_sub(not_run), failed: usize::from(!passed), not_run }
}

/// Building the test takes minutes, and the slowest store a few.
const LIMIT: Duration = Duration::from_secs(1800);

#[test]
fn skipped_stores_are_not_passed() {
    let output = "consul: skipped, no consul\nconsul: 0 passed, 0 failed, all skipped\n\
                  test consul ... ok\netcd: 31 passed, 0 failed, 0 skipped in 80.1 s\ntest etcd   ... ok\n";
    assert_eq!(tally(output, true), Tally { passed: 1, failed: 0, not_run: 1 });
    assert_eq!(tally(output, false).failed, 1);
}
