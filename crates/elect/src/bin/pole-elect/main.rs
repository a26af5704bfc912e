//! `pole-elect`: elects a leader through a store, and runs a command only while leading.
//!
//! ```text
//! pole-elect STORE --id A --score 12 -- cmd args…     args, run      the candidate and its command
//! pole-elect STORE watch|status|explain|…             query, show    what an operator asks
//! (internal) __supervise, __exec                      supervise      the process between us and the command
//! ```

mod args;
mod failure;
mod http;
mod log;
mod metrics;
mod query;
mod run;
mod score;
mod show;
mod supervise;

use std::process::ExitCode;

use clap::Parser;
use pole_elect::stores;
use pole_elect::url::StoreUrl;

use args::{Action, Cli};
use failure::Failure;

fn main() -> ExitCode {
    let mut internal = std::env::args_os().skip(1);
    match internal.next().as_ref().and_then(|first| first.to_str()) {
        Some(supervise::SUPERVISE) => return supervise::supervise(internal.collect()),
        Some(supervise::EXEC) => return supervise::exec(internal.collect()),
        Some(_) | None => {}
    }
    // Arguments that clap rejects end with exit code 2, like all bad arguments.
    let cli = Cli::parse();
    log::set_json(cli.json);
    // One thread is enough, and the command must be started by a thread that lives as long as the process.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(dispatch(cli)),
        Err(error) => Err(Failure::failed(format!("cannot start: {error}"))),
    };
    match result {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("pole-elect: {failure}");
            failure.exit_code()
        }
    }
}

async fn dispatch(cli: Cli) -> Result<ExitCode, Failure> {
    let url: StoreUrl = cli.store.parse().map_err(Failure::bad_input)?;
    cli.check()?;
    let store = stores::open(&url).await.map_err(Failure::open)?;
    let json = cli.json;
    match cli.action {
        None => run::run(store, cli.run, cli.command).await,
        Some(Action::Watch) => query::watch(store, json).await,
        Some(Action::Status) => query::status(&*store, json).await,
        Some(Action::Explain) => query::explain(&*store, json).await,
        Some(Action::Resign { to, timeout }) => query::resign(&*store, to, timeout.0, json).await,
        Some(Action::RaiseEpoch { to }) => query::raise_epoch(&*store, to, json).await,
    }
}
