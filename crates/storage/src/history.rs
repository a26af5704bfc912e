//! Reading the log at start-up: one contiguous run of entries that continues the snapshot.
//!
//! The result is the entries that are not known to be committed, some before them for followers that are a little
//! behind, and what has to be cut off the end. Entries known to be committed are applied to the state as they are read,
//! if there is one, so that memory use does not grow with the log.
//!
//! Invariants:
//! - The run is contiguous. A gap below the snapshot only shortens it (a leader's snapshot was installed in between); a
//!   gap above it is damage.
//! - Nothing on disk is changed before everything was read.

use pole_jute::VERSION;
use pole_types::Zxid;
use pole_zab::{Entry, Epochs};
use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::log::follows;
use crate::progress::Mark;
use crate::records::{Flaw, Next, Records};
use crate::volume::Volume;
use crate::{Damage, FileError, OpenError, Repair, State, names, tail};

/// What is known before the log is read.
pub(crate) struct ReadContext<'a> {
    /// The snapshot that the log continues.
    pub(crate) snapshot: Zxid,
    /// Damaged newer snapshots whose transactions were not read yet.
    pub(crate) skipped: Vec<Zxid>,
    pub(crate) mark: Option<Mark>,
    /// Everything up to here is committed, if the log contains it.
    pub(crate) committed: Zxid,
    pub(crate) config: &'a crate::Config,
}

/// The history read so far.
pub(crate) struct History<'a> {
    context: ReadContext<'a>,
    /// The state to which committed entries are applied.
    state: Option<&'a mut dyn State>,
    /// The last entry applied to it.
    applied: Zxid,
    /// The number of entries applied, and their size in bytes.
    replayed: (u64, u64),
    /// The epochs of the history up to `applied`, as far as they are known.
    epochs: Epochs,
    entries: VecDeque<Entry>,
    /// The last entry of the run. It may no longer be in `entries`.
    run_end: Option<Zxid>,
    /// The memory use of the entries up to `applied`.
    below_bytes: usize,
    /// Ends of files after the last entry that must be cut off.
    cuts: Vec<Cut>,
    /// The last file with a valid end, and the offset of that end.
    end: Option<(PathBuf, u64)>,
    /// Files with entries above the snapshot.
    above: Vec<PathBuf>,
    /// Damage below the snapshot, which is harmless.
    skipped_damage: Vec<Repair>,
}

/// A file that must be truncated.
#[derive(Debug)]
struct Cut {
    path: PathBuf,
    /// The new length; 0 if the file holds no entry at all.
    at: u64,
    /// What was found instead of an entry.
    damage: Option<Damage>,
}

impl Cut {
    /// What start-up does about it.
    fn repair(&self) -> Repair {
        let why = match &self.damage {
            None => "nothing but room".to_owned(),
            Some(damage) => format!("expected {}, got {}", damage.expected, damage.got),
        };
        let what = match self.at {
            0 => format!("removed, it holds no transaction: {why}"),
            at => format!("torn tail cut off at byte {at}: {why}"),
        };
        Repair::new(&self.path, what)
    }
}

/// The location of an entry.
struct Location<'a> {
    path: &'a Path,
    offset: u64,
    /// For the first entry of a file: the entry before it, if the header names it.
    previous: Option<Zxid>,
}

/// One file of the log.
struct Source<'a> {
    path: &'a Path,
    /// The next file starts at or below the snapshot, so this one ends below it.
    below: bool,
    /// Everything before this offset is known to be durable.
    durable_end: u64,
}

impl<'a> History<'a> {
    pub(crate) fn read(
        dir: &Path,
        context: ReadContext<'a>,
        state: Option<&'a mut dyn State>,
    ) -> Result<Self, OpenError> {
        let files = names::logs(dir)?;
        let snapshot = context.snapshot;
        if let Some(mark) = &context.mark {
            mark.check_present(dir, files.last().map(|(first, _)| *first), snapshot)?;
        }
        let needed = first_needed(&files, snapshot, context.config.retain_bytes)?;
        let mut history = Self {
            context,
            state,
            applied: snapshot,
            replayed: (0, 0),
            epochs: Epochs::starting_at(snapshot),
            entries: VecDeque::new(),
            run_end: None,
            below_bytes: 0,
            cuts: Vec::new(),
            end: None,
            above: Vec::new(),
            skipped_damage: Vec::new(),
        };
        for (index, (first, path)) in files.iter().enumerate().skip(needed) {
            let below = files.get(index + 1).is_some_and(|(next, _)| *next <= snapshot);
            // Only the newest file can be torn. Older files are known to be continued by the next one.
            let mark = history.context.mark.filter(|_| index + 1 == files.len());
            let durable_end = mark.map_or(0, |mark| mark.durable_end(*first));
            history.read_file(&Source { path, below, durable_end })?;
        }
        if history.run_end.is_some_and(|end| end < snapshot) {
            history.discard_run();
        }
        Ok(history)
    }

