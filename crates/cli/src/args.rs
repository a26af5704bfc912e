//! Commands and options, and the help that they show.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// A coordination service that puts its leader where it serves its clients best.
///
/// Without a command, this is `pole up`: an ensemble of five servers in three emulated data centres, for experiments.
#[derive(Debug, Parser)]
#[command(name = "pole", version, after_help = EXIT_CODES, max_term_width = HELP_COLUMNS_MAX)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Print results as JSON, for programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Colours: on a terminal only, always, or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

/// Help is folded to the width of the terminal, and on a wide one to lines that are easy to read.
const HELP_COLUMNS_MAX: usize = 100;

const EXIT_CODES: &str = "Exit codes:
  0 done; 1 the operation failed; 2 bad arguments, configuration or file; 3 cannot reach a server;
  4 no quorum in time; 5 data directory damaged or of another release; 6 port or data directory in use";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one server in the foreground
    ///
    /// Logs to standard error. SIGTERM and SIGINT stop it; a leader hands over to another server first.
    Server(ServerArgs),
    /// Run an ensemble on this machine, with the delays of a wide area network between its servers
    ///
    /// Each server is a process of its own on loopback. Server I listens for clients on the base port + I, for other
    /// servers on + 100 + I and + 200 + I, and for this command and HTTP on + 300 + I. The dashboard is on the base port.
    /// Ctrl-C stops them all.
    Up(UpArgs),
    /// Show the servers, who leads, and how far apart they are
    Status(AdminArgs),
    /// Explain why the leader leads: the candidates, their scores, what decided, and what would change it
    Explain {
        #[command(flatten)]
        at: AdminArgs,
        /// The number of elections to explain, newest first
        #[arg(long, value_name = "N", default_value_t = 1)]
        last: u32,
        /// Only what would make another server the best leader; otherwise that follows the elections
        #[arg(long)]
        what_if: bool,
    },
    /// Show or change what makes a good leader
    #[command(subcommand)]
    Oracle(OracleCommand),
    /// Hand leadership over to another server, without an election
    Transfer {
        /// The server that is to lead; without it, the one with the best score
        #[arg(long, value_name = "ID")]
        to: Option<u64>,
        /// How long the hand-over may take
        #[arg(long, value_name = "TIME", default_value = "5s")]
        timeout: Ms,
        /// Do nothing unless the server at the address leads, for a server that is about to stop
        #[arg(long)]
        if_leading: bool,
        #[command(flatten)]
        at: AdminArgs,
    },
    /// Show or change the servers of the ensemble
    #[command(subcommand)]
    Members(MembersCommand),
    /// Give a server a score of your own, for the oracle `custom`
    #[command(subcommand)]
    Score(ScoreCommand),
    /// Run the commands of ZooKeeper's command line: one, those of standard input, or at a prompt
    Shell(ShellArgs),
    /// Put a load on an ensemble, and measure how long its requests take
    ///
    /// Its nodes are below /pole-bench-PID, and are gone when it ends.
    Bench(BenchArgs),
    /// Save the whole state of a running ensemble in a file
    ///
    /// The file is a snapshot in ZooKeeper's format, at one transaction. `pole restore` and Apache ZooKeeper read it. The
    /// server asks who you are: see --admin, or set POLE_ADMIN_IDENTITY to an identity that has all permissions on the
    /// root, such as "digest user:password". On the server's own machine an open root is enough.
    Backup(BackupArgs),
    /// Bring a backup back: on a running ensemble, or into the data directory of a server that does not run
    ///
    /// With --admin (or without both), nodes, data and ACLs of the running ensemble become those of the backup, by
    /// ordinary writes; sessions and ephemeral nodes stay. With --config, the backup becomes the history of the server of
    /// that configuration; restore the same backup for all servers before the first one starts.
    Restore(RestoreArgs),
    /// Check a configuration, a data directory or a backup as a server would read it, without changing anything
    ///
    /// Of a configuration: what is wrong, unknown or without effect, and with --against what a change of it needs. Of a
    /// data directory: every file, and what a start would restore and repair. Of a backup: what is in it.
    Check(CheckArgs),
    /// Write a configuration in the other syntax: zoo.cfg as TOML, or TOML as zoo.cfg
    Convert(ConvertArgs),
    /// Move an ensemble of Apache ZooKeeper to Pole: in place, or side by side while it runs
    #[command(subcommand)]
    Migrate(crate::migrate::MigrateCommand),
    /// Run as the entrypoint of a container, with the variables of the official ZooKeeper image (ZOO_MY_ID, ZOO_SERVERS, …)
    ///
    /// Without arguments, or with `zkServer.sh start-foreground`, this is a server. `zkCli.sh` is the shell. Anything else
    /// is a command of pole, or a program.
    #[command(disable_help_flag = true)]
    Entrypoint {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
        args: Vec<OsString>,
    },
    /// Print what a shell needs to complete the arguments of this command
    ///
    /// bash: pole completions bash > /etc/bash_completion.d/pole;
    /// zsh: pole completions zsh > a file named _pole in a folder of $fpath;
    /// fish: pole completions fish > ~/.config/fish/completions/pole.fish
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Elect a leader through a store such as etcd, and run a command only while leading
    ///
    /// All arguments are those of the program `pole-elect`; `pole elect --help` shows them.
    #[command(disable_help_flag = true)]
    Elect {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "STORE, OPTIONS")]
        args: Vec<OsString>,
    },
    /// Experiments in the simulator: what a choice of leader does
    #[cfg(feature = "lab")]
    #[command(subcommand)]
    Lab(crate::lab::LabCommand),
}

