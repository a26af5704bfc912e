//! What found a mutant, parsed from the output of the scripts, the tests of its crate and the simulator.

use std::fmt;

use crate::Failure;
use crate::command::Finished;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Found(Vec<Finder>),
    /// Nothing found it: the protection is not tested.
    NotFound,
    /// The patch must be updated to the current code. With the message of git.
    DoesNotApply(String),
    /// A mutant that does not build tests nothing. With the last output of the compiler.
    DoesNotCompile(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finder {
    /// A script by name, or a summary if there is no name.
    Script(String),
    /// A seed, or a summary if there is no seed.
    Seed(String),
    /// A test of a crate that the patch changes, or a summary if there is no name.
    Test {
        /// The folder of the crate.
        crate_name: String,
        name: String,
    },
}

impl Verdict {
    pub(super) fn is_found(&self) -> bool {
        matches!(self, Self::Found(_))
    }

    /// Combines two verdicts.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Found(mut first), Self::Found(second)) => {
                first.extend(second);
                Self::Found(first)
            }
            (Self::NotFound, verdict) | (verdict, _) => verdict,
        }
    }

    /// The message of git or the compiler, if there is one.
    pub(super) fn details(&self) -> &str {
        match self {
            Self::DoesNotApply(message) | Self::DoesNotCompile(message) => message,
            Self::Found(_) | Self::NotFound => "",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found(by) => f.write_str(&format_finders(by)),
            Self::NotFound => f.write_str("NOT FOUND"),
            Self::DoesNotApply(_) => f.write_str("DOES NOT APPLY"),
            Self::DoesNotCompile(_) => f.write_str("DOES NOT COMPILE"),
        }
    }
}

/// By kind: the first scripts, the first tests of each crate, the seed. The rest is counted.
fn format_finders(by: &[Finder]) -> String {
    let mut kinds: Vec<(String, Vec<&str>)> = Vec::new();
    for finder in by {
        let (kind, name) = match finder {
            Finder::Script(name) => ("script".to_owned(), name),
            Finder::Seed(name) => ("seed".to_owned(), name),
            Finder::Test { crate_name, name } => (format!("tests of {crate_name}:"), name),
        };
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, names)) => names.push(name),
            None => kinds.push((kind, vec![name])),
        }
    }
    let kind = |(kind, names): (String, Vec<&str>)| {
        let more =
            if names.len() > NAMES_MAX { format!(" and {} more", names.len() - NAMES_MAX) } else { String::new() };
        format!("{kind} {}{more}", names[..names.len().min(NAMES_MAX)].join(" "))
    };
    kinds.into_iter().map(kind).collect::<Vec<_>>().join(", ")
}

/// The verdict of a run of the script tests.
pub(super) fn of_scripts(run: &Finished) -> Verdict {
    of_tests(run, Finder::Script)
}

/// The verdict of a run of some tests of a crate.
pub(super) fn of_crate(run: &Finished, name: &str) -> Verdict {
    of_tests(run, |test| Finder::Test { crate_name: name.to_owned(), name: test })
}

fn of_tests(run: &Finished, finder: impl Fn(String) -> Finder) -> Verdict {
    if run.passed() {
        return Verdict::NotFound;
    }
    let mut names = failed_tests(&run.output);
    if run.status.is_none() {
        names.push("(one hangs)".to_owned());
    }
    if names.is_empty() {
        // Not an assertion but the end of the whole process, such as a stack overflow.
        names.push("(the process ended)".to_owned());
    }
    Verdict::Found(names.into_iter().map(finder).collect())
}

/// The verdict of a run of the simulator. Bad arguments and the like are an error of this chore, not a find.
pub(super) fn of_seeds(run: &Finished) -> Result<Verdict, Failure> {
    if run.passed() {
        return Ok(Verdict::NotFound);
    }
    let Some(status) = run.status else { return Ok(by_seed("(some hang)")) };
    match failed_seed(&run.output) {
        Some(seed) => Ok(by_seed(&seed.to_string())),
        None if status.code() == Some(BAD_ARGUMENTS) => {
            Err(Failure::Check(format!("the simulator refused its arguments:\n{}", run.output)))
        }
        None => Ok(by_seed("(the process ended)")),
    }
}

