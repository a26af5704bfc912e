//! Reads a data directory as start-up would, and says what start-up would find and do, without changing anything.
//!
//! Every file is read, also those that a start does not need: old snapshots and old logs are what an operator falls back
//! to. A server that runs holds the lock of its directory, which is then refused: its files change under the reader.

use pole_jute::VERSION;
use pole_types::{Epoch, Zxid};
use std::fs;
use std::path::{Path, PathBuf};

use crate::history::{History, ReadContext};
use crate::names::{self, Name};
use crate::progress::Mark;
use crate::records::{Next, Records};
use crate::recovery::{self, Base};
use crate::{Config, FileError, OpenError, Repair, State, epochs, following, intent, locks, snapshot};

/// What a data directory contains, and what a start would make of it.
#[derive(Debug)]
pub struct Inspection {
    /// Oldest first.
    pub snapshots: Vec<SnapshotFile>,
    /// Oldest first.
    pub logs: Vec<LogFile>,
    /// What a start would find and do, or why it would refuse the directory.
    pub startup: Result<Startup, OpenError>,
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    pub path: PathBuf,
    /// The last transaction in it.
    pub zxid: Zxid,
    pub bytes: u64,
    /// Why it cannot be used.
    pub damage: Option<String>,
}

/// A file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    pub path: PathBuf,
    /// The first transaction, by the name of the file.
    pub first: Zxid,
    /// The last transaction that can be read; `None` if there is none.
    pub last: Option<Zxid>,
    pub transactions: u64,
    /// The size of the transactions; the file is larger, because its space is allocated in advance.
    pub bytes: u64,
    /// Why nothing can be read after the last transaction, if there is more. A write that was under way when the server
    /// stopped is such a case, and harmless.
    pub damage: Option<String>,
}

/// What a start would find and do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Startup {
    /// What it would repair, remove or write first.
    pub planned: Vec<Repair>,
    /// `None` if an interrupted operation has to be completed first, which decides what the history is.
    pub history: Option<Standing>,
}

/// The history of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub accepted_epoch: Epoch,
    pub current_epoch: Epoch,
    /// The snapshot from which a start would restore the state.
    pub snapshot: Option<Zxid>,
    /// The number of transactions that it would apply to it.
    pub replayed: u64,
    /// The last transaction.
    pub last_zxid: Zxid,
    /// Up to here the server knew that transactions are committed; `None` if Pole has not written to the directory.
    pub committed: Option<Zxid>,
}

/// Reads a data directory. All transactions are applied to `state`, as on a server without others.
///
/// # Errors
/// If the directories cannot be read, or a server uses them. Damage is part of the result.
pub fn inspect(config: &Config, state: &mut dyn State) -> Result<Inspection, OpenError> {
    let dir = config.data_dir.join(names::DIRECTORY);
    let log_dir = config.data_log_dir.join(names::DIRECTORY);
    if !exists(&dir)? {
        // A directory that is not there is an error, and one without `version-2` a server that never ran.
        fs::read_dir(&config.data_dir).map_err(FileError::during("list", &config.data_dir))?;
        let startup = recovery::check_versions(&config.data_dir).map(|()| Startup::blank(&dir));
        return Ok(Inspection { snapshots: Vec::new(), logs: Vec::new(), startup });
    }
    let (_lock, content) = locks::inspect(&dir)?;
    let _log_lock = exists(&log_dir)?.then(|| locks::inspect(&log_dir)).transpose()?;
    let snapshots = snapshots(&dir)?;
    let logs = if exists(&log_dir)? { logs(&log_dir)? } else { Vec::new() };
    let mark = locks::progress_in(&content).map(Mark::new);
    let startup = startup(&dir, &log_dir, mark, config, state);
    Ok(Inspection { snapshots, logs, startup })
}

impl Startup {
    fn blank(dir: &Path) -> Self {
        let standing = Standing {
            accepted_epoch: Epoch(0),
            current_epoch: Epoch(0),
            snapshot: None,
            replayed: 0,
            last_zxid: Zxid::ZERO,
            committed: None,
        };
        Self { planned: vec![Repair::new(dir, "absent; starts as a blank server")], history: Some(standing) }
    }
}

fn exists(path: &Path) -> Result<bool, FileError> {
    fs::exists(path).map_err(FileError::during("look for", path))
}

