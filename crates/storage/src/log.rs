//! The log while it is written: a batch is one write and one sync.
//!
//! In: entries, contiguous. Out: files `log.<first zxid>`, of which only the last grows.
//! Holds: nothing is written behind a flaw, because a file that was not written by this run is never continued: the
//! first append after a start, a truncation or a checkpoint begins a new file.

use pole_zab::{Entry, Zxid};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::blocks::{BLOCK_BYTES, Blocks};
use crate::progress::{Mark, Progress};
use crate::records::{self, Next, Records};
use crate::tail::BATCH_BYTES_MAX;
use crate::volume::{Output, Volume};
use crate::{FileError, WriteError, names};

/// The end of the log.
#[derive(Debug)]
pub(crate) struct Log {
    volume: Volume,
    dir: PathBuf,
    preallocate_bytes: u64,
    bytes_max: Option<u64>,
    sync: bool,
    /// The file that grows.
    growing: Option<Growing>,
    /// Records that wait for the write, after the block that the last one ended in.
    blocks: Blocks,
    /// The first entry that waits.
    first: Zxid,
    /// The last entry, written or waiting.
    last: Zxid,
    progress: Progress,
    /// Up to where entries are known to be committed. Told from other threads.
    committed: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Growing {
    output: Output,
    /// Its first entry, after which it is named.
    first: Zxid,
    /// Where the next record goes.
    end: u64,
    /// How far there is room.
    allocated: u64,
    /// How far zeros were written into it, or data.
    written: u64,
}

impl Log {
    pub(crate) fn new(volume: Volume, dir: PathBuf, config: &crate::Config, last: Zxid, progress: Progress) -> Self {
        Self {
            progress,
            committed: Arc::default(),
            volume,
            dir,
            preallocate_bytes: config.preallocate_bytes,
            bytes_max: config.log_bytes_max,
            sync: config.sync,
            growing: None,
            blocks: Blocks::default(),
            first: Zxid::ZERO,
            last,
        }
    }

    /// Where to tell up to where entries are committed.
    pub(crate) fn committed(&self) -> Arc<AtomicU64> {
        self.committed.clone()
    }

    /// Takes an entry in. It is durable after [`Self::flush`].
    pub(crate) fn append(&mut self, entry: &Entry) -> Result<(), WriteError> {
        if !follows(self.last, entry.zxid) {
            return Err(WriteError::OutOfOrder { last: self.last, next: entry.zxid });
        }
        if self.blocks.waiting() == 0 {
            self.begin(entry.zxid)?;
        }
        if !records::put(self.blocks.end(), entry.zxid, &entry.body) {
            return Err(WriteError::Mislabelled { zxid: entry.zxid, bytes: entry.body.len() });
        }
        self.last = entry.zxid;
        if self.blocks.waiting() >= BATCH_BYTES_MAX { self.flush() } else { Ok(()) }
    }

    /// Writes what waits, and makes it durable.
    pub(crate) fn flush(&mut self) -> Result<(), WriteError> {
        let bytes = self.blocks.waiting();
        if bytes == 0 {
            return Ok(());
        }
        let created = self.growing.is_none();
        let mut growing = match self.growing.take() {
            Some(growing) => growing,
            None => {
                let path = self.dir.join(names::log(self.first));
                let output = if self.sync { self.volume.create_direct(&path)? } else { self.volume.create(&path)? };
                Growing { output, first: self.first, end: 0, allocated: 0, written: 0 }
            }
        };
        let end = growing.end + bytes as u64;
        if end > growing.allocated {
            growing.make_room(end, self.preallocate_bytes)?;
        }
        let (whole, before) = self.blocks.whole();
        let padding = whole.len() - before - bytes;
        if self.sync {
            growing.output.write_through(whole, growing.end - before as u64)?;
        } else {
            growing.output.write_at(whole, growing.end - before as u64)?;
        }
        self.blocks.wrote(padding);
        if created {
            self.volume.sync_dir(&self.dir)?;
        }
        growing.end = end;
        let committed = Zxid(self.committed.load(Ordering::Relaxed));
        self.progress.advance(Mark { log: growing.first, end, last: self.last, committed }, bytes as u64)?;
        if self.sync && bytes <= SMALL_BYTES_MAX {
            growing.write_ahead();
        }
        self.growing = Some(growing);
        Ok(())
    }

    /// The next entry begins a new file.
    pub(crate) fn roll(&mut self) -> Result<(), WriteError> {
        self.flush()?;
        self.blocks.clear();
        if let Some(growing) = self.growing.take() {
            // Room that nobody will use. If a crash undoes this, zeros are left, which end a file as well.
            growing.output.set_len(growing.end)?;
        }
        Ok(())
    }

