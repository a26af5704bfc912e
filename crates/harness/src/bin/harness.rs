//! Runs one tool of the harness: `harness TOOL [ARGUMENTS]`. `cargo xtask TOOL` builds and starts it.
//!
//! The exit code is 0 on success, 1 if a check failed, and 2 for bad arguments.

use std::process::ExitCode;

use pole_command::Failure;
use pole_harness::client::crowd;
use pole_harness::{attack, bench, compat, ensemble, replace, soak, timeline};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(code) => code,
        Err(failure) => failure.exit(),
    }
}

fn run(args: &[String]) -> Result<ExitCode, Failure> {
    let (name, rest) = args.split_first().ok_or_else(|| Failure::Usage(USAGE.to_owned()))?;
    match name.as_str() {
        "attack" => attack::run(rest),
        "bench" => bench::run(rest),
        "compat" => compat::run(rest),
        // Started by other tools, see `client::crowd`.
        "crowd" => crowd::run(rest),
        "ensemble" => ensemble::run(rest),
        "replace" => replace::run(rest),
        "soak" => soak::run(rest),
        "timeline" => timeline::run(rest),
        other => Err(Failure::Usage(format!("there is no tool called `{other}`\n{USAGE}"))),
    }
}

const USAGE: &str = "usage: harness attack|bench|compat|ensemble|replace|soak|timeline [ARGUMENTS]";
