//! Who noticed a mutant, read from what the scripts and the simulator printed.

use std::fmt;

use crate::Failure;
use crate::command::Finished;

/// What became of one mutant.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// These noticed: script names, `seed 17`, or a hang.
    Found(Vec<String>),
    /// Nothing noticed: the protection is not tested.
    NotFound,
    /// The code has moved on; the patch must follow. With what git said.
    DoesNotApply(String),
    /// A mutant that does not build tests nothing. With the end of what the compiler said.
    DoesNotCompile(String),
}

impl Verdict {
    /// Whether somebody noticed.
    pub(super) fn is_found(&self) -> bool {
        matches!(self, Self::Found(_))
    }

    /// Joins what the scripts noticed with what the seeds noticed.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Found(mut first), Self::Found(second)) => {
                first.extend(second);
                Self::Found(first)
            }
            (Self::NotFound, verdict) | (verdict, _) => verdict,
        }
    }

    /// What git or the compiler said, if that is the news.
    pub(super) fn details(&self) -> &str {
        match self {
            Self::DoesNotApply(said) | Self::DoesNotCompile(said) => said,
            Self::Found(_) | Self::NotFound => "",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found(by) => f.write_str(&shown(by)),
            Self::NotFound => f.write_str("NOT FOUND"),
            Self::DoesNotApply(_) => f.write_str("DOES NOT APPLY"),
            Self::DoesNotCompile(_) => f.write_str("DOES NOT COMPILE"),
        }
    }
}

/// The first scripts, how many more there are, and the seed in any case.
fn shown(by: &[String]) -> String {
    let (seeds, scripts): (Vec<&str>, Vec<&str>) =
        by.iter().map(String::as_str).partition(|name| name.starts_with("seed"));
    let mut shown = scripts.iter().take(SHOWN).copied().collect::<Vec<_>>().join(" ");
    if scripts.len() > SHOWN {
        shown.push_str(&format!(" and {} more", scripts.len() - SHOWN));
    }
    for seed in seeds {
        shown.push_str(if shown.is_empty() { "" } else { ", " });
        shown.push_str(seed);
    }
    shown
}

/// What a run of the script tests says.
pub(super) fn of_scripts(run: &Finished) -> Verdict {
    if run.passed() {
        return Verdict::NotFound;
    }
    let mut names = failed_tests(&run.output);
    if run.status.is_none() {
        names.push("a script that hangs".to_owned());
    }
    if names.is_empty() {
        // Not an assertion but the end of the whole process, such as a stack overflow.
        return Verdict::Found(vec!["the end of the script tests".to_owned()]);
    }
    Verdict::Found(names)
}

/// What a run of the simulator says. Bad arguments and the like are no find but an error of this chore.
pub(super) fn of_seeds(run: &Finished) -> Result<Verdict, Failure> {
    if run.passed() {
        return Ok(Verdict::NotFound);
    }
    let Some(status) = run.status else { return Ok(Verdict::Found(vec!["seeds that hang".to_owned()])) };
    match failed_seed(&run.output) {
        Some(seed) => Ok(Verdict::Found(vec![format!("seed {seed}")])),
        None if status.code() == Some(BAD_ARGUMENTS) => {
            Err(Failure::Check(format!("the simulator refused its arguments:\n{}", run.output)))
        }
        None => Ok(Verdict::Found(vec!["the end of the simulator".to_owned()])),
    }
}

/// The names in `test NAME ... FAILED`, without the path of their module.
fn failed_tests(output: &str) -> Vec<String> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    // Padded to the longest name.
    lines.map(|name| name.rsplit("::").next().unwrap_or(name).trim_end().to_owned()).collect()
}

/// The seed in the first line that tells how to replay one: `… --seed 17 --trace`.
fn failed_seed(output: &str) -> Option<u64> {
    let (_, rest) = output.split_once("--seed ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Names in one line of the table.
const SHOWN: usize = 3;
/// The exit code of every program of ours for arguments that it does not understand.
const BAD_ARGUMENTS: i32 = 2;

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;
    use std::time::Duration;

    use super::*;

    fn ended(code: i32, output: &str) -> Finished {
        let status = Some(ExitStatus::from_raw(code << 8));
        Finished { status, output: output.to_owned(), took: Duration::ZERO }
    }

    fn found(by: &[&str]) -> Verdict {
        Verdict::Found(by.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn failing_scripts_are_named() {
        let output = "test 01-early-ack  ... FAILED\ntest 02-fine ... ok\ntest scripts::03-x ... FAILED\n";
        assert_eq!(of_scripts(&ended(101, output)), found(&["01-early-ack", "03-x"]));
        assert_eq!(of_scripts(&ended(0, "test 01-early-ack ... ok\n")), Verdict::NotFound);
        assert!(of_scripts(&ended(101, "stack overflow")).is_found());
    }

    #[test]
    fn the_failing_seed_is_read_from_the_line_that_replays_it() {
        let output = "seed 9 failed\nreplay: cargo xtask sim --seed 9 --trace\n8 passed, 1 failed\n";
        assert_eq!(of_seeds(&ended(1, output)).unwrap(), found(&["seed 9"]));
        assert_eq!(of_seeds(&ended(0, "500 passed, 0 failed\n")).unwrap(), Verdict::NotFound);
        assert!(of_seeds(&ended(2, "unknown argument")).is_err());
        assert!(of_seeds(&ended(101, "panicked")).unwrap().is_found());
    }

    #[test]
    fn what_hangs_is_noticed() {
        let hung = Finished { status: None, output: String::new(), took: Duration::ZERO };
        assert!(of_scripts(&hung).is_found());
        assert!(of_seeds(&hung).unwrap().is_found());
    }

    #[test]
    fn scripts_and_seeds_are_joined() {
        assert_eq!(found(&["a"]).and(found(&["seed 1"])), found(&["a", "seed 1"]));
        assert_eq!(found(&["a"]).and(Verdict::NotFound), found(&["a"]));
        assert_eq!(Verdict::NotFound.and(found(&["seed 1"])), found(&["seed 1"]));
        assert_eq!(found(&["a", "b", "c", "d"]).to_string(), "a b c and 1 more");
        assert_eq!(found(&["a", "b", "c", "d", "seed 1"]).to_string(), "a b c and 1 more, seed 1");
        assert_eq!(found(&["seed 1"]).to_string(), "seed 1");
    }
}
