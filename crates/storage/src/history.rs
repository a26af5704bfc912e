//! The log as start-up reads it: one run of entries, without a gap, that continues the snapshot.
//!
//! In: the log files and the position of the snapshot. Out: the entries above it, and some below for followers that
//! are a little behind; and what has to be cut off the end.
//! Holds: the run is contiguous. A gap below the snapshot only shortens it (a leader's snapshot came in between); a gap
//! above it is damage. Nothing is changed before everything was read.

use pole_jute::VERSION;
use pole_zab::{Entry, Zxid};
use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::log::follows;
use crate::records::{Flaw, Next, Records};
use crate::volume::Volume;
use crate::{Damage, FileError, OpenError, Repair, names, tail};

/// What was read so far.
#[derive(Debug)]
pub(crate) struct History {
    snapshot: Zxid,
    /// See [`crate::Config::retain_bytes`].
    retain_bytes: usize,
    entries: VecDeque<Entry>,
    /// What the entries up to the snapshot cost.
    below_bytes: usize,
    /// Ends of files after the last entry, to be cut off.
    cuts: Vec<Cut>,
    /// The last file that ends as it should, and where.
    end: Option<(PathBuf, u64)>,
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

impl History {
    pub(crate) fn read(dir: &Path, snapshot: Zxid, retain_bytes: usize) -> Result<Self, OpenError> {
        let files = names::logs(dir)?;
        let mut history = Self {
            snapshot,
            retain_bytes,
            entries: VecDeque::new(),
            below_bytes: 0,
            cuts: Vec::new(),
            end: None,
            passed_over: Vec::new(),
        };
        for index in first_needed(&files, snapshot, retain_bytes)?..files.len() {
            // The next file starts below the snapshot, so this one ends there.
            let below = files.get(index + 1).is_some_and(|(first, _)| *first <= snapshot);
            history.read_file(&files[index].1, below)?;
        }
        if history.entries.back().is_some_and(|entry| entry.zxid < snapshot) {
            history.entries.clear();
        }
        Ok(history)
    }

    /// The end of the history.
    pub(crate) fn last(&self) -> Zxid {
        self.entries.back().map_or(self.snapshot, |entry| entry.zxid)
    }

    /// Whether this transaction was read.
    pub(crate) fn holds(&self, zxid: Zxid) -> bool {
        self.entries.binary_search_by_key(&zxid, |entry| entry.zxid).is_ok()
    }

    /// Cuts off what was never durable, and gives the entries away.
    pub(crate) fn mend(self, volume: &Volume, dir: &Path, repairs: &mut Vec<Repair>) -> Result<Vec<Entry>, FileError> {
        repairs.extend(self.passed_over);
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
        Ok(self.entries.into())
    }

    fn read_file(&mut self, path: &Path, below: bool) -> Result<(), OpenError> {
        let mut records = Records::open(path)?;
        if records.version() != VERSION {
            return Err(OpenError::Version { path: path.into(), expected: VERSION, got: records.version().into() });
        }
        let mut empty = true;
        loop {
            let at = records.position();
            match records.next()? {
                Next::Entry(entry) => {
                    empty = false;
                    self.take(entry, path, at)?;
                }
                Next::End if empty => break self.cuts.push(Cut { path: path.into(), at: 0, damage: None }),
                Next::End => break self.end = Some((path.into(), at)),
                Next::Flaw(flaw) if below => break self.pass_over(records.damage(flaw)),
                Next::Flaw(flaw) => break self.judge(&records, flaw, empty)?,
            }
        }
        Ok(())
    }

    /// The next entry of the log, found in that file at that byte.
    fn take(&mut self, entry: Entry, path: &Path, offset: u64) -> Result<(), OpenError> {
        let (zxid, snapshot) = (entry.zxid, self.snapshot);
        let last = self.entries.back().map(|entry| entry.zxid);
        // A run that stopped short of the snapshot is not what led to it, even if a new epoch seems to continue it.
        let continues = |last| follows(last, zxid) && !(last < snapshot && snapshot < zxid);
        if !last.is_some_and(continues) {
            let below = zxid <= snapshot && last.is_none_or(|last| last < zxid);
            let bridged = last.is_none_or(|last| last <= snapshot) && follows(snapshot, zxid);
            if !below && !bridged {
                let expected = format!("the transaction after {}", last.unwrap_or(snapshot));
                return Err(Damage { path: path.into(), offset, expected, got: zxid.to_string() }.into());
            }
            self.entries.clear();
            self.below_bytes = 0;
        }
        self.accept_torn(last, zxid)?;
        if zxid <= snapshot {
            self.below_bytes += entry.cost_bytes();
        }
        self.entries.push_back(entry);
        while self.below_bytes > self.retain_bytes
            && let Some(oldest) = self.entries.pop_front_if(|oldest| oldest.zxid <= snapshot)
        {
            self.below_bytes -= oldest.cost_bytes();
        }
        Ok(())
    }

    /// Something that is no record, in a file that matters.
    fn judge(&mut self, records: &Records, flaw: Flaw, empty: bool) -> Result<(), OpenError> {
        let at = records.position();
        if !tail::is_torn(at, &flaw, &records.rest()?) {
            return Err(records.damage(flaw).into());
        }
        let damage = Some(records.damage(flaw));
        self.cuts.push(Cut { path: records.path().into(), at: if empty { 0 } else { at }, damage });
        Ok(())
    }

    /// An end that seemed torn is followed by another file. Apache leaves such ends behind, and they may stay if the
    /// next counter of the same epoch proves that nothing is missing. A new epoch proves nothing.
    fn accept_torn(&mut self, last: Option<Zxid>, next: Zxid) -> Result<(), OpenError> {
        let same_epoch = last.is_some_and(|last| last.epoch() == next.epoch());
        match self.cuts.drain(..).find_map(|cut| cut.damage) {
            Some(damage) if next > self.snapshot && !same_epoch => Err(damage.into()),
            Some(_) | None => Ok(()),
        }
    }

    /// The snapshot has what is lost there. What was read before it does not reach the snapshot any more.
    fn pass_over(&mut self, damage: Damage) {
        self.entries.clear();
        self.below_bytes = 0;
        let Damage { path, offset, expected, got } = damage;
        let what = format!("damaged at byte {offset}: expected {expected}, got {got}; the snapshot has it, not needed");
        self.passed_over.push(Repair { path, what });
    }
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
