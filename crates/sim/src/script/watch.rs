//! Runs a script and records it.
//!
//! The result is a recording, or the line of the script that is invalid and why. A script in which the ensemble
//! violates an invariant has a recording too, up to the violation: that is the one worth watching.

use std::fmt;

use super::runner;
use crate::recording::Recording;

/// The result of running a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedScript {
    /// The recording.
    pub recording: Recording,
    /// The violated invariant and its line, if there was one.
    pub broken: Option<Error>,
}

/// An error, and the line of the script where it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// Runs a script and records every step; with `upkeep` also periodic events: heartbeats, pings and their timers.
///
/// # Errors
/// If the script is invalid: an unknown command, an unknown server, a failed check.
pub fn watch(script: &str, upkeep: bool) -> Result<WatchedScript, Error> {
    let mut runner = runner::ScriptRunner::recording(upkeep);
    let failed = goldenscript::generate(&mut runner, &ended(script)).err().map(|error| Error::of(&error.to_string()));
    let (recording, is_broken) = runner.into_recording();
    match failed {
        Some(error) if !is_broken => Err(error),
        broken => Ok(WatchedScript { recording, broken }),
    }
}

/// Appends the final `---` if it is missing: it is not needed where the output is not compared.
fn ended(script: &str) -> String {
    // Lines after `---` up to the next empty line are output.
    let (mut commands, mut printed) = (false, false);
    for line in script.lines() {
        match line.trim() {
            "---" => (commands, printed) = (false, true),
            "" => printed = false,
            line => commands |= !printed && !line.starts_with('#'),
        }
    }
    if commands { format!("{}\n---\n", script.trim_end()) } else { script.to_owned() }
}

impl Error {
    /// Parses an error message of goldenscript, which contains the line: `command 'crash' failed at line 2: why`.
    fn of(text: &str) -> Self {
        let found = text.split_once(" at line ").and_then(|(before, after)| {
            let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            let line = after[..digits].parse().ok()?;
            let why = after[digits..].trim_start_matches([':', ' ']);
            Some((line, before.trim_end_matches(" failed"), why))
        });
        match found {
            Some((line, "parse error", _)) => Self { line, what: "this is no command and no comment".to_owned() },
            Some((line, before, why)) => Self { line, what: format!("{before}: {why}") },
            None => Self { line: 1, what: text.to_owned() },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::StepKind;

    #[test]
    fn what_is_wrong_in_a_script_is_told_with_its_line() {
        for (script, line, why) in [
            ("ensemble\nfly 7\n", 2, "fly"),
            ("ensemble\nelect\n\ncrash 7\n", 4, "there is no server 7"),
            ("# nothing yet\nelect\n", 2, "begin with `ensemble`"),
            ("ensemble servers=\"3\n---\n", 1, "no command"),
            ("ensemble servers=three\n", 1, "three"),
        ] {
            let error = watch(script, false).expect_err(script);
            assert_eq!(error.line, line, "{script}: {error}");
            assert!(error.what.contains(why), "{script}: {error}");
        }
    }

    #[test]
    fn a_record_has_the_commands_what_was_sent_and_who_believed_what() {
        let WatchedScript { recording, broken } =
            watch("ensemble servers=3\nelect\ncrash 3\nelect\n", false).expect("a script");
        assert_eq!(broken, None);
        let turns: Vec<_> =
            recording.steps.iter().filter(|step| step.is_turn()).map(|step| recording.describe(step)).collect();
        assert_eq!(turns, ["> ensemble servers=3", "> elect", "> crash 3", "> elect"]);
        assert!(recording.steps.iter().any(|step| matches!(step.kind, StepKind::Crashed(2))));
        let last = recording.steps.last().expect("steps");
        assert_eq!(last.views_summary(&recording.names), "1:2 2:* 3:x");
    }

    #[test]
    fn upkeep_is_left_out_unless_it_is_asked_for() {
        let steps = |upkeep| watch("ensemble\nelect\nrun 500\n", upkeep).expect("a script").recording.steps;
        let pings = |upkeep: bool| {
            let is_ping = |what: &StepKind| matches!(what, StepKind::Received { label, .. } if label == "Ping");
            steps(upkeep).iter().filter(|step| is_ping(&step.kind)).count()
        };
        assert_eq!(pings(false), 0);
        assert!(pings(true) > 5);
    }

    #[test]
    fn a_larger_ensemble_after_a_smaller_one_has_lines_for_all() {
        let recording =
            watch("ensemble servers=3\nelect\n\nensemble servers=5\nelect\n", false).expect("a script").recording;
        assert_eq!(recording.names, ["1", "2", "3", "4", "5"]);
    }
}
