//! Start-up: reads and checks the files, and completes what a crash interrupted.
//!
//! The directory may be ours or Apache's. The result is [`Recovered`], and a description of the repairs.
//!
//! Invariants:
//! - Everything that was reported as written is found, or the directory is refused.
//! - A refusal changes no file, except that an interrupted installation is completed.

use bytes::Bytes;
use pole_jute::VERSION;
use pole_types::Zxid;
use pole_zab::{Recovered, Snapshot};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::disk::DiskState;
use crate::history::{History, ReadContext};
use crate::locks::Locks;
use crate::names::{self, Name};
use crate::progress::Mark;
use crate::volume::Volume;
use crate::{Config, Damage, Disk, FileError, OpenError, Repair, State, epochs, following, intent, snapshot};

/// Opens a data directory, and creates a blank one if there is none.
///
/// Returns the whole log above the snapshot, and the snapshot's state. Servers should use [`open_into`].
///
/// # Errors
/// If another server uses it, the file system fails, or the content cannot be trusted.
pub fn open(config: Config) -> Result<(Disk, Recovered, Vec<Repair>), OpenError> {
    open_on(Volume::default(), config, None)
}

/// Like [`open`], but the snapshot and the entries after it that are known to be committed are applied to `state` as
/// they are read. The returned snapshot represents that state and has no body.
///
/// Memory use: besides the state, a piece of the snapshot, `retain_bytes` of log, and the entries not known to be
/// committed. Those are what was under way when the server stopped, and after a power failure up to 16 MiB more.
///
/// # Errors
/// As [`open`]; also if `state` refuses what was read.
pub fn open_into(config: Config, state: &mut dyn State) -> Result<(Disk, Recovered, Vec<Repair>), OpenError> {
    open_on(Volume::default(), config, Some(state))
}

pub(crate) fn open_on(
    volume: Volume,
    config: Config,
    mut state: Option<&mut dyn State>,
) -> Result<(Disk, Recovered, Vec<Repair>), OpenError> {
    following::check(&config)?;
    let dir = directory(&volume, &config.data_dir)?;
    let log_dir = directory(&volume, &config.data_log_dir)?;
    let shared = is_same(&dir, &log_dir)?;
    let locks = Locks::take(&volume, &dir, Some(&*log_dir).filter(|_| !shared))?;
    if !shared {
        check_placement(&dir, &log_dir)?;
    }
    let mut repairs = Vec::new();
    intent::roll_forward(&volume, &dir, &log_dir, &mut repairs)?;
    let mut base = Base::find(&dir)?;
    base.check_beginning(&log_dir, &config, &mut repairs)?;
    if base.chosen.is_none() && write_missing_base(&volume, &dir, &log_dir, &config, &mut repairs)? {
        base = Base::find(&dir)?;
    }
    let mark = Mark::read(&locks.progress())?;
    // An operator removed the whole history and left our lock file. Its record about the log no longer matters.
    let wiped = mark.is_some() && base.chosen.is_none() && names::logs(&log_dir)?.is_empty();
    let mark = mark.filter(|_| !wiped);
    let (snapshot, skipped) = (base.zxid(), base.skipped.iter().map(|(zxid, _)| *zxid).collect::<Vec<_>>());
    let context = |committed| ReadContext { snapshot, skipped: skipped.clone(), mark, committed, config: &config };
    base.restore(&mut state)?;
    let committed = mark.map_or(Zxid::ZERO, |mark| mark.committed);
    let mut history =
        History::read(&log_dir, context(committed), reborrow(&mut state)).map_err(|e| base.attribute(e))?;
    if !history.holds_committed() {
        // The log was replaced, perhaps from a backup, so the mark does not refer to it. Only the snapshot is known to
        // be committed.
        drop(history);
        base.restore(&mut state)?;
        history = History::read(&log_dir, context(Zxid::ZERO), reborrow(&mut state)).map_err(|e| base.attribute(e))?;
    }
    base.check_skipped(&history, &mut repairs)?;
    let (last, (applied, epochs), replayed) = (history.last(), history.applied(), history.replayed());
    let (accepted_epoch, mut current_epoch) = epochs::recover(&volume, &dir, last, &mut repairs)?;
    if wiped {
        current_epoch = epochs::forget_current(&volume, &dir, (accepted_epoch, current_epoch), &mut repairs)?;
        // Not before: this record is how a wipe is detected. And not later, because it does not describe the log that
        // begins now.
        locks.progress().clear()?;
        locks.progress().sync()?;
        repairs.push(Repair::new(&dir, "all logs and snapshots were removed; starts as a blank server"));
    }
    let entries = history.repair(&volume, &log_dir, &mut repairs)?;
    remove_temporaries(&volume, &dir)?;
    base.make_durable(&volume, &dir)?;

    let disk_state =
        DiskState { dir, log_dir, snapshot: base.chosen.as_ref().map(|chosen| chosen.zxid), last, replayed, locks };
    let has_state = base.chosen.is_some() || applied > Zxid::ZERO;
    let body = if state.is_some() { Bytes::new() } else { base.body()?.into() };
    let snapshot = has_state.then(|| Snapshot { zxid: applied, epochs, body: body.into() });
    let recovered = Recovered { accepted_epoch, current_epoch, snapshot, entries };
    Ok((Disk::new(volume, config, disk_state), recovered, repairs))
}

