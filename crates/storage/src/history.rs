//! The log as start-up reads it: one run of entries, without a gap, that continues the snapshot.
//!
//! In: the log files and the position of the snapshot. Out: the entries that are not known to be committed, and some
//! before them for followers that are a little behind; and what has to be cut off the end. What is known to be
//! committed goes into the state as it is read, if there is one to take it, so that memory does not grow with the log.
//!
//! Invariant: the run is contiguous. A gap below the snapshot only shortens it (a leader's snapshot came in between); a
//! gap above it is damage. Nothing on the disk is changed before everything was read.

use pole_jute::VERSION;
use pole_zab::{Entry, Epochs, Zxid};
use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::log::follows;
use crate::progress::Mark;
use crate::records::{Flaw, Next, Records};
use crate::volume::Volume;
use crate::{Damage, FileError, OpenError, Repair, State, names, tail};

/// What is known before the log is read.
pub(crate) struct Known<'a> {
    /// The snapshot that the log continues.
    pub(crate) snapshot: Zxid,
    /// Newer snapshots that are damaged, as long as their transactions were not read.
    pub(crate) skipped: Vec<Zxid>,
    pub(crate) mark: Option<Mark>,
    /// Everything up to here is committed, if the log holds it.
    pub(crate) committed: Zxid,
    pub(crate) config: &'a crate::Config,
}

/// What was read so far.
pub(crate) struct History<'a> {
    known: Known<'a>,
    /// Where entries that are committed go.
    state: Option<&'a mut dyn State>,
    /// The last entry that went there.
    applied: Zxid,
    /// How many went there, and how many bytes they have.
    replayed: (u64, u64),
    /// The epochs up to there, as far as they are known.
    epochs: Epochs,
    entries: VecDeque<Entry>,
    /// The last entry of the run. It may no longer be among those held.
    run_end: Option<Zxid>,
    /// What the entries up to the snapshot, or up to what was applied, cost.
    below_bytes: usize,
    /// Ends of files after the last entry, to be cut off.
    cuts: Vec<Cut>,
    /// The last file that ends as it should, and where.
    end: Option<(PathBuf, u64)>,
    /// Files with entries above the snapshot.
    above: Vec<PathBuf>,
    /// What is wrong below the snapshot, where it does no harm.
    passed_over: Vec<Repair>,
}

/// Where a file is to end.
#[derive(Debug)]
struct Cut {
    path: PathBuf,
    /// 0: it holds no entry at all.
    at: u64,
    /// What is there instead of an entry.
    damage: Option<Damage>,
}

/// Where in which file an entry was found.
struct Place<'a> {
    path: &'a Path,
    offset: u64,
    /// For the first entry of a file: which one comes before it, if the file says so.
    previous: Option<Zxid>,
}

/// One file of the log.
struct Source<'a> {
    path: &'a Path,
    /// The next file starts at or below the snapshot, so this one ends there.
    below: bool,
    /// What comes before this byte is known to be durable.
    durable_end: u64,
}

impl<'a> History<'a> {
    pub(crate) fn read(dir: &Path, known: Known<'a>, state: Option<&'a mut dyn State>) -> Result<Self, OpenError> {
        let files = names::logs(dir)?;
        let snapshot = known.snapshot;
        if let Some(mark) = &known.mark {
            mark.check_present(dir, files.last().map(|(first, _)| *first), snapshot)?;
        }
        let needed = first_needed(&files, snapshot, known.config.retain_bytes)?;
        let mut history = Self {
            known,
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
            passed_over: Vec::new(),
        };
        for (index, (first, path)) in files.iter().enumerate().skip(needed) {
            let below = files.get(index + 1).is_some_and(|(next, _)| *next <= snapshot);
            // Only the newest file can be torn; what is known of an older one is that the next continues it.
            let mark = history.known.mark.filter(|_| index + 1 == files.len());
            let durable_end = mark.map_or(0, |mark| mark.durable_end(*first));
            history.read_file(&Source { path, below, durable_end })?;
        }
        if history.run_end.is_some_and(|end| end < snapshot) {
            history.forget_run();
        }
        Ok(history)
    }

    /// The end of the history.
    pub(crate) fn last(&self) -> Zxid {
        self.run_end.unwrap_or(self.known.snapshot)
    }