#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// The configuration: zoo.cfg as ZooKeeper has it, or TOML if the name ends in .toml
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Stop when standard input ends, because the parent process is gone
    #[arg(long, hide = true)]
    pub(crate) until_stdin_ends: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Servers, sites and the links between them: a TOML file, or one of two, d1, d2, d3, recovery-8a, recovery-8b
    /// (of the paper), zones, america, europe, world (of today)
    #[arg(long, value_name = "FILE", default_value = TOPOLOGY_DEFAULT)]
    pub(crate) topology: String,
    /// Where to keep data; without it, a temporary directory that is removed in the end
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// The port below the first client port
    #[arg(long, value_name = "PORT", default_value_t = BASE_PORT_DEFAULT)]
    pub(crate) base_port: u16,
    /// What makes a good leader: history, request, consensus, latency, worst-case, rotating, recovery, custom,
    /// preference=3,1,2 or combined=latency/10ms,history
    #[arg(long, value_name = "ORACLE", default_value = ORACLE_DEFAULT)]
    pub(crate) oracle: String,
    /// Make a load: this many writes a second, from clients in all sites
    #[arg(long, value_name = "RATE", num_args = 0..=1, default_missing_value = "100")]
    pub(crate) load: Option<f64>,
    /// Play a story of a minute: load in one place, a crash, and a leader that follows the load
    #[arg(long)]
    pub(crate) tour: bool,
    /// Stop as soon as the ensemble serves; with --tour, when that is over
    #[arg(long, hide = true)]
    pub(crate) until_ready: bool,
}

impl Default for UpArgs {
    fn default() -> Self {
        let (topology, oracle) = (TOPOLOGY_DEFAULT.to_owned(), ORACLE_DEFAULT.to_owned());
        Self { topology, dir: None, base_port: BASE_PORT_DEFAULT, oracle, load: None, tour: false, until_ready: false }
    }
}

/// Three data centres. The two that are close to each other hold four of the five servers.
const TOPOLOGY_DEFAULT: &str = "d1";
const BASE_PORT_DEFAULT: u16 = 21_810;
/// The latency that most clients observe.
const ORACLE_DEFAULT: &str = "latency";