fn by_seed(seed: &str) -> Verdict {
    Verdict::Found(vec![Finder::Seed(seed.to_owned())])
}

/// The names in `test NAME ... FAILED`, without the path of their module.
fn failed_tests(output: &str) -> Vec<String> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    // Padded to the longest name.
    lines.map(|name| name.rsplit("::").next().unwrap_or(name).trim_end().to_owned()).collect()
}

/// The seed in the first line that shows how to replay one: `… --seed 17 --trace`.
fn failed_seed(output: &str) -> Option<u64> {
    let (_, rest) = output.split_once("--seed ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Names in one line of the table.
const NAMES_MAX: usize = 3;
/// The exit code of all our programs for invalid arguments.
const BAD_ARGUMENTS: i32 = 2;

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;
    use std::time::Duration;

    use super::*;

    fn finished(code: i32, output: &str) -> Finished {
        let status = Some(ExitStatus::from_raw(code << 8));
        Finished { status, output: output.to_owned(), took: Duration::ZERO }
    }

    fn scripts(names: &[&str]) -> Verdict {
        Verdict::Found(names.iter().map(|name| Finder::Script((*name).to_owned())).collect())
    }

    #[test]
    fn failing_scripts_are_named() {
        let output = "test 01-early-ack  ... FAILED\ntest 02-fine ... ok\ntest scripts::03-x ... FAILED\n";
        assert_eq!(of_scripts(&finished(101, output)), scripts(&["01-early-ack", "03-x"]));
        assert_eq!(of_scripts(&finished(0, "test 01-early-ack ... ok\n")), Verdict::NotFound);
        assert!(of_scripts(&finished(101, "stack overflow")).is_found());
    }

    #[test]
    fn the_failing_seed_is_read_from_the_line_that_replays_it() {
        let output = "seed 9 failed\nreplay: cargo xtask sim --seed 9 --trace\n8 passed, 1 failed\n";
        assert_eq!(of_seeds(&finished(1, output)).unwrap(), by_seed("9"));
        assert_eq!(of_seeds(&finished(0, "500 passed, 0 failed\n")).unwrap(), Verdict::NotFound);
        assert!(of_seeds(&finished(2, "unknown argument")).is_err());
        assert!(of_seeds(&finished(101, "panicked")).unwrap().is_found());
    }

    #[test]
    fn a_hanging_run_is_a_find() {
        let hung = Finished { status: None, output: String::new(), took: Duration::ZERO };
        assert!(of_scripts(&hung).is_found());
        assert!(of_seeds(&hung).unwrap().is_found());
    }

    #[test]
    fn a_failing_test_is_named_with_its_crate() {
        let run = finished(101, "test peer::tests::a_lie_is_refused ... FAILED\ntest other ... ok\n");
        assert_eq!(of_crate(&run, "server").to_string(), "tests of server: a_lie_is_refused");
        assert_eq!(of_crate(&finished(0, ""), "server"), Verdict::NotFound);
        assert_eq!(of_crate(&finished(134, "abort"), "server").to_string(), "tests of server: (the process ended)");
    }

    #[test]
    fn finders_are_combined_and_shown_by_kind() {
        let both = scripts(&["a"]).and(by_seed("1"));
        assert_eq!(both.to_string(), "script a, seed 1");
        assert_eq!(scripts(&["a"]).and(Verdict::NotFound), scripts(&["a"]));
        assert_eq!(Verdict::NotFound.and(by_seed("1")), by_seed("1"));
        assert_eq!(scripts(&["a", "b", "c", "d"]).to_string(), "script a b c and 1 more");
        let tests = of_crate(&finished(101, "test t ... FAILED\n"), "zab");
        assert_eq!(
            scripts(&["a", "b", "c", "d"]).and(tests).and(by_seed("7")).to_string(),
            "script a b c and 1 more, tests of zab: t, seed 7"
        );
    }
}