    /// What the state holds: the snapshot, and what was applied after it.
    pub(crate) fn applied(&self) -> (Zxid, Epochs) {
        (self.applied, self.epochs.clone())
    }

    /// How many transactions, with how many bytes, went into the state.
    pub(crate) fn replayed(&self) -> (u64, u64) {
        self.replayed
    }

    /// Whether the transaction of a damaged snapshot was not read.
    pub(crate) fn misses(&self, skipped: Zxid) -> bool {
        self.known.skipped.contains(&skipped)
    }

    /// Whether the log holds the transaction up to which it was said to be committed. If not, that was said of another
    /// log, and what went into the state may not be committed.
    pub(crate) fn holds_committed(&self) -> bool {
        self.state.is_none() || self.known.config.alone || self.applied >= self.known.committed
    }

    /// Cuts off what was never durable, makes the rest durable, and gives the entries away.
    ///
    /// What was read may be in the page cache only, if the last run ended between a write and its sync. From here on it
    /// counts as written, so it is synced first.
    pub(crate) fn mend(self, volume: &Volume, dir: &Path, repairs: &mut Vec<Repair>) -> Result<Vec<Entry>, FileError> {
        repairs.extend(self.passed_over);
        // Its end counts, even if the snapshot holds all of it: a truncation may not be durable yet, and what was cut off
        // must not come back.
        let newest = self.end.as_ref().map(|(path, _)| path.clone()).filter(|path| !self.above.contains(path));
        self.end.map_or(Ok(()), |(path, at)| give_room_back(volume, &path, at))?;
        for Cut { path, at, damage } in self.cuts.into_iter().rev() {
            let why = damage.map_or("nothing but room".into(), |d| format!("expected {}, got {}", d.expected, d.got));
            if at == 0 {
                volume.remove(&path)?;
                volume.sync_dir(dir)?;
                repairs.push(Repair::new(&path, format!("removed, it holds no transaction: {why}")));
            } else {
                let output = volume.modify(&path)?;
                output.set_len(at)?;
                output.sync()?;
                repairs.push(Repair::new(&path, format!("torn tail cut off at byte {at}: {why}")));
            }
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
                    self.take(entry, &Place { path, offset, previous })?;
                }
                Next::End if offset < source.durable_end => {
                    return Err(Mark::missing(path, offset, source.durable_end).into());
                }
                Next::End if empty => break self.cuts.push(Cut { path: path.into(), at: 0, damage: None }),
                Next::End => break self.end = Some((path.into(), offset)),
                Next::Flaw(flaw) if source.below => break self.pass_over(records.damage(flaw)),
                Next::Flaw(flaw) => break self.judge(&records, flaw, source.durable_end, empty)?,
            }
        }
        Ok(())
    }

    /// The next entry of the log.
    fn take(&mut self, entry: Entry, place: &Place) -> Result<(), OpenError> {
        let (zxid, snapshot) = (entry.zxid, self.known.snapshot);
        let last = self.run_end;
        let after = |position: Zxid| follows(position, zxid) && self.says_after(place, position);
        // A run that stopped short of the snapshot is not what led to it, even if a new epoch seems to continue it.
        let continues = |last| after(last) && !(last < snapshot && snapshot < zxid);
        if !last.is_some_and(continues) {
            let below = zxid <= snapshot && last.is_none_or(|last| last < zxid);
            let bridged = last.is_none_or(|last| last <= snapshot) && after(snapshot);
            if !below && !bridged {
                return Err(gap(place, last.unwrap_or(snapshot), zxid).into());
            }
            self.forget_run();
        }
        self.accept_torn(last, zxid, place.previous)?;
        if zxid > snapshot && self.above.last().is_none_or(|path| path != place.path) {
            self.above.push(place.path.into());
        }
        self.known.skipped.retain(|skipped| *skipped != zxid);
        self.apply(&entry, place)?;
        self.keep(entry);
        Ok(())
    }

    /// Whether the file does not say that its first entry comes after another position.
    fn says_after(&self, place: &Place, position: Zxid) -> bool {
        let trusted = self.known.config.trust_empty && position == Zxid::ZERO;
        trusted || place.previous.is_none_or(|previous| previous == position)
    }

    /// Gives the entry to the state if it is committed and not in the snapshot.
    fn apply(&mut self, entry: &Entry, place: &Place) -> Result<(), OpenError> {
        let committed = if self.known.config.alone { Zxid(u64::MAX) } else { self.known.committed };
        if let Some(state) = &mut self.state
            && entry.zxid > self.known.snapshot
            && entry.zxid <= committed
        {
            state.apply(entry).map_err(|got| Damage {
                path: place.path.into(),
                offset: place.offset,
                expected: format!("the transaction {}", entry.zxid),
                got,
            })?;
            self.applied = entry.zxid;
            self.replayed = (self.replayed.0 + 1, self.replayed.1 + entry.body.len() as u64);
            self.epochs.push(entry.zxid);
        }
        Ok(())
    }

    /// Holds the entry, and no more of those before what was applied than memory was given for.
    fn keep(&mut self, entry: Entry) {
        let applied = self.applied;
        self.run_end = Some(entry.zxid);
        if entry.zxid <= applied {
            self.below_bytes += entry.cost_bytes();
        }
        self.entries.push_back(entry);
        while self.below_bytes > self.known.config.retain_bytes
            && let Some(oldest) = self.entries.pop_front_if(|oldest| oldest.zxid <= applied)
        {
            self.below_bytes -= oldest.cost_bytes();
        }
    }

    /// What was read so far does not lead to what comes next.
    fn forget_run(&mut self) {
        self.entries.clear();
        self.below_bytes = 0;
        self.run_end = None;
    }

    /// Something that is no record, in a file that matters.
    fn judge(&mut self, records: &Records, flaw: Flaw, durable_end: u64, empty: bool) -> Result<(), OpenError> {
        let at = records.position();
        if !tail::is_torn(records, &flaw, durable_end, self.known.config.sync)? {
            return Err(records.damage(flaw).into());
        }
        let damage = Some(records.damage(flaw));
        self.cuts.push(Cut { path: records.path().into(), at: if empty { 0 } else { at }, damage });
        Ok(())
    }

    /// An end that seemed torn is followed by another file. Apache leaves such ends behind, and they may stay if the
    /// next file proves that nothing is missing: by what its header says, or by the next counter of the same epoch. A
    /// new epoch alone proves nothing.
    fn accept_torn(&mut self, last: Option<Zxid>, next: Zxid, previous: Option<Zxid>) -> Result<(), OpenError> {
        let same_epoch = last.is_some_and(|last| last.epoch() == next.epoch());
        let proved = same_epoch || previous.is_some_and(|previous| last == Some(previous));
        match self.cuts.drain(..).find_map(|cut| cut.damage) {
            Some(damage) if next > self.known.snapshot && !proved => Err(damage.into()),
            Some(_) | None => Ok(()),
        }
    }

    /// The snapshot has what is lost there. What was read before it does not reach the snapshot any more.
    fn pass_over(&mut self, damage: Damage) {
        self.forget_run();
        let Damage { path, offset, expected, got } = damage;
        let what = format!("damaged at byte {offset}: expected {expected}, got {got}; the snapshot has it, not needed");
        self.passed_over.push(Repair { path, what });
    }
}

/// A file whose first entry does not come after what was read.
fn gap(place: &Place, last: Zxid, zxid: Zxid) -> Damage {
    let (path, offset, expected) = (place.path.into(), place.offset, format!("the transaction after {last}"));
    let got = match place.previous.filter(|previous| *previous != last) {
        Some(previous) => format!("{zxid}, which comes after {previous}"),
        None => zxid.to_string(),
    };
    Damage { path, offset, expected, got }
}

/// Room that a crash left unused: this file is not continued, and a server that crashes often would fill its disk.
fn give_room_back(volume: &Volume, path: &Path, at: u64) -> Result<(), FileError> {
    let taken = path.metadata().map_err(FileError::during("look at", path))?.blocks() * 512;
    if taken > at + UNUSED_BYTES_MAX { volume.modify(path)?.set_len(at) } else { Ok(()) }
}

/// The file that the snapshot lies in, or older ones if they fit into what is kept in memory.
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

/// As much unused room as is not worth touching a file for.
const UNUSED_BYTES_MAX: u64 = 1 << 20;
