//! The commands of scripts and their arguments.

use std::str::FromStr;

use crate::{CrashPoint, DiskMode, MS, Survival};

/// A command. Servers are identified by their ids, from 1.
#[derive(Debug, goldenscript::Command)]
#[expect(clippy::large_enum_variant, reason = "a script has few commands, and one at a time is in memory")]
pub(crate) enum Command {
    /// Creates a new ensemble. All servers are about to start, except those listed in `down`.
    Ensemble {
        #[arg(key)]
        servers: Option<usize>,
        #[arg(key)]
        observers: Option<List>,
        /// Servers that are not members.
        #[arg(key)]
        spare: Option<List>,
        #[arg(key)]
        weights: Option<List>,
        #[arg(key)]
        groups: Option<List>,
        #[arg(key)]
        oracle: Option<String>,
        #[arg(key)]
        scores: Option<List>,
        #[arg(key)]
        topology: Option<String>,
        #[arg(key)]
        down: Option<List>,
        #[arg(key)]
        retain: Option<usize>,
        #[arg(key)]
        snapshot: Option<u64>,
        #[arg(key)]
        piece: Option<usize>,
        #[arg(key)]
        window: Option<usize>,
        #[arg(key)]
        counter: Option<u32>,
        #[arg(key)]
        outstanding: Option<usize>,
        #[arg(key)]
        resign: Option<Switch>,
        #[arg(key)]
        tree: Option<Switch>,
        #[arg(key)]
        changing: Option<Switch>,
        /// Followers count acknowledgements themselves where that saves any time.
        #[arg(key)]
        direct: Option<Switch>,
    },
    /// Runs until all running servers serve under one leader.
    Elect {
        #[arg(key)]
        within: Option<Ms>,
    },
    /// Starts servers and runs until they serve.
    Start {
        ids: Vec<u64>,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// Crashes processes, now or when they reach a crash point.
    Crash {
        ids: Vec<u64>,
        #[arg(key)]
        at: Option<CrashPointArg>,
        #[arg(key, optional)]
        passes: u32,
    },
    /// Cuts the power of a machine; its peers are not notified.
    Unplug { id: u64 },
    /// Pauses a process.
    Pause { id: u64 },
    /// Resumes a paused process.
    Resume { id: u64 },
    /// Makes the leader hand over.
    Resign {
        #[arg(key)]
        to: Option<u64>,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// Changes the links between two servers.
    Link {
        a: u64,
        b: u64,
        how: Option<LinkState>,
        #[arg(key)]
        delay: Option<Ms>,
    },
    /// Holds back messages from one server to another, from the first of this kind on.
    Hold {
        from: u64,
        to: u64,
        #[arg(key)]
        kind: Option<String>,
        #[arg(key, optional)]
        passes: u32,
    },
    /// Releases held messages.
    Release { from: u64, to: u64 },
    /// Changes the behaviour of a server's disk.
    Disk {
        id: u64,
        how: Option<DiskModeArg>,
        #[arg(key)]
        sync: Option<Ms>,
    },
    /// Erases the disk of a server that is down.
    Wipe { id: u64 },
    /// Moves the clock of a server ahead.
    Jump { id: u64, by: Ms },
    /// Sets the oracle of a server, its score, or its configuration version.
    Oracle {
        id: u64,
        #[arg(key)]
        name: Option<String>,
        #[arg(key)]
        score: Option<String>,
        #[arg(key)]
        version: Option<u64>,
    },
    /// Attaches a session at a server.
    Attach {
        session: String,
        id: u64,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// Changes the members of the ensemble through a client of a server.
    Members {
        id: u64,
        #[arg(key)]
        voters: List,
        #[arg(key)]
        observers: Option<List>,
        #[arg(key)]
        session: Option<String>,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// Sets a key through a client of a server.
    Write {
        id: u64,
        key: String,
        value: String,
        #[arg(key)]
        session: Option<String>,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// Sets a key that must not exist.
    Create {
        id: u64,
        key: String,
        value: String,
        #[arg(key)]
        session: Option<String>,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// Removes a key that must exist.
    Delete {
        id: u64,
        key: String,
        #[arg(key)]
        session: Option<String>,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// Reads a key.
    Read {
        id: u64,
        key: String,
        #[arg(key)]
        session: Option<String>,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// Waits until the client's server has seen everything that was acknowledged before.
    Sync {
        id: u64,
        #[arg(key)]
        session: Option<String>,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// Connects a ZooKeeper client to a server, with its session if it has one.
    Connect {
        name: String,
        id: u64,
        #[arg(key)]
        timeout: Option<u64>,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// Sends a request of a ZooKeeper client.
    Ask {
        name: String,
        what: Vec<String>,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// Closes the connection of a ZooKeeper client, which keeps its session.
    Leave { name: String },
    /// Prints a summary of a server's tree.
    Tree { id: u64 },
    /// Processes the next events.
    Step { count: u64 },
    /// Runs for a time.
    Run { ms: Ms },
    /// Prints the state of servers.
    State {
        #[arg(optional)]
        ids: Vec<u64>,
    },
    /// Prints the log of a server.
    Log { id: u64 },
    /// Prints the record of the last election that a server saw end.
    Why { id: u64 },
    /// Ends all faults; the ensemble must recover.
    Heal,
    /// Checks that servers hold the same state.
    Check {
        #[arg(optional)]
        ids: Vec<u64>,
    },
}

/// A duration, written in milliseconds and stored in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ms(pub(crate) u64);

impl FromStr for Ms {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ms: f64 = text.parse().map_err(|_| format!("`{text}` are no milliseconds"))?;
        Ok(Self((ms * MS as f64) as u64))
    }
}

/// A comma-separated list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List(pub(crate) Vec<String>);

impl FromStr for List {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(text.split(',').map(|word| word.trim().to_owned()).collect()))
    }
}

/// `yes` or `no`, also `on` or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switch(pub(crate) bool);

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "yes" | "on" => Ok(Self(true)),
            "no" | "off" => Ok(Self(false)),
            other => Err(format!("`{other}` is neither yes nor no")),
        }
    }
}

/// A crash point, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CrashPointArg(pub(crate) CrashPoint);

impl CrashPointArg {
    /// All names. `before-fsync` and `after-append` are the same point: written, not synced.
    pub(crate) const NAMES: [(&str, CrashPoint); 10] = [
        ("before-append", CrashPoint::BeforeAppend),
        ("after-append", CrashPoint::AfterAppend),
        ("before-fsync", CrashPoint::AfterAppend),
        ("after-fsync", CrashPoint::AfterFsync),
        ("before-epoch", CrashPoint::BeforeEpoch),
        ("after-epoch", CrashPoint::AfterEpoch),
        ("before-rename", CrashPoint::BeforeRename),
        ("after-rename", CrashPoint::AfterRename),
        ("before-ack", CrashPoint::BeforeAck),
        ("after-ack", CrashPoint::AfterAck),
    ];

    pub(crate) fn name(point: CrashPoint) -> &'static str {
        Self::NAMES.iter().find(|(_, named)| *named == point).map_or("nowhere", |(name, _)| name)
    }
}

impl FromStr for CrashPointArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, point)| Self(*point)).ok_or_else(|| format!("`{text}` is no point of a server's work"))
    }
}

/// The state of the links between two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// Both directions are open.
    Up,
    /// Both directions are blocked silently.
    Down,
    /// Only the direction from the first to the second server is open.
    OneWay,
    /// The connections break and are redialled.
    Reset,
    /// The connections break for the first server only, and are redialled.
    HalfOpen,
}

impl FromStr for LinkState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "up" => Ok(Self::Up),
            "down" => Ok(Self::Down),
            "oneway" => Ok(Self::OneWay),
            "reset" => Ok(Self::Reset),
            "halfopen" => Ok(Self::HalfOpen),
            other => Err(format!("a link is up, down, oneway, reset or halfopen, not `{other}`")),
        }
    }
}

/// The behaviour of a disk, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskModeArg(pub(crate) DiskMode);

impl FromStr for DiskModeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(match text {
            "ok" => DiskMode::Ok,
            "fail" => DiskMode::Fail,
            "hang" => DiskMode::Hang,
            "torn" => DiskMode::CrashKeeps(Survival::Half),
            "kept" => DiskMode::CrashKeeps(Survival::All),
            other => return Err(format!("a disk is ok, fail, hang, torn or kept, not `{other}`")),
        }))
    }
}
