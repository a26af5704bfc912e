//! Start-up: what the files say, checked, and ended where a crash interrupted.
//!
//! In: a directory, ours or Apache's. Out: [`Recovered`], and in words what was mended.
//! Holds: whatever was reported as written is found, or the directory is refused; a refusal changes no file but ends
//! an interrupted installation.

use bytes::Bytes;
use pole_jute::VERSION;
use pole_zab::{Recovered, Snapshot, Zxid};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::disk::Found;
use crate::history::{History, Known};
use crate::locks::Locks;
use crate::names::{self, Name};
use crate::progress::Mark;
use crate::volume::Volume;
use crate::{Config, Damage, Disk, FileError, OpenError, Repair, State, epochs, intent, snapshot};

/// Opens a data directory, and makes a blank one where there is none.
///
/// The whole log above the snapshot is returned, and with it the snapshot's state. See [`open_into`] for servers.
///
/// # Errors
/// If another server has it, if the file system refuses, or if it holds what cannot be trusted.
pub fn open(config: Config) -> Result<(Disk, Recovered, Vec<Repair>), OpenError> {
    open_on(Volume::default(), config, None)
}

/// The same, but the snapshot, and what is known to be committed after it, goes into `state` as it is read. The
/// snapshot returned stands for that state and has no body of its own.
///
/// Memory: besides the state, a piece of the snapshot, `retain_bytes` of log, and what is not known to be committed. That
/// is what was under way when the server stopped, and after a power failure up to 16 MiB more.
///
/// # Errors
/// As [`open`]; and if `state` refuses what was read.
pub fn open_into(config: Config, state: &mut dyn State) -> Result<(Disk, Recovered, Vec<Repair>), OpenError> {
    open_on(Volume::default(), config, Some(state))
}

pub(crate) fn open_on(
    volume: Volume,
    config: Config,
    mut state: Option<&mut dyn State>,
) -> Result<(Disk, Recovered, Vec<Repair>), OpenError> {
    let dir = directory(&volume, &config.data_dir)?;
    let log_dir = directory(&volume, &config.data_log_dir)?;
    let shared = is_same(&dir, &log_dir)?;
    let locks = Locks::take(&volume, &dir, Some(&*log_dir).filter(|_| !shared))?;
    if !shared {
        check_places(&dir, &log_dir)?;
    }
    let mut repairs = Vec::new();
    intent::roll_forward(&volume, &dir, &log_dir, &mut repairs)?;
    let mut base = Base::find(&dir)?;
    base.check_beginning(&log_dir, &config, &mut repairs)?;
    if base.chosen.is_none() && begin_late(&volume, &dir, &log_dir, &config, &mut repairs)? {
        base = Base::find(&dir)?;
    }
    let mark = Mark::read(&locks.progress())?;
    // Somebody removed the whole history, and left our lock file. What that says of the log no longer matters.
    let wiped = mark.is_some() && base.chosen.is_none() && names::logs(&log_dir)?.is_empty();
    let mark = mark.filter(|_| !wiped);
    let (snapshot, skipped) = (base.zxid(), base.skipped.iter().map(|(zxid, _)| *zxid).collect::<Vec<_>>());
    let known = |committed| Known { snapshot, skipped: skipped.clone(), mark, committed, config: &config };
    base.restore(&mut state)?;
    let committed = mark.map_or(Zxid::ZERO, |mark| mark.committed);
    let mut history = History::read(&log_dir, known(committed), reborrow(&mut state)).map_err(|e| base.blame(e))?;
    if !history.holds_committed() {
        // The log was exchanged under the mark, by a backup perhaps. Nothing but the snapshot is known to be committed.
        drop(history);
        base.restore(&mut state)?;
        history = History::read(&log_dir, known(Zxid::ZERO), reborrow(&mut state)).map_err(|e| base.blame(e))?;
    }
    base.check_skipped(&history, &mut repairs)?;
    let (last, (applied, epochs), replayed) = (history.last(), history.applied(), history.replayed());
    let (accepted_epoch, mut current_epoch) = epochs::recover(&volume, &dir, last, &mut repairs)?;
    if wiped {
        current_epoch = epochs::forget_current(&volume, &dir, (accepted_epoch, current_epoch), &mut repairs)?;
        // Only afterwards: this record is how we know. And not later, because it is not about the log that begins now.
        locks.progress().clear()?;
        locks.progress().sync()?;
        repairs.push(Repair::new(&dir, "all logs and snapshots were removed; starts as a blank server"));
    }
    let entries = history.mend(&volume, &log_dir, &mut repairs)?;
    remove_temporaries(&volume, &dir)?;
    base.make_durable(&volume, &dir)?;

    let found = Found { dir, log_dir, snapshot: base.chosen.as_ref().map(|chosen| chosen.zxid), last, replayed, locks };
    let has_state = base.chosen.is_some() || applied > Zxid::ZERO;
    let body = if state.is_some() { Bytes::new() } else { base.body()?.into() };
    let snapshot = has_state.then(|| Snapshot { zxid: applied, epochs, body: body.into() });
    let recovered = Recovered { accepted_epoch, current_epoch, snapshot, entries };
    Ok((Disk::new(volume, config, found), recovered, repairs))
}