#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    /// Client addresses of servers
    #[arg(long, value_name = "HOST:PORT[,HOST:PORT]", default_value = "127.0.0.1:2181")]
    pub(crate) server: String,
    /// The session timeout, and the limit for the first connection
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub(crate) timeout: Ms,
    /// A line to run; may be given several times
    #[arg(short = 'c', value_name = "LINE", conflicts_with = "words")]
    pub(crate) commands: Vec<String>,
    /// A command with its arguments, such as `ls -s /`; `help` lists all
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// A configuration file, the dataDir of a server that does not run, or a backup
    #[arg(value_name = "FILE|DIR")]
    pub(crate) path: PathBuf,
    /// Another configuration: say what differs from it, and what that needs to have effect
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    /// The server that the configuration is for; without it, the number in the file myid
    ///
    /// With it, the configuration may be one of another machine: keys and addresses are not looked up.
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<u64>,
    /// The dataLogDir, if the log is not in the dataDir
    #[arg(long, value_name = "DIR")]
    pub(crate) log_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// The configuration to read: TOML if the name ends in .toml, else zoo.cfg
    pub(crate) from: PathBuf,
    /// The file to write: TOML if the name ends in .toml, else zoo.cfg; - for standard output, as zoo.cfg
    pub(crate) to: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Client addresses of servers; clients are spread over them
    #[arg(long, alias = "servers", value_name = "HOST:PORT[,HOST:PORT]", default_value = "127.0.0.1:2181")]
    pub(crate) server: String,
    /// How many clients there are, each with a session
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) clients: u32,
    /// Requests a second of all clients together; without it, as many as are answered
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rate: Option<u32>,
    /// Requests that a client has under way at most; without a rate 1, with a rate 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) outstanding: Option<u16>,
    /// Bytes of a node
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) size: u32,
    /// Shares of reads, writes, and creates with deletes
    #[arg(long, value_name = "SHARES", default_value = "read=50,write=50")]
    pub(crate) mix: crate::bench::Mix,
    /// How long to measure, after half a second
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// The session timeout, and the limit for the first connection of a client
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub(crate) timeout: Ms,
}

