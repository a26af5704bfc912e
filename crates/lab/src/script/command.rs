//! The commands of scripts: one closed list, each with its arguments.

use std::str::FromStr;

use crate::sim::{CrashPoint, DiskMode, MS, Survival};

/// A command. Servers are named by their ids, from 1.
#[derive(Debug, goldenscript::Command)]
pub(crate) enum Command {
    /// A new ensemble of servers that are about to start, but for those that are down.
    Ensemble {
        #[arg(key)]
        servers: Option<usize>,
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
    },
    /// Time goes on until all that run serve under one leader.
    Elect {
        #[arg(key)]
        within: Option<Ms>,
    },
    /// Servers start, and time goes on until they serve.
    Start {
        ids: Vec<u64>,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// Processes end, now or when they get to a point.
    Crash {
        ids: Vec<u64>,
        #[arg(key)]
        at: Option<CrashPointArg>,
        #[arg(key, optional)]
        passes: u32,
    },
    /// A machine loses its power: nobody hears of it.
    Unplug { id: u64 },
    /// A process stands still.
    Pause { id: u64 },
    /// It goes on.
    Resume { id: u64 },
    /// The leader hands over.
    Resign {
        #[arg(key)]
        to: Option<u64>,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// The connections between two servers.
    Link {
        a: u64,
        b: u64,
        how: Option<LinkState>,
        #[arg(key)]
        delay: Option<Ms>,
    },
    /// Messages from one server to another are kept back, from the first of this kind on.
    Hold {
        from: u64,
        to: u64,
        #[arg(key)]
        kind: Option<String>,
        #[arg(key, optional)]
        passes: u32,
    },
    /// They arrive.
    Release { from: u64, to: u64 },
    /// The disk of a server.
    Disk {
        id: u64,
        how: Option<DiskModeArg>,
        #[arg(key)]
        sync: Option<Ms>,
    },
    /// The disk of a server that is down is replaced by an empty one.
    Wipe { id: u64 },
    /// The clock of a server jumps ahead.
    Jump { id: u64, by: Ms },
    /// What the oracle of a server is, and what it says.
    Oracle {
        id: u64,
        #[arg(key)]
        name: Option<String>,
        #[arg(key)]
        score: Option<String>,
        #[arg(key)]
        version: Option<u64>,
    },
    /// A session connects to a server.
    Attach {
        session: String,
        id: u64,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// A client of a server sets a key.
    Write {
        id: u64,
        key: String,
        value: String,
        #[arg(key)]
        session: Option<String>,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// ... a key that must not exist.
    Create {
        id: u64,
        key: String,
        value: String,
        #[arg(key)]
        session: Option<String>,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// ... removes a key that must exist.
    Delete {
        id: u64,
        key: String,
        #[arg(key)]
        session: Option<String>,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// ... reads a key.
    Read {
        id: u64,
        key: String,
        #[arg(key)]
        session: Option<String>,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// ... waits until its server has seen all that was acknowledged before.
    Sync {
        id: u64,
        #[arg(key)]
        session: Option<String>,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// A client of the service connects to a server, with its session if it has one.
    Guest {
        name: String,
        id: u64,
        #[arg(key)]
        timeout: Option<u64>,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// ... asks something.
    Ask {
        name: String,
        what: Vec<String>,
        #[arg(key)]
        wait: Option<Switch>,
    },
    /// ... closes its connection, and keeps its session.
    Leave { name: String },
    /// The tree of a server.
    Tree { id: u64 },
    /// The next things happen.
    Step { count: u64 },
    /// Time goes on.
    Run { ms: Ms },
    /// Where servers stand.
    State {
        #[arg(optional)]
        ids: Vec<u64>,
    },
    /// What the log of a server holds, on its disk.
    Log { id: u64 },
    /// What the oracles said in the last election that a server saw end.
    Why { id: u64 },
    /// All faults end; everything has to heal.
    Heal,
    /// Nothing is wrong, and all that run hold the same.
    Check {
        #[arg(optional)]
        ids: Vec<u64>,
    },
}

/// Some milliseconds, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ms(pub(crate) u64);

impl FromStr for Ms {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ms: f64 = text.parse().map_err(|_| format!("`{text}` are no milliseconds"))?;
        Ok(Self((ms * MS as f64) as u64))
    }
}

/// Several words, with commas between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List(pub(crate) Vec<String>);

impl FromStr for List {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(text.split(',').map(|word| word.trim().to_owned()).collect()))
    }
}

/// `yes` or `no`.
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

/// A point of a server's work, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CrashPointArg(pub(crate) CrashPoint);

impl CrashPointArg {
    /// All names. `before-fsync` and `after-append` are the same moment: written, not synced.
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

    /// The name of a point.
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

/// The state of the connections between two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// Both ways are open.
    Up,
    /// Nothing gets through, and nobody is told.
    Down,
    /// Only what the first sends to the second gets through.
    OneWay,
    /// The connections break, and are opened again if they can be.
    Reset,
    /// The connections break for the first, and the second is not told; they are opened again if they can be.
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

/// The state of a disk.
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
