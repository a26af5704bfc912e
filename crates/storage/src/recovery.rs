//! Start-up: what the files say, checked, and ended where a crash interrupted.
//!
//! In: a directory, ours or Apache's. Out: [`Recovered`], and in words what was mended.
//! Holds: whatever was reported as written is found, or the directory is refused; a refusal changes no file but ends
//! an interrupted installation.

use bytes::Bytes;
use pole_jute::VERSION;
use pole_zab::{Epochs, Recovered, Snapshot, Zxid};
use std::fs;
use std::path::{Path, PathBuf};

use crate::disk::Found;
use crate::history::History;
use crate::locks::Locks;
use crate::names::{self, Name};
use crate::volume::Volume;
use crate::{Config, Damage, Disk, FileError, OpenError, Repair, epochs, intent, snapshot};

/// Opens a data directory, and makes a blank one where there is none.
///
/// # Errors
/// If another server has it, if the file system refuses, or if it holds what cannot be trusted.
pub fn open(config: Config) -> Result<(Disk, Recovered, Vec<Repair>), OpenError> {
    open_on(Volume::default(), config)
}

pub(crate) fn open_on(volume: Volume, config: Config) -> Result<(Disk, Recovered, Vec<Repair>), OpenError> {
    let dir = directory(&volume, &config.data_dir)?;
    let log_dir = directory(&volume, &config.data_log_dir)?;
    let shared = is_same(&dir, &log_dir)?;
    let locks = Locks::take(&[&*dir, &*log_dir][..if shared { 1 } else { 2 }])?;
    if !shared {
        check_places(&dir, &log_dir)?;
    }
    let mut repairs = Vec::new();
    intent::roll_forward(&volume, &dir, &log_dir, &mut repairs)?;
    let base = Base::find(&dir)?;
    let history = History::read(&log_dir, base.zxid(), config.retain_bytes)?;
    base.check_skipped(&history, &mut repairs)?;
    let last = history.last();
    let (accepted_epoch, current_epoch) = epochs::recover(&volume, &dir, last, &mut repairs)?;
    let entries = history.mend(&volume, &log_dir, &mut repairs)?;
    remove_temporaries(&volume, &dir)?;

    let found = Found { dir, log_dir, snapshot: base.chosen.as_ref().map(|(zxid, _)| *zxid), last, locks };
    let snapshot = base.chosen.map(|(zxid, body)| {
        // The files do not tell which epochs led to a snapshot; it is safe to know less.
        Snapshot { zxid, epochs: Epochs::starting_at(zxid), body: body.into() }
    });
    let recovered = Recovered { accepted_epoch, current_epoch, snapshot, entries };
    Ok((Disk::new(volume, config, found), recovered, repairs))
}

/// `version-2` of a directory, which is made if need be.
fn directory(volume: &Volume, parent: &Path) -> Result<PathBuf, OpenError> {
    let dir = parent.join(names::DIRECTORY);
    if fs::exists(&dir).map_err(FileError::during("look for", &dir))? {
        return Ok(dir);
    }
    let there = fs::exists(parent).map_err(FileError::during("look for", parent))?;
    if there {
        check_versions(parent)?;
    }
    fs::create_dir_all(&dir).map_err(FileError::during("create", &dir))?;
    volume.sync_dir(parent)?;
    if let Some(above) = parent.parent().filter(|above| !there && above.is_dir()) {
        volume.sync_dir(above)?;
    }
    Ok(dir)
}

/// Beside no directory of our version, one of another would be passed over in silence.
fn check_versions(parent: &Path) -> Result<(), OpenError> {
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

fn is_same(dir: &Path, log_dir: &Path) -> Result<bool, FileError> {
    let real = |path: &Path| fs::canonicalize(path).map_err(FileError::during("look for", path));
    Ok(real(dir)? == real(log_dir)?)
}

/// Two directories were given: each holds only its own, or the operator has mixed them up and part of the history
/// would not be found.
fn check_places(dir: &Path, log_dir: &Path) -> Result<(), OpenError> {
    if let Some((_, path)) = names::logs(dir)?.pop() {
        return Err(OpenError::Misplaced { path, expected: "snapshots and epochs" });
    }
    if let Some((_, path)) = names::snapshots(log_dir)?.pop() {
        return Err(OpenError::Misplaced { path, expected: "log files" });
    }
    Ok(())
}

/// What the log continues.
struct Base {
    /// The newest snapshot that is whole.
    chosen: Option<(Zxid, Bytes)>,
    /// Newer ones that are not, and what is wrong with them.
    skipped: Vec<(Zxid, Damage)>,
}

impl Base {
    fn find(dir: &Path) -> Result<Self, OpenError> {
        let mut candidates: Vec<_> = names::list(dir)?.into_iter().filter_map(candidate).collect();
        candidates.sort();
        let mut skipped: Vec<(Zxid, Damage)> = Vec::new();
        for (zxid, path, compressed) in candidates.into_iter().rev() {
            if compressed {
                return Err(OpenError::Compressed { path });
            }
            match snapshot::read(&path)? {
                Ok(body) => return Ok(Self { chosen: Some((zxid, body)), skipped }),
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

    fn zxid(&self) -> Zxid {
        self.chosen.as_ref().map_or(Zxid::ZERO, |(zxid, _)| *zxid)
    }

    /// Without a newer snapshot the log must lead there: a jump from one epoch to a later one does not show that
    /// something is missing, but a snapshot stands where there was a transaction.
    fn check_skipped(&self, history: &History, repairs: &mut Vec<Repair>) -> Result<(), OpenError> {
        for (zxid, damage) in &self.skipped {
            if !history.holds(*zxid) {
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

/// Files that never got their names. They are nobody's any more.
fn remove_temporaries(volume: &Volume, dir: &Path) -> Result<(), FileError> {
    let temporary = names::list(dir)?.into_iter().filter(|(name, _)| *name == Name::Temporary);
    temporary.map(|(_, path)| path).try_for_each(|path| volume.remove(&path))
}