/// Of a log that is trusted without a snapshot ([`Config::trust_empty`]) the beginning may be lost. Then the blank state is
/// written as the snapshot that it continues, and the next start needs no trust.
fn begin_late(
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

/// The same state once more, for a shorter time.
fn reborrow<'a>(state: &'a mut Option<&mut dyn State>) -> Option<&'a mut dyn State> {
    match state {
        Some(state) => Some(&mut **state),
        None => None,
    }
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
    chosen: Option<Chosen>,
    /// Newer ones that are not, and what is wrong with them.
    skipped: Vec<(Zxid, Damage)>,
}

struct Chosen {
    zxid: Zxid,
    path: PathBuf,
    /// Where the state stands in the file.
    state: Range<u64>,
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

    fn zxid(&self) -> Zxid {
        self.chosen.as_ref().map_or(Zxid::ZERO, |chosen| chosen.zxid)
    }

    /// A log without a snapshot continues one that is lost: every log file that we or Apache write is preceded by one.
    /// A log cannot tell whether it goes back to the very first transaction, because the first one can be of any epoch.
    fn check_beginning(&self, log_dir: &Path, config: &Config, repairs: &mut Vec<Repair>) -> Result<(), OpenError> {
        let first = names::logs(log_dir)?.into_iter().next();
        let Some((_, path)) = first.filter(|_| self.chosen.is_none()) else { return Ok(()) };
        if !config.trust_empty {
            return Err(OpenError::NoSnapshot { path, data_dir: config.data_dir.clone() });
        }
        // Without a blank state no snapshot is ever written here, and none is missed.
        if config.blank.is_some() {
            let what = "no snapshot precedes it; read as the whole history, because snapshot.trust.empty is set";
            repairs.push(Repair::new(&path, what));
        }
        Ok(())
    }

    /// Gives the snapshot to the state.
    fn restore(&self, state: &mut Option<&mut dyn State>) -> Result<(), OpenError> {
        let Some(state) = state else { return Ok(()) };
        state.clear();
        let Some(Chosen { zxid, path, state: range }) = &self.chosen else { return Ok(()) };
        let damage = |got| Damage::of_state(path, got);
        for piece in snapshot::pieces(path, range.clone())? {
            state.restore(piece?).map_err(damage)?;
        }
        Ok(state.restored(*zxid).map_err(damage)?)
    }

    /// The whole state in memory, for callers that bring no [`State`].
    fn body(&self) -> Result<Vec<u8>, OpenError> {
        let Some(Chosen { path, state, .. }) = &self.chosen else { return Ok(Vec::new()) };
        let mut body = Vec::new();
        for piece in snapshot::pieces(path, state.clone())? {
            body.extend_from_slice(&piece?);
        }
        Ok(body)
    }

    /// What was read may be in the page cache only. From here on it counts.
    fn make_durable(&self, volume: &Volume, dir: &Path) -> Result<(), FileError> {
        if let Some(chosen) = &self.chosen {
            volume.modify(&chosen.path)?.sync()?;
        }
        volume.sync_dir(dir)
    }

    /// A log that does not continue an older snapshot: the damage is that of the newer one.
    fn blame(&self, error: OpenError) -> OpenError {
        match (error, self.skipped.first()) {
            (OpenError::Damaged(_), Some((_, damage))) => damage.clone().into(),
            (error, _) => error,
        }
    }

    /// Without a newer snapshot the log must lead there: a jump from one epoch to a later one does not show that
    /// something is missing, but a snapshot stands where there was a transaction.
    fn check_skipped(&self, history: &History, repairs: &mut Vec<Repair>) -> Result<(), OpenError> {
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

/// Files that never got their names. They are nobody's any more.
fn remove_temporaries(volume: &Volume, dir: &Path) -> Result<(), FileError> {
    let temporary = names::list(dir)?.into_iter().filter(|(name, _)| *name == Name::Temporary);
    temporary.map(|(_, path)| path).try_for_each(|path| volume.remove(&path))
}
