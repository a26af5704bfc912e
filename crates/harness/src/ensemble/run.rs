//! `cargo xtask ensemble`: starts an ensemble for manual tests and keeps it until the end of input.

use std::io::Read as _;
use std::process::ExitCode;

use clap::Parser;

use super::{Ensemble, Product, READY_LIMIT, Setup, sweep};
use crate::{Failure, arguments};

/// Starts servers on loopback and keeps them until the end of input (Ctrl-D) or Ctrl-C.
#[derive(Debug, Parser)]
struct Options {
    /// The product whose servers are started.
    #[arg(long, value_enum, default_value = "apache")]
    product: Product,
    /// The number of servers.
    #[arg(long, default_value_t = 3)]
    servers: usize,
    /// An additional line for every zoo.cfg; may be repeated.
    #[arg(long)]
    config: Vec<String>,
}

/// Runs `cargo xtask ensemble`.
pub fn run(args: &[String]) -> Result<ExitCode, Failure> {
    let options: Options = arguments("ensemble", args)?;
    // Earlier runs that were ended by Ctrl-C could not clean up after themselves.
    sweep(NAME)?;
    let name = format!("{NAME}{}", std::process::id());
    let setup = options.config.iter().fold(Setup::new(&name, options.servers), |setup, line| setup.with(line));
    let mut ensemble = Ensemble::start(&options.product.launcher()?, &setup)?;
    let leader = ensemble.wait_ready(READY_LIMIT)?;
    println!("{} serves at {}; server {} leads", options.product, ensemble.connect_string(), leader + 1);
    for server in ensemble.servers() {
        let resident_mb = server.usage().unwrap_or_default().resident_bytes >> 20;
        println!("server {}: process {}, {resident_mb} MB", server.id(), server.pid().unwrap_or_default());
    }
    println!("files and logs: {}", ensemble.folder().display());
    // The input itself is ignored; its end stops the ensemble.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    ensemble.done()?;
    Ok(ExitCode::SUCCESS)
}

/// The prefix of the folder name. The process id follows, because several may run at the same time.
const NAME: &str = "play-";
