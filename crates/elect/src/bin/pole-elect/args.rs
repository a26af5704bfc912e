//! Commands and options, and the help that they show.

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::failure::Failure;

/// Elects a leader through a store, and runs a command only while leading.
///
/// The best score leads. The command gets the fencing token in POLE_ELECT_TOKEN and the id in POLE_ELECT_ID. It is
/// stopped (SIGTERM, then SIGKILL) before the lease can pass to another candidate, and with this process.
#[derive(Debug, Parser)]
#[command(name = "pole-elect", version, override_usage = USAGE, after_help = HELP)]
pub(crate) struct Cli {
    /// The store and the election in it
    pub(crate) store: String,
    #[command(subcommand)]
    pub(crate) action: Option<Action>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Answers and log lines in JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The command to run while leading
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

const USAGE: &str = "pole-elect <STORE> --id <ID> [OPTIONS] -- <CMD>...
       pole-elect <STORE> <COMMAND>";

const HELP: &str = "Stores:
  etcd://host:2379/app/leader   zk://host:2181/app/leader   postgres://user@host/db/app/leader
  consul://host:8500/app/leader k8s://namespace/name        nats://host:4222/bucket/app
  redis://host:6379/app/leader  mem://name (this process only)
  With TLS: etcds, zks, consuls, natss, rediss, and ?sslmode=require for postgres. Options follow the path, such as
  ?cacert=ca.pem&cert=client.pem&key=client.key

Exit codes:
  0 done; 1 the operation failed; 2 bad arguments; 3 cannot reach the store; 4 not in time;
  otherwise that of the command";

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Print every change of leadership, until interrupted
    Watch,
    /// Show the leader, the succession list and the candidates
    Status,
    /// Explain why the leader leads, and why nobody else does
    Explain,
    /// Ask the leader to give up leadership, and wait for the next one
    Resign {
        /// The candidate that is to lead; without it, the best
        #[arg(long, value_name = "ID")]
        to: Option<String>,
        /// How long to wait for the next leader
        #[arg(long, value_name = "TIME", default_value = "30s")]
        timeout: Span,
    },
    /// Raise the epoch of the next fencing token, after the store was restored from a backup
    RaiseEpoch {
        /// The epoch, at least; without it, one more than the present
        #[arg(long, value_name = "EPOCH", default_value_t = 0)]
        to: u32,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The id of this candidate, unique in the election
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// The score of this candidate, higher is better
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) score: Option<f64>,
    /// A shell command whose first line of output is the score
    #[arg(long, value_name = "CMD", conflicts_with_all = ["score", "score_url"])]
    pub(crate) score_cmd: Option<String>,
    /// An http:// address whose answer is the score
    #[arg(long, value_name = "URL", conflicts_with = "score")]
    pub(crate) score_url: Option<String>,
    /// How often to ask for the score; it is unknown after three failures
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub(crate) score_every: Span,
    /// The oracle of the score; scores of different oracles are not compared
    #[arg(long, value_name = "NAME", default_value = "custom")]
    pub(crate) oracle: String,
    /// The version of the oracle
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) oracle_version: u64,
    /// The lease: how long after a crash of the leader another one may lead [default: 10s, or the store's minimum]
    #[arg(long, value_name = "TIME")]
    pub(crate) ttl: Option<Span>,
    /// The time from SIGTERM to SIGKILL [default: a fifth of the lease]
    #[arg(long, value_name = "TIME")]
    pub(crate) grace: Option<Span>,
    /// Counts more than any score
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) priority: i32,
    /// How long the priority holds
    #[arg(long, value_name = "TIME")]
    pub(crate) priority_for: Option<Span>,
    /// Take part, but never lead
    #[arg(long)]
    pub(crate) never: bool,
    /// The first candidate that notices a vacancy leads, whatever the scores
    #[arg(long)]
    pub(crate) first_come: bool,
    /// Serve metrics over HTTP at this address
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) metrics: Option<String>,
    /// Never hand over to a better candidate
    #[arg(long)]
    pub(crate) stay: bool,
}

impl Cli {
    /// What clap cannot check.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match (&self.action, self.command.is_empty()) {
            (None, true) => Err(Failure::bad_input(
                "give a command after --, or one of watch, status, explain, resign, raise-epoch",
            )),
            (Some(_), false) => Err(Failure::bad_input("a command after -- is only run by a candidate")),
            (None, false) if self.run.id.is_none() => Err(Failure::bad_input("a candidate needs --id")),
            (None, false) | (Some(_), true) => Ok(()),
        }
    }
}

/// A span with its unit: 500ms, 5s, 2m or 1h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
        let found = units.iter().find_map(|(unit, ms)| Some((text.strip_suffix(unit)?, ms)));
        let parsed = found.and_then(|(digits, ms)| digits.trim().parse::<u64>().ok()?.checked_mul(*ms));
        let span = parsed.map(|ms| Self(Duration::from_millis(ms)));
        span.ok_or_else(|| "expected a whole number with a unit: 500ms, 5s, 2m or 1h".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_commands_fit_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_candidate_and_an_operator_are_told_apart() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' ')).unwrap();
        let candidate = parse("pole-elect mem://a --id x --score -2.5 -- sh -c true");
        assert_eq!((candidate.command.len(), candidate.run.score), (3, Some(-2.5)));
        candidate.check().unwrap();
        let operator = parse("pole-elect mem://a resign --to b --json");
        assert!(operator.json && matches!(operator.action, Some(Action::Resign { to: Some(_), .. })));
        operator.check().unwrap();
        assert_eq!(parse("pole-elect mem://a --id x").check().unwrap_err().exit_code(), 2.into());
        assert_eq!(parse("pole-elect mem://a -- true").check().unwrap_err().to_string(), "a candidate needs --id");
    }

    #[test]
    fn a_span_needs_a_unit() {
        assert_eq!("1500ms".parse(), Ok(Span(Duration::from_millis(1500))));
        assert!("5".parse::<Span>().is_err());
    }
}