    /// The end of the history.
    pub(crate) fn last(&self) -> Zxid {
        self.run_end.unwrap_or(self.context.snapshot)
    }

    /// The position and the epochs of the state: the snapshot and what was applied after it.
    pub(crate) fn applied(&self) -> (Zxid, Epochs) {
        (self.applied, self.epochs.clone())
    }

    /// The number of transactions applied to the state, and their size in bytes.
    pub(crate) fn replayed(&self) -> (u64, u64) {
        self.replayed
    }

    /// Whether the transaction of a damaged snapshot was not found in the log.
    pub(crate) fn misses(&self, skipped: Zxid) -> bool {
        self.context.skipped.contains(&skipped)
    }

    /// Whether the log contains the transaction up to which it was recorded as committed. If not, the record refers to
    /// another log, and what was applied to the state may not be committed.
    pub(crate) fn holds_committed(&self) -> bool {
        self.state.is_none() || self.context.config.alone || self.applied >= self.context.committed
    }

    /// What [`History::repair`] would do.
    pub(crate) fn planned_repairs(&self) -> Vec<Repair> {
        self.skipped_damage.iter().cloned().chain(self.cuts.iter().rev().map(Cut::repair)).collect()
    }

    /// Cuts off what was never durable, makes the rest durable, and returns the entries.
    ///
    /// If the last run ended between a write and its sync, what was read may be in the page cache only. From now on it
    /// counts as written, so it is synced first.
    pub(crate) fn repair(
        self,
        volume: &Volume,
        dir: &Path,
        repairs: &mut Vec<Repair>,
    ) -> Result<Vec<Entry>, FileError> {
        repairs.extend(self.skipped_damage);
        // Its end matters even if the snapshot contains all of it: a truncation may not be durable yet, and what it
        // removed must not reappear.
        let newest = self.end.as_ref().map(|(path, _)| path.clone()).filter(|path| !self.above.contains(path));
        self.end.map_or(Ok(()), |(path, at)| release_unused_space(volume, &path, at))?;
        for cut in self.cuts.into_iter().rev() {
            if cut.at == 0 {
                volume.remove(&cut.path)?;
                volume.sync_dir(dir)?;
            } else {
                let output = volume.modify(&cut.path)?;
                output.set_len(cut.at)?;
                output.sync()?;
            }
            repairs.push(cut.repair());
        }
        for path in self.above.iter().chain(&newest) {
            volume.modify(path)?.sync()?;
        }
        volume.sync_dir(dir)?;
        Ok(self.entries.into())
    }

    fn read_file(&mut self, source: &Source) -> Result<(), OpenError> {
        let path = source.path;
        let mut records = Records::open(path)?;
        if records.version() != VERSION {
            return Err(OpenError::Version { path: path.into(), expected: VERSION, got: records.version().into() });
        }
        let mut empty = true;
        loop {
            let offset = records.position();
            match records.next()? {
                Next::Entry(entry) => {
                    let previous = records.previous().filter(|_| empty);
                    empty = false;
                    self.add_entry(entry, &Location { path, offset, previous })?;
                }
                Next::End if offset < source.durable_end => {
                    return Err(Mark::missing(path, offset, source.durable_end).into());
                }
                Next::End if empty => break self.cuts.push(Cut { path: path.into(), at: 0, damage: None }),
                Next::End => break self.end = Some((path.into(), offset)),
                Next::Flaw(flaw) if source.below => break self.skip_damage(records.damage(flaw)),
                Next::Flaw(flaw) => break self.check_torn(&records, flaw, source.durable_end, empty)?,
            }
        }
        Ok(())
    }

    /// Adds the next entry of the log.
    fn add_entry(&mut self, entry: Entry, location: &Location) -> Result<(), OpenError> {
        let (zxid, snapshot) = (entry.zxid, self.context.snapshot);
        let last = self.run_end;
        let after = |position: Zxid| follows(position, zxid) && self.may_follow(location, position);
        // A run that ends below the snapshot does not lead to it, even if a new epoch seems to continue it.
        let continues = |last| after(last) && !(last < snapshot && snapshot < zxid);
        if !last.is_some_and(continues) {
            let below = zxid <= snapshot && last.is_none_or(|last| last < zxid);
            let bridged = last.is_none_or(|last| last <= snapshot) && after(snapshot);
            if !below && !bridged {
                return Err(gap(location, last.unwrap_or(snapshot), zxid).into());
            }
            self.discard_run();
        }
        self.accept_torn(last, zxid, location.previous)?;
        if zxid > snapshot && self.above.last().is_none_or(|path| path != location.path) {
            self.above.push(location.path.into());
        }
        self.context.skipped.retain(|skipped| *skipped != zxid);
        self.apply(&entry, location)?;
        self.keep(entry);
        Ok(())
    }

    /// Whether the entry may follow `position` according to the header of its file.
    fn may_follow(&self, location: &Location, position: Zxid) -> bool {
        let trusted = self.context.config.trust_empty && position == Zxid::ZERO;
        trusted || location.previous.is_none_or(|previous| previous == position)
    }

