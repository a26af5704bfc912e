//! A script as a record: played once, watched as often as one likes.
//!
//! In: the text of a script. Out: its record; or the line of the script that makes no sense, and why.
//! Holds: a script in which the ensemble breaks a rule has a record too, up to there: that is the one worth watching.

use std::fmt;

use super::runner;
use crate::play::Play;

/// What came of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// What happened.
    pub play: Play,
    /// Where and how the ensemble broke a rule, if it did.
    pub broken: Option<Error>,
}

/// What is wrong, and on which line of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

/// Plays a script and keeps all that happens; with `upkeep`, also what never ceases: heartbeats, pings, their timers.
///
/// # Errors
/// If the script makes no sense: a word that is no command, a server that is not there, a check that does not hold.
pub fn watch(script: &str, upkeep: bool) -> Result<Watched, Error> {
    let mut runner = runner::ScriptRunner::recording(upkeep);
    let failed = goldenscript::generate(&mut runner, &ended(script)).err().map(|error| Error::of(&error.to_string()));
    let (play, is_broken) = runner.into_record();
    match failed {
        Some(error) if !is_broken => Err(error),
        broken => Ok(Watched { play, broken }),
    }
}

/// The last commands of a script need no line `---` after them, where nobody compares what they print.
fn ended(script: &str) -> String {
    // What stands behind such a line and before the next empty one was printed.
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
    /// From the words of the script's runner, which knows the line: `command 'crash' failed at line 2: why`.
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
    use crate::play::What;

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
        let Watched { play, broken } = watch("ensemble servers=3\nelect\ncrash 3\nelect\n", false).expect("a script");
        assert_eq!(broken, None);
        let turns: Vec<_> = play.steps.iter().filter(|step| step.is_turn()).map(|step| play.told(step)).collect();
        assert_eq!(turns, ["> ensemble servers=3", "> elect", "> crash 3", "> elect"]);
        assert!(play.steps.iter().any(|step| matches!(step.what, What::Crashed(2))));
        let last = play.steps.last().expect("steps");
        assert_eq!(last.believed(&play.names), "1:2 2:* 3:x");
    }

    #[test]
    fn upkeep_is_left_out_unless_it_is_asked_for() {
        let steps = |upkeep| watch("ensemble\nelect\nrun 500\n", upkeep).expect("a script").play.steps;
        let pings = |upkeep: bool| {
            let is_ping = |what: &What| matches!(what, What::Received { label, .. } if label == "Ping");
            steps(upkeep).iter().filter(|step| is_ping(&step.what)).count()
        };
        assert_eq!(pings(false), 0);
        assert!(pings(true) > 5);
    }

    #[test]
    fn a_larger_ensemble_after_a_smaller_one_has_lines_for_all() {
        let play = watch("ensemble servers=3\nelect\n\nensemble servers=5\nelect\n", false).expect("a script").play;
        assert_eq!(play.names, ["1", "2", "3", "4", "5"]);
    }
}
