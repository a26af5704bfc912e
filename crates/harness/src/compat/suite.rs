//! Runs a client's own test suite on Apache and on Pole, and evaluates the differences.
//!
//! A test that passes on Apache and not on Pole is run twice more, alone, on both, before it counts as lost.
//!
//! How a suite is run is in `kazoo` and `rust`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Tally;
use super::recording::Recording;
use super::results::{self, Comparison, Outcome, Results, TestResult};
use crate::Failure;
use crate::ensemble::Product;

/// The tests of a client, against servers of one product.
pub(super) trait Suite {
    fn product(&self) -> Product;
    /// The suite and the servers, for the output.
    fn title(&self) -> String;
    /// The folder of the logs.
    fn logs(&self) -> PathBuf;
    fn run(&self) -> Result<Results, Failure>;
    fn run_alone(&self, test: &str) -> Result<Outcome, Failure>;
    /// Whether Pole must pass it although this version of Apache does not: it tests a later version, whose clients
    /// Pole supports too.
    fn is_beyond_apache(&self, _test: &str) -> bool {
        false
    }
    /// The part of a test's name that is printed.
    fn short<'a>(&self, test: &'a str) -> &'a str {
        test
    }
}

/// Runs a suite on each product and compares. Without Apache the recording is used instead.
pub(super) fn compare<S: Suite>(suites: &[S], recording: &Recording, record: bool) -> Result<Tally, Failure> {
    let of = |product| suites.iter().find(move |suite| suite.product() == product);
    let mut on_apache = None;
    if let Some(apache) = of(Product::Apache) {
        let mut ended = run(apache)?;
        retry_failures(apache, &mut ended)?;
        if record {
            recording.write(&ended)?;
        }
        on_apache = Some(ended);
    }
    let Some(pole) = of(Product::Pole) else {
        let apache = of(Product::Apache).expect("something was chosen");
        return Ok(tally_of(apache, &on_apache.expect("it was run")));
    };
    let on_pole = run(pole)?;
    let mut expected = on_apache.map_or_else(|| recording.read(), Ok)?;
    for (_, ended) in expected.iter_mut().filter(|(test, _)| pole.is_beyond_apache(test)) {
        ended.outcome = Outcome::Passed;
    }
    evaluate(&results::compare(&expected, &on_pole), &on_pole, of(Product::Apache), pole)
}

fn run(suite: &impl Suite) -> Result<Results, Failure> {
    let start = Instant::now();
    let ended = suite.run()?;
    println!("{}", line(suite, &ended, start.elapsed()));
    Ok(ended)
}

fn line(suite: &impl Suite, ended: &Results, took: Duration) -> String {
    let count = |outcome| ended.values().filter(|ended| ended.outcome == outcome).count();
    let (passed, failed, skipped) = (count(Outcome::Passed), count(Outcome::Failed), count(Outcome::Skipped));
    let (title, logs, seconds) = (suite.title(), suite.logs(), took.as_secs_f64());
    format!("{title}: {passed} passed, {failed} failed, {skipped} skipped in {seconds:.0} s; logs: {}", logs.display())
}

/// A test that failed on Apache in the full run and passes alone counts as passed, so that Pole must pass it too.
fn retry_failures(suite: &impl Suite, results: &mut Results) -> Result<(), Failure> {
    let may_pass = |test: &str, ended: &TestResult| ended.outcome == Outcome::Failed && !suite.is_beyond_apache(test);
    for (test, ended) in results.iter_mut().filter(|(test, ended)| may_pass(test, ended)) {
        if rerun(suite, test)?.iter().all(|outcome| *outcome == Outcome::Passed) {
            println!("    flaky on Apache: {} {}", suite.short(test), ended.why);
            ended.outcome = Outcome::Passed;
        }
    }
    Ok(())
}

fn rerun(suite: &impl Suite, test: &str) -> Result<Vec<Outcome>, Failure> {
    (0..RERUNS).map(|_| suite.run_alone(test)).collect()
}

/// Prints the lists, after running again the tests that differ.
fn evaluate<S: Suite>(sorted: &Comparison, ended: &Results, apache: Option<&S>, pole: &S) -> Result<Tally, Failure> {
    let mut lost = Vec::new();
    let mut flaky = Vec::new();
    let too_many = sorted.pass_on_apache_only.len() > RERUN_MAX;
    for test in &sorted.pass_on_apache_only {
        if too_many {
            lost.push(test.clone());
            continue;
        }
        let apache = apache.filter(|suite| !suite.is_beyond_apache(test));
        let reruns_on_apache = apache.map_or(Ok(Vec::new()), |suite| rerun(suite, test))?;
        let reruns_on_pole = rerun(pole, test)?;
        let list = if results::is_lost(&reruns_on_apache, &reruns_on_pole) { &mut lost } else { &mut flaky };
        list.push(test.clone());
    }
    let why = |test: &String| ended.get(test).map_or("its run was cut off", |ended: &TestResult| &ended.why).to_owned();
    let print = |title: &str, tests: &[String], why: &dyn Fn(&String) -> String| {
        if !tests.is_empty() {
            println!("  {title}: {}", tests.len());
        }
        for test in tests {
            println!("    {} {}", pole.short(test), why(test));
        }
    };
    print("passes on Apache only, or promised beyond it", &lost, &why);
    print("flaky: differs once, not again, or fails on Apache too when run alone", &flaky, &why);
    print("fails on both", &sorted.fail_on_both, &why);
    print("passes on Pole only", &sorted.pass_on_pole_only, &|_| String::new());
    print("skipped", &sorted.skipped, &why);
    let beyond = sorted.pass_on_both.iter().filter(|test| pole.is_beyond_apache(test)).count();
    println!("  passes on both: {}", sorted.pass_on_both.len() - beyond);
    if beyond > 0 {
        println!("  passes on Pole, and on later versions of Apache: {beyond}");
    }
    Ok(Tally { passed: sorted.pass_on_both.len() + flaky.len(), failed: lost.len(), not_run: sorted.skipped.len() })
}

/// The result of a run on Apache alone: nothing can be lost, but failures are printed.
fn tally_of(suite: &impl Suite, results: &Results) -> Tally {
    let of = |outcome| results.iter().filter(move |(_, ended)| ended.outcome == outcome);
    for (test, ended) in of(Outcome::Failed).chain(of(Outcome::Skipped)) {
        println!("    {:?} {} {}", ended.outcome, suite.short(test), ended.why);
    }
    Tally { passed: of(Outcome::Passed).count(), failed: 0, not_run: of(Outcome::Skipped).count() }
}

/// How often a test that differs is run again, alone.
const RERUNS: usize = 2;
/// More differences than this are not accidental, and running all of them again would take longer than the full run.
const RERUN_MAX: usize = 15;
