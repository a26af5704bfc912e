//! The `pole` command. It dispatches to the other crates and makes no decisions of its own.
//!
//! ```sh
//! pole                                # five servers in three emulated data centres on this machine
//! pole server --config zoo.cfg        # one server in the foreground
//! pole status                         # the servers, the leader, and the round trips between them
//! pole explain                        # why that server leads
//! pole shell -- ls /                  # the commands of ZooKeeper's command line
//! pole check zoo.cfg                  # what a server would say about a configuration
//! pole lab watch 60                   # an election in the simulator, step by step
//! ```
//!
//! It prints text for people or JSON for programs, and its exit code gives the kind of failure.
//!
//! ```text
//! server              one server in the foreground            -> the crate `server`
//! up                  an ensemble of child processes          -> this program again, once for each server
//! status, explain …   requests to a running server            -> `admin`, over HTTP; `show` formats the answers
//! shell               a ZooKeeper client                      -> `shell`, over the client's protocol
//! bench               a load, and its latencies               -> `bench`, over the client's protocol
//! backup, restore     the whole state in a file               -> `admin`, or the crate `storage`
//! check, convert      configurations and data directories     -> the crates `server` and `storage`
//! migrate             the move from Apache ZooKeeper          -> the crate `migrate`
//! lab                 experiments in the simulator            -> the crate `lab`, if built with it
//! entrypoint          what a container runs                   -> `server`, with a configuration from variables
//! elect               an election over another store          -> the program `pole-elect`
//! ```

mod admin;
mod args;
mod backup;
mod bench;
mod check;
mod convert;
mod elect;
mod entrypoint;
mod failure;
mod http;
#[cfg(feature = "lab")]
mod lab;
mod members;
mod migrate;
mod paint;
mod server;
mod servers;
mod shell;
mod show;
mod signals;
mod up;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use admin::Admin;
use args::{Cli, Command, Ms, OracleCommand, ScoreCommand, UpArgs};
use failure::Failure;
use paint::Paint;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Arguments that clap rejects end with exit code 2, like all bad arguments.
    let cli = Cli::parse();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            print_error(&format!("pole: {failure}\n"));
            failure.exit_code()
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let paint = Paint::new(cli.color);
    match cli.command.unwrap_or_else(|| Command::Up(UpArgs::default())) {
        Command::Server(args) => server::run(&args),
        Command::Up(args) => up::run(&args, paint),
        Command::Status(args) => {
            let answer = Admin::new(&args).ensemble()?;
            print(&answer.text(cli.json, |ensemble| show::status(ensemble, paint))?)
        }
        Command::Explain { at, what_if: true, .. } => {
            let answer = Admin::new(&at).what_if()?;
            print(&answer.text(cli.json, show::what_if_alone)?)
        }
        Command::Explain { at, last, what_if: false } => explain(&Admin::new(&at), last, cli.json, paint),
        Command::Oracle(OracleCommand::Get(at)) => oracle_get(&Admin::new(&at), cli.json, paint),
        Command::Oracle(OracleCommand::Set { name, params, at }) => {
            let answer = Admin::new(&at).set_oracle(&name, &params)?;
            print(&answer.text(cli.json, |set| format!("The oracle is {name} from version {} on.\n", set.version))?)
        }
        Command::Transfer { to, timeout, if_leading, at } => {
            let admin = Admin::new(&at);
            match if_leading && !admin.first_leads()? {
                true if cli.json => print("{}\n"),
                true => print("This server leads no others; nothing to do.\n"),
                false => transfer(&admin, to, timeout, cli.json),
            }
        }
        Command::Members(command) => members::run(command, cli.json, paint),
        Command::Score(ScoreCommand::Set { value, ttl, at }) => {
            Admin::new(&at).set_score(value, ttl)?;
            if cli.json { Ok(()) } else { print(&format!("The score is {value} for the next {}.\n", ttl.text())) }
        }
        Command::Shell(args) => shell::run(&args, cli.json),
        Command::Bench(args) => bench::run(&args, cli.json),
        Command::Backup(args) => backup::save(&args, cli.json),
        Command::Restore(args) => backup::restore(&args, cli.json),
        Command::Check(args) => check::run(&args, cli.json, paint),
        Command::Convert(args) => convert::run(&args, cli.json),
        Command::Migrate(command) => migrate::run(&command, cli.json, paint),
        Command::Entrypoint { args } => entrypoint::run(&args, cli.json),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "pole", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
        Command::Elect { args } => Err(elect::run(&args, cli.json)),
        #[cfg(feature = "lab")]
        Command::Lab(command) => lab::run(&command, cli.json, paint),
    }
}

fn explain(admin: &Admin, last: u32, json: bool, paint: Paint) -> Result<(), Failure> {
    let answer = admin.elections(last)?;
    print(&answer.text(json, |elections| show::explain(elections, paint))?)?;
    if json || answer.typed()?.is_empty() {
        return Ok(());
    }
    // An older server does not know, and what was asked for is said already.
    match admin.what_if().and_then(|reply| reply.typed()) {
        Ok(changes) if !changes.changes.is_empty() => print(&format!("\n{}", show::what_if(&changes))),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn oracle_get(admin: &Admin, json: bool, paint: Paint) -> Result<(), Failure> {
    let ensemble = admin.ensemble()?;
    if json {
        return print(&format!("{}\n", ensemble.field("oracle")?));
    }
    let scores = admin.scores()?;
    print(&show::oracle(&ensemble.typed()?, &scores.typed()?, paint))
}

fn transfer(admin: &Admin, to: Option<u64>, timeout: Ms, json: bool) -> Result<(), Failure> {
    let answer = admin.transfer(to, timeout)?;
    print(&answer.text(json, show::transferred)?)?;
    // The server that was to lead may have lost its quorum at once, and another may have been elected.
    match (to, answer.typed()?.leader) {
        (Some(wanted), leader) if wanted != leader => Err(Failure::failed(format!(
            "server {wanted} was to lead, and {leader} does; `pole explain --last 3` says why"
        ))),
        _ => Ok(()),
    }
}

/// Prints to standard output and flushes.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    ignore_broken_pipe(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Prints to standard error. If that is closed, there is nobody to tell.
fn print_error(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// A closed pipe is not an error: the reader may stop early, as `head` does.
fn ignore_broken_pipe(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::failed(error.to_string())),
        Ok(()) | Err(_) => Ok(()),
    }
}