    /// Drops every entry above `to`, from the end backwards. A crash leaves a part of it done: a history that is
    /// shorter than before, and whole.
    pub(crate) fn truncate(&mut self, to: Zxid) -> Result<(), WriteError> {
        self.roll()?;
        self.progress.clear()?;
        let newest = truncate(&self.volume, &self.dir, to)?;
        self.last = self.last.min(to);
        if let Some((log, end)) = newest {
            let committed = Zxid(self.committed.load(Ordering::Relaxed));
            // Otherwise damage to what is left could be taken for a torn write until the next append.
            self.progress.advance(Mark { log, end, last: self.last, committed }, 0)?;
        }
        Ok(())
    }

    /// The history is about to be replaced by a snapshot.
    pub(crate) fn prepare_restart(&mut self) -> Result<(), WriteError> {
        self.roll()?;
        Ok(self.progress.clear()?)
    }

    /// The history was replaced by a snapshot.
    pub(crate) fn restart(&mut self, at: Zxid) {
        self.growing = None;
        self.blocks.clear();
        self.last = at;
    }

    /// A batch begins; with the header, if it begins a file.
    fn begin(&mut self, first: Zxid) -> Result<(), WriteError> {
        self.first = first;
        let full = |growing: &Growing| self.bytes_max.is_some_and(|max| growing.end >= max);
        if self.growing.as_ref().is_some_and(full) {
            self.roll()?;
        }
        if self.growing.is_none() {
            self.blocks.end().extend_from_slice(&records::file_header(self.last));
        }
        Ok(())
    }
}

impl Growing {
    /// Room up to `end` and beyond. On a disk that is nearly full, what is needed now will do.
    fn make_room(&mut self, end: u64, beyond: u64) -> Result<(), FileError> {
        let mut room = (end + beyond).next_multiple_of(BLOCK_BYTES as u64);
        match self.output.allocate(self.allocated, room) {
            Err(error) if error.source.kind() == ErrorKind::StorageFull => {
                room = end.next_multiple_of(BLOCK_BYTES as u64);
                self.output.allocate(self.allocated, room)?;
            }
            other => other?,
        }
        self.allocated = room;
        Ok(())
    }

    /// Writes zeros into the room that comes next. To sync data in room that was only reserved the file system must commit its
    /// journal too, which takes half as long again and now and then much longer: so that is done once for many
    /// small writes. Large ones pay it themselves; writing everything twice would cost them more.
    fn write_ahead(&mut self) {
        self.written = self.written.max(self.end.next_multiple_of(BLOCK_BYTES as u64));
        let to = (self.written + AHEAD_BYTES).min(self.allocated);
        if self.written < self.end + AHEAD_BYTES && self.written < to {
            // Zeros are there already, as far as anyone can read: if this fails nothing is lost but time.
            let _ = self.output.write_zeros(self.written, to);
            self.written = to;
        }
    }
}

/// Whether `next` may stand right after `last` in a history.
pub(crate) fn follows(last: Zxid, next: Zxid) -> bool {
    if next.epoch() == last.epoch() {
        next.counter().checked_sub(1) == Some(last.counter())
    } else {
        next.epoch() > last.epoch() && next.counter() == 1
    }
}

/// Drops every entry above `to` from the files of a directory. Returns what the newest file begins with, and where it
/// ends now.
pub(crate) fn truncate(volume: &Volume, dir: &Path, to: Zxid) -> Result<Option<(Zxid, u64)>, FileError> {
    for (first, path) in names::logs(dir)?.into_iter().rev() {
        if first > to {
            volume.remove(&path)?;
            // Without this a crash could bring this file back after an older one is gone.
            volume.sync_dir(dir)?;
            continue;
        }
        let mut records = Records::open(&path)?;
        let mut end = records.position();
        while let Next::Entry(entry) = records.next()? {
            if entry.zxid > to {
                break;
            }
            end = records.position();
        }
        if end < records.data_end() {
            let output = volume.modify(&path)?;
            output.set_len(end)?;
            output.sync()?;
        }
        return Ok(Some((first, end)));
    }
    Ok(None)
}

/// The last entry in the files of a directory.
pub(crate) fn last(dir: &Path) -> Result<Option<Zxid>, FileError> {
    for (_, path) in names::logs(dir)?.into_iter().rev() {
        let mut records = Records::open(&path)?;
        let mut last = None;
        while let Next::Entry(entry) = records.next()? {
            last = Some(entry.zxid);
        }
        if last.is_some() {
            return Ok(last);
        }
    }
    Ok(None)
}

/// A few transactions: somebody waits for each of them.
const SMALL_BYTES_MAX: usize = 16 << 10;

/// So much is written ahead at least, and at most twice as much.
const AHEAD_BYTES: u64 = 256 << 10;