/// The beginning of a log that is trusted without a snapshot ([`Config::trust_empty`]) may be lost. Then the blank
/// state is written as the snapshot that it continues, so that the next start needs no trust. Returns whether that was
/// necessary.
fn write_missing_base(
    volume: &Volume,
    dir: &Path,
    log_dir: &Path,
    config: &Config,
    repairs: &mut Vec<Repair>,
) -> Result<bool, OpenError> {
    let first = names::logs(log_dir)?.into_iter().next().filter(|(first, _)| first.counter() > 1);
    let (Some((first, path)), Some(blank)) = (first, &config.blank) else { return Ok(false) };
    let before = Zxid(first.0 - 1);
    snapshot::prepare(volume, dir, before, &blank.clone().into(), &|| true)?;
    snapshot::publish(volume, dir, before)?;
    let what = format!("begins at {first}; everything before it is lost, and {before} counts as an empty state");
    repairs.push(Repair::new(&path, what));
    Ok(true)
}

/// Borrows the state for a shorter time.
fn reborrow<'a>(state: &'a mut Option<&mut dyn State>) -> Option<&'a mut dyn State> {
    match state {
        Some(state) => Some(&mut **state),
        None => None,
    }
}

/// The `version-2` of a directory, created if necessary.
pub(crate) fn directory(volume: &Volume, parent: &Path) -> Result<PathBuf, OpenError> {
    let dir = parent.join(names::DIRECTORY);
    if fs::exists(&dir).map_err(FileError::during("look for", &dir))? {
        return Ok(dir);
    }
    let exists = fs::exists(parent).map_err(FileError::during("look for", parent))?;
    if exists {
        check_versions(parent)?;
    }
    fs::create_dir_all(&dir).map_err(FileError::during("create", &dir))?;
    volume.sync_dir(parent)?;
    if let Some(above) = parent.parent().filter(|above| !exists && above.is_dir()) {
        volume.sync_dir(above)?;
    }
    Ok(dir)
}

/// Refuses a directory of another version, which would otherwise be ignored silently if there is none of our version.
pub(crate) fn check_versions(parent: &Path) -> Result<(), OpenError> {
    let failed = || FileError::during("list", parent);
    for entry in fs::read_dir(parent).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        let version = entry.file_name().to_str().and_then(|name| name.strip_prefix("version-")?.parse::<i64>().ok());
        if let Some(got) = version {
            return Err(OpenError::Version { path: entry.path(), expected: VERSION, got });
        }
    }
    Ok(())
}

pub(crate) fn is_same(dir: &Path, log_dir: &Path) -> Result<bool, FileError> {
    let real = |path: &Path| fs::canonicalize(path).map_err(FileError::during("look for", path));
    Ok(real(dir)? == real(log_dir)?)
}

/// Checks that each of two directories contains only its own files. Otherwise the operator has mixed them up, and a
/// part of the history would not be found.
pub(crate) fn check_placement(dir: &Path, log_dir: &Path) -> Result<(), OpenError> {
    if let Some((_, path)) = names::logs(dir)?.pop() {
        return Err(OpenError::Misplaced { path, expected: "snapshots and epochs" });
    }
    if let Some((_, path)) = names::snapshots(log_dir)?.pop() {
        return Err(OpenError::Misplaced { path, expected: "log files" });
    }
    Ok(())
}

/// The snapshot that the log continues.
pub(crate) struct Base {
    /// The newest valid snapshot.
    pub(crate) chosen: Option<Chosen>,
    /// Newer ones that are damaged.
    pub(crate) skipped: Vec<(Zxid, Damage)>,
}

pub(crate) struct Chosen {
    pub(crate) zxid: Zxid,
    path: PathBuf,
    /// The range of the state in the file.
    state: Range<u64>,
}

