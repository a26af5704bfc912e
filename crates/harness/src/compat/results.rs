//! Test results: parsed from the lines of our pytest plugin or of Rust's test harness, and compared between two
//! products.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Failure;

/// The result of each test, by its name.
pub(super) type Results = BTreeMap<String, TestResult>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TestResult {
    pub(super) outcome: Outcome,
    /// The last line of a failure, or the reason of a skip.
    pub(super) why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// Parses one line of JSON for each test, as the pytest plugin writes it.
pub(super) fn read_json(text: &str) -> Result<Results, Failure> {
    let lines = text.lines().filter(|line| !line.is_empty());
    let pairs = lines.map(|line| {
        let line: Line = serde_json::from_str(line)
            .map_err(|why| Failure::Check(format!("the plugin wrote a line that is no result ({why}): {line}")))?;
        Ok((line.test, TestResult { outcome: line.outcome, why: line.why }))
    });
    pairs.collect()
}

/// Parses the lines `test NAME ... ok` of a test program in Rust.
pub(super) fn read_rust(text: &str) -> Results {
    let lines = text.lines().filter_map(|line| line.strip_prefix("test ")?.rsplit_once(" ... "));
    let pairs = lines.filter_map(|(name, end)| {
        let outcome = match end.split(',').next()? {
            "ok" => Outcome::Passed,
            "FAILED" => Outcome::Failed,
            "ignored" => Outcome::Skipped,
            _ => return None,
        };
        // The expectation is not part of the name.
        let name = name.trim_end_matches(" - should panic");
        Some((name.to_owned(), TestResult { outcome, why: panic_message(name, text) }))
    });
    pairs.collect()
}

/// The panic message of a failed test in Rust.
fn panic_message(name: &str, text: &str) -> String {
    let after = text.split_once(&format!("---- {name} stdout ----\n")).map_or("", |(_, after)| after);
    let output = after.split("\n---- ").next().unwrap_or_default();
    let mut lines = output.lines().skip_while(|line| !line.contains("panicked at"));
    let place = lines.next().and_then(|line| line.split_once("panicked at ")).map_or("", |(_, place)| place);
    format!("{place} {}", lines.next().unwrap_or_default()).trim().to_owned()
}

#[derive(Deserialize)]
struct Line {
    test: String,
    outcome: Outcome,
    why: String,
}

/// The tests by their results on Apache and on Pole.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) pass_on_both: Vec<String>,
    pub(super) fail_on_both: Vec<String>,
    /// Run again before they count as lost.
    pub(super) pass_on_apache_only: Vec<String>,
    pub(super) pass_on_pole_only: Vec<String>,
    /// Left out by our list, or by the test itself on both.
    pub(super) skipped: Vec<String>,
}

/// Classifies the tests that ran on Apache. A test that Pole's run did not reach counts as failed there.
pub(super) fn compare(apache: &Results, pole: &Results) -> Comparison {
    let mut sorted = Comparison::default();
    for (test, on_apache) in apache {
        let on_pole = pole.get(test).map_or(Outcome::Failed, |ended| ended.outcome);
        let list = match (on_apache.outcome, on_pole) {
            (Outcome::Passed, Outcome::Passed) => &mut sorted.pass_on_both,
            (Outcome::Passed, Outcome::Failed | Outcome::Skipped) => &mut sorted.pass_on_apache_only,
            (Outcome::Failed | Outcome::Skipped, Outcome::Passed) => &mut sorted.pass_on_pole_only,
            (Outcome::Skipped, Outcome::Skipped) => &mut sorted.skipped,
            (Outcome::Failed, Outcome::Failed | Outcome::Skipped) | (Outcome::Skipped, Outcome::Failed) => {
                &mut sorted.fail_on_both
            }
        };
        list.push(test.clone());
    }
    sorted
}

/// Whether a test that once failed on Pole only counts as lost, from the reruns alone on an idle ensemble. One more
/// failure is enough, unless Apache fails too: then the test is flaky.
pub(super) fn is_lost(reruns_on_apache: &[Outcome], reruns_on_pole: &[Outcome]) -> bool {
    let passes = |outcome: &Outcome| *outcome == Outcome::Passed;
    reruns_on_apache.iter().all(passes) && !reruns_on_pole.iter().all(passes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(list: &[(&str, Outcome)]) -> Results {
        let ended = |outcome| TestResult { outcome, why: String::new() };
        list.iter().map(|(name, outcome)| ((*name).to_owned(), ended(*outcome))).collect()
    }

    #[test]
    fn lines_of_the_plugin_are_read() {
        let text = r#"{"test": "a::b", "outcome": "failed", "seconds": 1.5, "why": "AssertionError"}"#;
        let ended = TestResult { outcome: Outcome::Failed, why: "AssertionError".to_owned() };
        assert_eq!(read_json(text).unwrap()["a::b"], ended);
        assert!(read_json("{").is_err());
    }

    #[test]
    fn lines_of_rusts_tests_are_read() {
        let text = "running 4 tests\ntest a::b ... ok\ntest c - should panic ... ok\ntest d ... FAILED\ntest e ... ignored, slow\n\n\
            failures:\n\n---- d stdout ----\nsome log\nthread 'd' panicked at tests/x.rs:7:9:\nit is 3\nnote: more\n\n";
        let results = read_rust(text);
        let outcomes: Vec<_> = results.iter().map(|(name, ended)| (name.as_str(), ended.outcome)).collect();
        let expected =
            [("a::b", Outcome::Passed), ("c", Outcome::Passed), ("d", Outcome::Failed), ("e", Outcome::Skipped)];
        assert_eq!(outcomes, expected);
        assert_eq!(results["d"].why, "tests/x.rs:7:9: it is 3");
    }

    #[test]
    fn a_test_that_never_ran_on_pole_passes_on_apache_only() {
        let apache = results(&[("ran", Outcome::Passed), ("cut off", Outcome::Passed)]);
        let pole = results(&[("ran", Outcome::Passed)]);
        let sorted = compare(&apache, &pole);
        assert_eq!(sorted.pass_on_both, ["ran"]);
        assert_eq!(sorted.pass_on_apache_only, ["cut off"]);
    }

    #[test]
    fn a_test_that_skips_itself_on_pole_does_not_pass_there() {
        let sorted = compare(&results(&[("a", Outcome::Passed)]), &results(&[("a", Outcome::Skipped)]));
        assert_eq!(sorted.pass_on_apache_only, ["a"]);
    }

    #[test]
    fn a_test_that_fails_on_both_is_not_lost() {
        let apache = results(&[("a", Outcome::Failed), ("b", Outcome::Skipped), ("c", Outcome::Failed)]);
        let pole = results(&[("a", Outcome::Failed), ("b", Outcome::Skipped), ("c", Outcome::Passed)]);
        let sorted = compare(&apache, &pole);
        assert_eq!(sorted.fail_on_both, ["a"]);
        assert_eq!(sorted.skipped, ["b"]);
        assert_eq!(sorted.pass_on_pole_only, ["c"]);
    }

    #[test]
    fn a_second_failure_is_a_loss_unless_apache_fails_too() {
        let (ok, bad) = (Outcome::Passed, Outcome::Failed);
        assert!(is_lost(&[ok, ok], &[ok, bad]));
        assert!(!is_lost(&[ok, ok], &[ok, ok]));
        assert!(!is_lost(&[ok, bad], &[bad, bad]));
    }
}
