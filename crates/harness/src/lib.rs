//! Runs real servers and real clients for the chores of `cargo xtask`.
//!
//! - [`ensemble`] starts servers of Pole or of Apache ZooKeeper as child processes on loopback.
//! - [`client`] is a ZooKeeper client for loads and for checks.
//! - [`command`] starts other programs and finds what the workspace builds.
//! - [`attack`] does to servers what no client should, and judges how the other clients fare.
//! - [`dice`] draws random numbers from a seed.
//! - [`network`] puts links between servers and clients that can be cut, slowed and broken.
//! - [`soak`] kills and stops servers under load and checks what clients saw.
//! - [`tls`] makes certificates for the secure ports of an ensemble.
//!
//! Everything runs against processes, sockets and disks. Nothing here links the code of the server: what it finds, a client or
//! an operator could find. The simulator is in `pole-lab`.

pub mod attack;
pub mod client;
pub mod command;
pub mod dice;
pub mod ensemble;
pub mod network;
pub mod soak;
pub mod tls;

/// Why a chore ended without doing its work. A check that ran and failed returns an exit code instead.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The arguments make no sense: exit code 2, with the usage.
    Usage(String),
    /// Something the chore needs is missing or refused: exit code 1.
    Check(String),
}

impl Failure {
    /// Something could not be done to something, with the reason of the operating system.
    pub fn io(doing: &str, what: &std::path::Path, why: &std::io::Error) -> Self {
        Self::Check(format!("cannot {doing} {}: {why}", what.display()))
    }
}

/// The arguments of a chore that are described by a type. Help is printed as asked for and is no failure, but ends us.
pub fn arguments<T: clap::Parser>(chore: &str, args: &[String]) -> Result<T, Failure> {
    let named = std::iter::once(format!("cargo xtask {chore}")).chain(args.iter().cloned());
    T::try_parse_from(named).map_err(|refused| {
        if !refused.use_stderr() {
            refused.exit();
        }
        Failure::Usage(refused.to_string())
    })
}