impl Base {
    pub(crate) fn find(dir: &Path) -> Result<Self, OpenError> {
        let mut candidates: Vec<_> = names::list(dir)?.into_iter().filter_map(candidate).collect();
        candidates.sort();
        let mut skipped: Vec<(Zxid, Damage)> = Vec::new();
        for (zxid, path, compressed) in candidates.into_iter().rev() {
            if compressed {
                return Err(OpenError::Compressed { path });
            }
            match snapshot::check(&path)? {
                Ok(state) => return Ok(Self { chosen: Some(Chosen { zxid, path, state }), skipped }),
                Err(snapshot::Flaw { offset, expected, got }) => {
                    skipped.push((zxid, Damage { path, offset, expected, got }));
                }
            }
        }
        match skipped.first() {
            Some((_, newest)) => Err(newest.clone().into()),
            None => Ok(Self { chosen: None, skipped }),
        }
    }

    pub(crate) fn zxid(&self) -> Zxid {
        self.chosen.as_ref().map_or(Zxid::ZERO, |chosen| chosen.zxid)
    }

    /// Checks that a log has a snapshot. Every log file written by Pole or Apache is preceded by one, so otherwise the
    /// snapshot is lost. The log itself does not show whether it begins with the very first transaction, because that
    /// can be of any epoch.
    pub(crate) fn check_beginning(
        &self,
        log_dir: &Path,
        config: &Config,
        repairs: &mut Vec<Repair>,
    ) -> Result<(), OpenError> {
        let first = names::logs(log_dir)?.into_iter().next();
        let Some((_, path)) = first.filter(|_| self.chosen.is_none()) else { return Ok(()) };
        if !config.trust_empty {
            return Err(OpenError::NoSnapshot { path, data_dir: config.data_dir.clone() });
        }
        // Without a blank state no snapshot is ever written here, so none is missing.
        if config.blank.is_some() {
            let what = "no snapshot precedes it; read as the whole history, because snapshot.trust.empty is set";
            repairs.push(Repair::new(&path, what));
        }
        Ok(())
    }

    /// Restores the state from the snapshot.
    pub(crate) fn restore(&self, state: &mut Option<&mut dyn State>) -> Result<(), OpenError> {
        let Some(state) = state else { return Ok(()) };
        state.clear();
        let Some(Chosen { zxid, path, state: range }) = &self.chosen else { return Ok(()) };
        let damage = |got| Damage::of_state(path, got);
        for piece in snapshot::pieces(path, range.clone())? {
            state.restore(piece?).map_err(damage)?;
        }
        Ok(state.restored(*zxid).map_err(damage)?)
    }

    /// The whole state in memory, for callers that provide no [`State`].
    fn body(&self) -> Result<Vec<u8>, OpenError> {
        let Some(Chosen { path, state, .. }) = &self.chosen else { return Ok(Vec::new()) };
        let mut body = Vec::new();
        for piece in snapshot::pieces(path, state.clone())? {
            body.extend_from_slice(&piece?);
        }
        Ok(body)
    }

    /// Syncs the snapshot. It may be in the page cache only, and from now on it counts as durable.
    fn make_durable(&self, volume: &Volume, dir: &Path) -> Result<(), FileError> {
        if let Some(chosen) = &self.chosen {
            volume.modify(&chosen.path)?.sync()?;
        }
        volume.sync_dir(dir)
    }

    /// If the log does not continue an older snapshot, reports the damage of the newer one instead.
    pub(crate) fn attribute(&self, error: OpenError) -> OpenError {
        match (error, self.skipped.first()) {
            (OpenError::Damaged(_), Some((_, damage))) => damage.clone().into(),
            (error, _) => error,
        }
    }

    /// Checks that the log leads to each newer snapshot that is damaged. A jump to a later epoch does not show that
    /// something is missing, but a snapshot proves that there was a transaction.
    pub(crate) fn check_skipped(&self, history: &History, repairs: &mut Vec<Repair>) -> Result<(), OpenError> {
        for (zxid, damage) in &self.skipped {
            if history.misses(*zxid) {
                return Err(damage.clone().into());
            }
            let Damage { path, offset, expected, got } = damage;
            let what = format!(
                "passed over: at byte {offset} expected {expected}, got {got}; {} and the log serve",
                self.zxid()
            );
            repairs.push(Repair::new(path, what));
        }
        Ok(())
    }
}

fn candidate((name, path): (Name, PathBuf)) -> Option<(Zxid, PathBuf, bool)> {
    match name {
        Name::Snapshot(zxid) => Some((zxid, path, false)),
        Name::Compressed(zxid) => Some((zxid, path, true)),
        Name::Log(_) | Name::Temporary | Name::Other => None,
    }
}

/// Removes files that never got their final names.
fn remove_temporaries(volume: &Volume, dir: &Path) -> Result<(), FileError> {
    let temporary = names::list(dir)?.into_iter().filter(|(name, _)| *name == Name::Temporary);
    temporary.map(|(_, path)| path).try_for_each(|path| volume.remove(&path))
}