    /// Applies the entry to the state if it is committed and not in the snapshot.
    fn apply(&mut self, entry: &Entry, location: &Location) -> Result<(), OpenError> {
        let committed = if self.context.config.alone { Zxid(u64::MAX) } else { self.context.committed };
        if let Some(state) = &mut self.state
            && entry.zxid > self.context.snapshot
            && entry.zxid <= committed
        {
            state.apply(entry).map_err(|got| Damage {
                path: location.path.into(),
                offset: location.offset,
                expected: format!("the transaction {}", entry.zxid),
                got,
            })?;
            self.applied = entry.zxid;
            self.replayed = (self.replayed.0 + 1, self.replayed.1 + entry.body.len() as u64);
            self.epochs.push(entry.zxid);
        }
        Ok(())
    }

    /// Keeps the entry, and drops applied entries that exceed the memory limit.
    fn keep(&mut self, entry: Entry) {
        let applied = self.applied;
        self.run_end = Some(entry.zxid);
        if entry.zxid <= applied {
            self.below_bytes += entry.cost_bytes();
        }
        self.entries.push_back(entry);
        while self.below_bytes > self.context.config.retain_bytes
            && let Some(oldest) = self.entries.pop_front_if(|oldest| oldest.zxid <= applied)
        {
            self.below_bytes -= oldest.cost_bytes();
        }
    }

    /// Discards the run read so far, because it does not lead to what follows.
    fn discard_run(&mut self) {
        self.entries.clear();
        self.below_bytes = 0;
        self.run_end = None;
    }

    /// Handles an invalid record in a file that matters: a torn end is cut off, anything else is damage.
    fn check_torn(&mut self, records: &Records, flaw: Flaw, durable_end: u64, empty: bool) -> Result<(), OpenError> {
        let at = records.position();
        if !tail::is_torn(records, &flaw, durable_end, self.context.config.sync)? {
            return Err(records.damage(flaw).into());
        }
        let damage = Some(records.damage(flaw));
        self.cuts.push(Cut { path: records.path().into(), at: if empty { 0 } else { at }, damage });
        Ok(())
    }

    /// Handles a torn end that is followed by another file. Apache leaves such ends behind, and they are harmless if
    /// the next file proves that nothing is missing: by its header, or by the next counter of the same epoch. A new
    /// epoch alone proves nothing.
    fn accept_torn(&mut self, last: Option<Zxid>, next: Zxid, previous: Option<Zxid>) -> Result<(), OpenError> {
        let same_epoch = last.is_some_and(|last| last.epoch() == next.epoch());
        let proved = same_epoch || previous.is_some_and(|previous| last == Some(previous));
        match self.cuts.drain(..).find_map(|cut| cut.damage) {
            Some(damage) if next > self.context.snapshot && !proved => Err(damage.into()),
            Some(_) | None => Ok(()),
        }
    }

    /// Skips damage below the snapshot, which contains what is lost. What was read before it no longer leads to the
    /// snapshot.
    fn skip_damage(&mut self, damage: Damage) {
        self.discard_run();
        let Damage { path, offset, expected, got } = damage;
        let what = format!("damaged at byte {offset}: expected {expected}, got {got}; the snapshot has it, not needed");
        self.skipped_damage.push(Repair { path, what });
    }
}

/// The damage of a file whose first entry does not follow what was read.
fn gap(location: &Location, last: Zxid, zxid: Zxid) -> Damage {
    let (path, offset, expected) = (location.path.into(), location.offset, format!("the transaction after {last}"));
    let got = match location.previous.filter(|previous| *previous != last) {
        Some(previous) => format!("{zxid}, which comes after {previous}"),
        None => zxid.to_string(),
    };
    Damage { path, offset, expected, got }
}

/// Releases preallocated space that a crash left unused. The file is not continued, and a server that crashes often
/// would fill its disk.
fn release_unused_space(volume: &Volume, path: &Path, at: u64) -> Result<(), FileError> {
    let taken = path.metadata().map_err(FileError::during("look at", path))?.blocks() * 512;
    if taken > at + UNUSED_BYTES_MAX { volume.modify(path)?.set_len(at) } else { Ok(()) }
}

/// The index of the file that contains the snapshot's position, or of older ones that fit into `retain_bytes`.
fn first_needed(files: &[(Zxid, PathBuf)], snapshot: Zxid, retain_bytes: usize) -> Result<usize, FileError> {
    let mut needed = files.iter().rposition(|(first, _)| *first <= snapshot).unwrap_or(0);
    let mut room = retain_bytes as u64;
    while needed > 0 {
        let path = &files[needed - 1].1;
        let bytes = path.metadata().map_err(FileError::during("look at", path))?.len();
        if bytes > room {
            break;
        }
        room -= bytes;
        needed -= 1;
    }
    Ok(needed)
}

/// Unused space below this is not worth modifying a file for.
const UNUSED_BYTES_MAX: u64 = 1 << 20;
