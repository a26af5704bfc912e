//! Recorded results of Apache, for runs without it.

use std::fs;
use std::path::PathBuf;

use super::results::{Outcome, Results, TestResult};
use crate::Failure;

/// A file with the result of each test on Apache.
pub(super) struct Recording {
    pub(super) path: PathBuf,
    /// Prefixes of the relevant tests; empty means all.
    pub(super) only: Vec<String>,
}

impl Recording {
    pub(super) fn write(&self, results: &Results) -> Result<(), Failure> {
        fs::write(&self.path, text(results)).map_err(|why| Failure::io("write", &self.path, &why))
    }

    /// Reads the results of the relevant tests.
    pub(super) fn read(&self) -> Result<Results, Failure> {
        let text = fs::read_to_string(&self.path).map_err(|why| Failure::io("read", &self.path, &why))?;
        let mut results = parse(&text);
        results.retain(|test, _| self.only.is_empty() || self.only.iter().any(|start| test.starts_with(start)));
        Ok(results)
    }
}

/// One line for each test, beginning with its outcome. Times are left out, so that recordings can be compared.
fn text(results: &Results) -> String {
    let word = |outcome| match outcome {
        Outcome::Passed => PASSED,
        Outcome::Failed => FAILED,
        Outcome::Skipped => SKIPPED,
    };
    results.iter().map(|(test, ended)| format!("{} {test}\n", word(ended.outcome))).collect()
}

fn parse(text: &str) -> Results {
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    let known = pairs.filter_map(|(word, test)| Some((test.to_owned(), outcome(word)?)));
    known.map(|(test, outcome)| (test, TestResult { outcome, why: String::new() })).collect()
}

fn outcome(word: &str) -> Option<Outcome> {
    match word {
        PASSED => Some(Outcome::Passed),
        FAILED => Some(Outcome::Failed),
        SKIPPED => Some(Outcome::Skipped),
        _ => None,
    }
}

const PASSED: &str = "passed";
const FAILED: &str = "failed";
const SKIPPED: &str = "skipped";

#[test]
fn a_recording_reads_back() {
    let ended = |outcome| TestResult { outcome, why: String::new() };
    let results = Results::from([
        ("kazoo/tests/test_a.py::A::test_x".to_owned(), ended(Outcome::Passed)),
        ("kazoo/tests/test_a.py::A::test_y[1 2]".to_owned(), ended(Outcome::Failed)),
        ("kazoo/tests/test_b.py::B::test_z".to_owned(), ended(Outcome::Skipped)),
    ]);
    assert_eq!(parse(&text(&results)), results);
}
