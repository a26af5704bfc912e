//! The commands and options of `pole migrate`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};

use crate::args::Ms;

#[derive(Debug, Subcommand)]
pub(crate) enum MigrateCommand {
    /// Say beforehand what a move in place would keep and change, without changing anything
    ///
    /// Reads the configuration and the data directory of a server of Apache ZooKeeper. The exit code is 0 if a Pole server
    /// would start there, else 1. Apache may run; the figures are then of this moment.
    Check(MigrateCheckArgs),
    /// Copy a running ensemble of Apache ZooKeeper, and follow it until stopped
    ///
    /// Joins the ensemble as an observer and writes the data directory of a Pole server. No server starts on that
    /// directory before `take-over`. Ctrl-C ends it; it may be started again at any time.
    Follow(FollowArgs),
    /// Complete a copy, in an order that loses nothing, and permit Pole to start on it
    ///
    /// Follows like `follow`, which has to be stopped before. When the copy is level it asks you to stop the followers,
    /// compares the leader's last transaction with the copy's, asks you to stop the leader, and says how to start Pole.
    TakeOver(TakeOverArgs),
}

#[derive(Debug, Args)]
pub(crate) struct MigrateCheckArgs {
    /// The zoo.cfg of Apache
    #[arg(long, value_name = "FILE", default_value = "zoo.cfg")]
    pub(crate) config: PathBuf,
    /// The server that it is for; without it, the number in the file myid
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct FollowArgs {
    /// The zoo.cfg of a server of Apache, for the addresses of all of them
    #[arg(long, value_name = "FILE")]
    pub(crate) apache: PathBuf,
    /// The configuration of the Pole server whose data directory is to be filled
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Where a server of Apache serves clients, if it is not the clientPort of its zoo.cfg on its own host
    #[arg(long, value_name = "ID=HOST:PORT", value_delimiter = ',')]
    pub(crate) client: Vec<ClientAddress>,
    /// The id of the observer, if several copies follow: any number that no server has
    #[arg(long, value_name = "ID", default_value_t = pole_migrate::OBSERVER_ID.0)]
    pub(crate) id: u64,
    /// End as soon as the copy is level
    #[arg(long)]
    pub(crate) until_level: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TakeOverArgs {
    #[command(flatten)]
    pub(crate) follow: FollowArgs,
    /// A command that stops a server of Apache, run by a shell for each: {id} and {host} stand for the server
    #[arg(long, value_name = "COMMAND")]
    pub(crate) stop_command: Option<String>,
    /// A server that cannot be reached and is off for good
    #[arg(long, value_name = "ID")]
    pub(crate) down: Vec<u64>,
    /// Copy the complete history to this dataDir of another Pole server, too
    #[arg(long, value_name = "DIR")]
    pub(crate) copy_to: Vec<PathBuf>,
    /// Give up after this time; nothing is changed then
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub(crate) timeout: Ms,
}

/// The address for clients of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientAddress {
    pub(crate) id: u64,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl FromStr for ClientAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('=').and_then(|(id, address)| {
            let (host, port) = address.rsplit_once(':')?;
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            Some(Self { id: id.trim().parse().ok()?, host, port: port.parse().ok()? })
        });
        parsed.filter(|address| !address.host.is_empty()).ok_or_else(|| "expected ID=HOST:PORT".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_address_has_an_id_a_host_and_a_port() {
        let address = |host: &str| Ok(ClientAddress { id: 3, host: host.to_owned(), port: 2181 });
        assert_eq!("3=zk3:2181".parse(), address("zk3"));
        assert_eq!("3=[::1]:2181".parse(), address("::1"));
        for wrong in ["zk3:2181", "3=zk3", "3=:2181", "x=zk3:2181", "3=zk3:99999"] {
            assert!(wrong.parse::<ClientAddress>().is_err(), "{wrong}");
        }
    }
}
