//! Where the score comes from: a number, a command, or an address.

use std::process::Stdio;
use std::time::Duration;

use pole_elect::Candidate;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

use crate::args::RunArgs;
use crate::failure::Failure;
use crate::{http, log};

/// Sets the score, or begins to ask for it again and again.
pub(crate) async fn start(candidate: &Candidate, args: &RunArgs) -> Result<(), Failure> {
    if let Some(score) = args.score {
        return candidate.set_score(score).await.map_err(Failure::bad_input);
    }
    let source = match (&args.score_cmd, &args.score_url) {
        (Some(command), _) => Source::Command(command.clone()),
        (None, Some(url)) => Source::Url(http::Address::parse(url).map_err(Failure::bad_input)?),
        (None, None) => return Ok(()),
    };
    let (candidate, every) = (candidate.clone(), args.score_every.0.max(EVERY_MIN));
    tokio::spawn(async move {
        let mut tick = tokio::time::interval(every);
        loop {
            tick.tick().await;
            let found = tokio::time::timeout(every, source.ask()).await;
            match found.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
                // Unknown after three failures, so that a dead probe does not make a leader.
                Ok(score) => drop(candidate.set_score_for(score, Some(every * 3)).await),
                Err(why) => log::warn("no_score", &[("why", &why)]),
            }
        }
    });
    Ok(())
}

enum Source {
    Command(String),
    Url(http::Address),
}

impl Source {
    async fn ask(&self) -> Result<f64, String> {
        let text = match self {
            Self::Command(command) => output(command).await?,
            Self::Url(address) => http::get(address).await?,
        };
        parse(&text)
    }
}

/// The number in the first line.
fn parse(text: &str) -> Result<f64, String> {
    let line = text.lines().next().unwrap_or_default().trim();
    let number = line.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| format!("expected a number, got {:?}", line.chars().take(40).collect::<String>()))
}

async fn output(command: &str) -> Result<String, String> {
    let child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut shell = Shell(child);
    let mut text = Vec::new();
    let stdout = shell.0.stdout.take().expect("standard output is piped");
    stdout.take(OUTPUT_MAX).read_to_end(&mut text).await.map_err(|error| error.to_string())?;
    let status = shell.0.wait().await.map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("the command failed: {status}"));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// A running shell command. Dropping it, as the time-out does, kills it with its children: a command that hangs would
/// otherwise leave processes behind each time it is asked.
struct Shell(Child);

impl Drop for Shell {
    fn drop(&mut self) {
        // The id is None if the shell has ended and was reaped.
        if let Some(group) = self.0.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// More than any number needs.
const OUTPUT_MAX: u64 = 4096;

/// A score that changes faster would only be written more often.
const EVERY_MIN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_the_number_in_the_first_line() {
        assert_eq!(parse(" 12.5 \nmore"), Ok(12.5));
        assert_eq!(parse("-3"), Ok(-3.0));
        for wrong in ["", "NaN", "inf", "12 ms"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_command_gives_the_score_or_the_reason() {
        assert_eq!(Source::Command("echo 7".into()).ask().await, Ok(7.0));
        assert!(Source::Command("exit 3".into()).ask().await.unwrap_err().contains("failed"));
    }
}