fn snapshots(dir: &Path) -> Result<Vec<SnapshotFile>, OpenError> {
    let mut found = Vec::new();
    for (name, path) in names::list(dir)? {
        let (zxid, damage) = match name {
            Name::Compressed(zxid) => (zxid, Some(OpenError::Compressed { path: path.clone() }.to_string())),
            Name::Snapshot(zxid) => match snapshot::check(&path) {
                Ok(Ok(_)) => (zxid, None),
                Ok(Err(flaw)) => (zxid, Some(at_byte(flaw.offset, &flaw.expected, &flaw.got))),
                Err(error @ OpenError::Version { .. }) => (zxid, Some(error.to_string())),
                Err(error) => return Err(error),
            },
            Name::Log(_) | Name::Temporary | Name::Other => continue,
        };
        let bytes = fs::metadata(&path).map_err(FileError::during("look at", &path))?.len();
        found.push(SnapshotFile { path, zxid, bytes, damage });
    }
    found.sort_by_key(|file| file.zxid);
    Ok(found)
}

fn logs(dir: &Path) -> Result<Vec<LogFile>, OpenError> {
    names::logs(dir)?.into_iter().map(|(first, path)| Ok(log(first, path)?)).collect()
}

fn log(first: Zxid, path: PathBuf) -> Result<LogFile, FileError> {
    let mut records = Records::open(&path)?;
    let version = records.version();
    let mut file = LogFile { path, first, last: None, transactions: 0, bytes: 0, damage: None };
    if version != VERSION {
        file.damage = Some(at_byte(0, &format!("version {VERSION} of the format"), &version.to_string()));
        return Ok(file);
    }
    loop {
        match records.next()? {
            Next::Entry(entry) => {
                file.last = Some(entry.zxid);
                file.transactions += 1;
            }
            Next::End => break,
            Next::Flaw(flaw) => {
                file.damage = Some(at_byte(records.position(), &flaw.expected, &flaw.got));
                break;
            }
        }
    }
    file.bytes = records.position();
    Ok(file)
}

fn at_byte(offset: u64, expected: &str, got: &str) -> String {
    format!("at byte {offset}: expected {expected}, got {got}")
}

/// The steps of [`crate::open_into`] that only read, in its order.
fn startup(
    dir: &Path,
    log_dir: &Path,
    mark: Option<Mark>,
    config: &Config,
    state: &mut dyn State,
) -> Result<Startup, OpenError> {
    following::check(config)?;
    if !exists(log_dir)? {
        fs::read_dir(&config.data_log_dir).map_err(FileError::during("list", &config.data_log_dir))?;
        recovery::check_versions(&config.data_log_dir)?;
    } else if !recovery::is_same(dir, log_dir)? {
        recovery::check_placement(dir, log_dir)?;
    }
    if let Some(pending) = intent::pending(dir)? {
        return Ok(Startup { planned: vec![pending], history: None });
    }
    let mut planned = Vec::new();
    let base = Base::find(dir)?;
    let has_log = exists(log_dir)?;
    if has_log {
        base.check_beginning(log_dir, config, &mut planned)?;
    }
    let wiped = mark.is_some() && base.chosen.is_none() && (!has_log || names::logs(log_dir)?.is_empty());
    let mark = mark.filter(|_| !wiped);
    let context = ReadContext {
        snapshot: base.zxid(),
        skipped: base.skipped.iter().map(|(zxid, _)| *zxid).collect(),
        mark,
        committed: Zxid::ZERO,
        config,
    };
    base.restore(&mut Some(&mut *state))?;
    let (last, replayed) = if has_log {
        let history = History::read(log_dir, context, Some(state)).map_err(|error| base.attribute(error))?;
        base.check_skipped(&history, &mut planned)?;
        planned.extend(history.planned_repairs());
        (history.last(), history.replayed().0)
    } else {
        (base.zxid(), 0)
    };
    let epochs::Found { accepted, mut current, missing } = epochs::find(dir, last)?;
    planned.extend(missing);
    if wiped {
        current = Epoch(0);
        planned.push(Repair::new(dir, "all logs and snapshots were removed; starts as a blank server"));
    }
    let temporary = names::list(dir)?.into_iter().filter(|(name, _)| *name == Name::Temporary);
    planned.extend(temporary.map(|(_, path)| Repair::new(&path, "removed, it was never completed")));
    let snapshot = base.chosen.as_ref().map(|chosen| chosen.zxid);
    let committed = mark.map(|mark| mark.committed);
    let standing =
        Standing { accepted_epoch: accepted, current_epoch: current, snapshot, replayed, last_zxid: last, committed };
    Ok(Startup { planned, history: Some(standing) })
}
