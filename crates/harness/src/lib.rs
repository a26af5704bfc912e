//! Runs real servers and clients for the `cargo xtask` commands.
//!
//! - [`ensemble`] starts servers of Pole or of Apache ZooKeeper as child processes on loopback.
//! - [`client`] is a ZooKeeper client for load generation and for checks.
//! - [`command`] runs other programs and locates the binaries of the workspace.
//! - [`bench`](mod@bench) compares Pole with Apache ZooKeeper.
//! - [`compat`] runs third-party clients and their tests on both.
//! - [`attack`] sends servers hostile input and load, and checks that other clients are not disturbed.
//! - [`rng`] is a seeded random number generator.
//! - [`network`] puts TCP proxies between servers and clients, so that links can be cut, slowed and reset.
//! - [`soak`] kills and stops servers under load and checks everything that clients observed.
//! - [`tls`] makes certificates for the secure ports of an ensemble.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use pole_harness::ensemble::{Ensemble, Product, Setup};
//!
//! let mut ensemble = Ensemble::ready(&Product::Pole.launcher()?, &Setup::new("example", 3))?;
//! let leader = ensemble.leader().expect("the ensemble is ready");
//! ensemble.server(leader).kill()?;
//! let successor = ensemble.wait_ready(Duration::from_secs(10))?;
//! assert_ne!(successor, leader);
//! ensemble.done()?;
//! # Ok::<(), pole_harness::Failure>(())
//! ```
//!
//! Everything here runs against processes, sockets and disks. This crate does not link the server's code, so it can
//! only observe what a client or an operator could. The simulator is in `pole-sim`.

pub mod attack;
pub mod bench;
pub mod client;
pub mod command;
pub mod compat;
pub mod ensemble;
pub mod network;
pub mod rng;
pub mod soak;
pub mod tls;

/// The reason why a command could not do its work. A check that ran and failed is reported by exit code instead.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The arguments are invalid. The command exits with code 2 and prints the usage.
    Usage(String),
    /// Something that the command needs is missing or failed. The command exits with code 1.
    Check(String),
}

impl Failure {
    /// Prints the reason and returns the exit code.
    pub fn exit(self) -> std::process::ExitCode {
        let (Self::Usage(what) | Self::Check(what)) = &self;
        eprintln!("xtask: {what}");
        std::process::ExitCode::from(if matches!(self, Self::Usage(_)) { 2 } else { 1 })
    }

    /// A failed file operation: what was attempted (a verb), on which path, and the error of the operating system.
    pub fn io(doing: &str, what: &std::path::Path, why: &std::io::Error) -> Self {
        Self::Check(format!("cannot {doing} {}: {why}", what.display()))
    }
}

/// Parses the arguments of `cargo xtask <command>`. `--help` prints the help and exits the process.
pub fn arguments<T: clap::Parser>(command: &str, args: &[String]) -> Result<T, Failure> {
    let named = std::iter::once(format!("cargo xtask {command}")).chain(args.iter().cloned());
    T::try_parse_from(named).map_err(|refused| {
        if !refused.use_stderr() {
            refused.exit();
        }
        Failure::Usage(refused.to_string())
    })
}