impl BenchArgs {
    pub(crate) fn outstanding(&self) -> usize {
        usize::from(self.outstanding.unwrap_or(if self.rate.is_some() { 100 } else { 1 }))
    }
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file to write; - for standard output
    pub(crate) file: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) at: AdminArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// A backup of `pole backup`, or a snapshot of ZooKeeper
    pub(crate) file: PathBuf,
    /// The configuration of a server that does not run
    #[arg(long, value_name = "FILE", conflicts_with = "admin")]
    pub(crate) config: Option<PathBuf>,
    /// With --config: move a history that is there aside
    #[arg(long, requires = "config")]
    pub(crate) replace: bool,
    #[command(flatten)]
    pub(crate) at: AdminArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AdminArgs {
    /// Admin addresses of servers; the first one that can answer is used
    ///
    /// A server on another machine requires its pole.admin.token for changes. Set it in the environment variable
    /// POLE_ADMIN_TOKEN.
    #[arg(long, value_name = "URL[,URL]", value_delimiter = ',', default_value = "http://127.0.0.1:8080")]
    pub(crate) admin: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OracleCommand {
    /// Show the current oracle, and which server each of the others would choose
    Get(AdminArgs),
    /// Change it, for the whole ensemble and at run time
    Set {
        /// Its name, or the short forms latency/10ms, preference=3,1,2 and combined=latency/10ms,history
        name: String,
        /// A parameter of it, such as class=10ms
        #[arg(long = "param", value_name = "KEY=VALUE")]
        params: Vec<Param>,
        #[command(flatten)]
        at: AdminArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum MembersCommand {
    /// Show the members: roles, addresses, and who has everything
    List(AdminArgs),
    /// Add a server that runs already: first as an observer, and as a voter when it has everything
    Add {
        /// Its line in the configuration: server.4=host:2888:3888;2181
        #[arg(value_name = "LINE")]
        server: String,
        /// Leave it an observer
        #[arg(long)]
        observer: bool,
        /// How long to wait until it has everything
        #[arg(long, value_name = "TIME", default_value = "60s")]
        timeout: Ms,
        #[command(flatten)]
        at: AdminArgs,
    },
    /// Remove a server; a leader hands over. Stop it afterwards
    Remove {
        /// Its id
        id: u64,
        #[command(flatten)]
        at: AdminArgs,
    },
    /// Make an observer a voter, when it has everything
    Promote {
        /// Its id
        id: u64,
        /// How long to wait until it has everything
        #[arg(long, value_name = "TIME", default_value = "60s")]
        timeout: Ms,
        #[command(flatten)]
        at: AdminArgs,
    },
    /// Make a voter an observer
    Demote {
        /// Its id
        id: u64,
        #[command(flatten)]
        at: AdminArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScoreCommand {
    /// Set the score of the one server at the address; higher is better
    Set {
        /// Any number
        #[arg(allow_negative_numbers = true)]
        value: f64,
        /// How long it counts
        #[arg(long, value_name = "TIME", default_value = "30s")]
        ttl: Ms,
        #[command(flatten)]
        at: AdminArgs,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Param {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl FromStr for Param {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok(Self { key: key.to_owned(), value: value.to_owned() }),
            Some(_) | None => Err("expected KEY=VALUE".to_owned()),
        }
    }
}

/// A duration, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ms(pub(crate) u64);

impl Ms {
    /// The duration in the largest unit that fits.
    pub(crate) fn text(self) -> String {
        match self.0 {
            ms if ms >= 60_000 && ms.is_multiple_of(60_000) => format!("{} min", ms / 60_000),
            ms if ms.is_multiple_of(1_000) => format!("{} s", ms / 1_000),
            ms => format!("{ms} ms"),
        }
    }
}

impl FromStr for Ms {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
        let found = units.iter().find_map(|(unit, ms)| Some((text.strip_suffix(unit)?, ms)));
        let parsed = found.and_then(|(digits, ms)| digits.trim().parse::<u64>().ok()?.checked_mul(*ms));
        parsed.map(Self).ok_or_else(|| "expected a whole number with a unit: 500ms, 5s, 2m or 1h".to_owned())
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
    fn arguments_of_elect_are_passed_on_unchanged() {
        let line = ["pole", "elect", "mem://a", "--id", "x", "--help", "--", "sh", "--json"];
        let Ok(Cli { command: Some(Command::Elect { args }), json, .. }) = Cli::try_parse_from(line) else { panic!() };
        assert_eq!((args, json), (line[2..].iter().map(OsString::from).collect::<Vec<_>>(), false));
    }

    #[test]
    fn plain_pole_is_pole_up() {
        let Ok(Cli { command: Some(Command::Up(given)), .. }) = Cli::try_parse_from(["pole", "up"]) else { panic!() };
        let silent = UpArgs::default();
        assert_eq!(Cli::try_parse_from(["pole"]).unwrap().command.map(|_| ()), None);
        assert_eq!((given.topology, given.dir, given.base_port), (silent.topology, silent.dir, silent.base_port));
        assert_eq!((given.oracle, given.until_ready), (silent.oracle, silent.until_ready));
    }

    #[test]
    fn times_have_units() {
        assert_eq!("500ms".parse(), Ok(Ms(500)));
        assert_eq!("5s".parse(), Ok(Ms(5_000)));
        assert_eq!("2m".parse(), Ok(Ms(120_000)));
        for wrong in ["5", "s", "-1s", "5 parsecs", "99999999999999999999s", "18446744073709551615h"] {
            assert!(wrong.parse::<Ms>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_said_in_the_unit_that_fits() {
        assert_eq!([Ms(500).text(), Ms(30_000).text(), Ms(120_000).text()], ["500 ms", "30 s", "2 min"]);
    }

    #[test]
    fn several_admin_addresses_are_divided_by_commas() {
        let cli = Cli::try_parse_from(["pole", "status", "--admin", "http://a:1,http://b:2"]).unwrap();
        let Some(Command::Status(at)) = cli.command else { panic!() };
        assert_eq!(at.admin, ["http://a:1", "http://b:2"]);
    }
}
