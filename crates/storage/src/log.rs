//! Writing the log: a batch is one write and one sync.
//!
//! The files are named `log.<first zxid>`, and only the last one grows.
//!
//! Invariant: nothing is written after a damaged record, because files of an earlier run are never continued. The first
//! append after a start, a truncation or a checkpoint starts a new file.

use pole_types::Zxid;
use pole_zab::Entry;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::blocks::{BLOCK_BYTES, Blocks};
use crate::progress::{Mark, Progress};
use crate::records::{self, Next, Records};
use crate::tail::BATCH_BYTES_MAX;
use crate::volume::{Output, Volume};
use crate::{FileError, Flush, WriteError, names};

#[derive(Debug)]
pub(crate) struct Log {
    volume: Volume,
    dir: PathBuf,
    preallocate_bytes: u64,
    bytes_max: Option<u64>,
    sync: bool,
    /// The file being appended to.
    active: Option<ActiveFile>,
    /// Records to be written, preceded by the unfinished block of the last write.
    blocks: Blocks,
    /// The first entry to be written.
    first: Zxid,
    /// The number of entries to be written.
    pending: u64,
    observer: Observer,
    /// The last entry, whether written or not.
    last: Zxid,
    progress: Progress,
    /// The last entry known to be committed; set from other threads.
    committed: Arc<AtomicU64>,
}

#[derive(Debug)]
struct ActiveFile {
    output: Output,
    /// Its first entry, which gives the file its name.
    first: Zxid,
    /// The offset of the next record.
    end: u64,
    /// How far space is allocated.
    allocated: u64,
    /// How far zeros or data were written.
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
            active: None,
            blocks: Blocks::default(),
            first: Zxid::ZERO,
            pending: 0,
            observer: Observer::default(),
            last,
        }
    }

    /// Sets the callback for completed writes.
    pub(crate) fn on_flush(&mut self, observe: impl FnMut(Flush) + Send + 'static) {
        self.observer = Observer(Some(Box::new(observe)));
    }

    /// The shared position up to which entries are committed.
    pub(crate) fn committed(&self) -> Arc<AtomicU64> {
        self.committed.clone()
    }

    /// Adds an entry to the batch. It is durable after [`Self::flush`].
    pub(crate) fn append(&mut self, entry: &Entry) -> Result<(), WriteError> {
        if !follows(self.last, entry.zxid) {
            return Err(WriteError::OutOfOrder { last: self.last, next: entry.zxid });
        }
        if self.blocks.pending() == 0 {
            self.begin(entry.zxid)?;
        }
        if !records::put(self.blocks.end(), entry.zxid, &entry.body) {
            return Err(WriteError::Mislabelled { zxid: entry.zxid, bytes: entry.body.len() });
        }
        self.last = entry.zxid;
        self.pending += 1;
        if self.blocks.pending() >= BATCH_BYTES_MAX { self.flush() } else { Ok(()) }
    }

    /// Writes the batch and makes it durable.
    pub(crate) fn flush(&mut self) -> Result<(), WriteError> {
        let bytes = self.blocks.pending();
        if bytes == 0 {
            return Ok(());
        }
        let created = self.active.is_none();
        let mut active = match self.active.take() {
            Some(active) => active,
            None => {
                let path = self.dir.join(names::log(self.first));
                let output = if self.sync { self.volume.create_direct(&path)? } else { self.volume.create(&path)? };
                ActiveFile { output, first: self.first, end: 0, allocated: 0, written: 0 }
            }
        };
        let end = active.end + bytes as u64;
        if end > active.allocated {
            active.allocate(end, self.preallocate_bytes)?;
        }
        let (whole, before) = self.blocks.whole();
        let padding = whole.len() - before - bytes;
        let began = Instant::now();
        if self.sync {
            active.output.write_through(whole, active.end - before as u64)?;
        } else {
            active.output.write_at(whole, active.end - before as u64)?;
        }
        let flush = Flush { transactions: std::mem::take(&mut self.pending), took: began.elapsed() };
        self.blocks.mark_written(padding);
        if created {
            self.volume.sync_dir(&self.dir)?;
        }
        active.end = end;
        let committed = Zxid(self.committed.load(Ordering::Relaxed));
        self.progress.advance(Mark { log: active.first, end, last: self.last, committed }, bytes as u64)?;
        if self.sync && bytes <= SMALL_BYTES_MAX {
            active.zero_ahead();
        }
        self.active = Some(active);
        self.observer.call(flush);
        Ok(())
    }

    /// Ends the current file; the next entry starts a new one.
    pub(crate) fn roll(&mut self) -> Result<(), WriteError> {
        self.flush()?;
        self.blocks.clear();
        if let Some(active) = self.active.take() {
            // Releases unused space. If a crash undoes this, zeros remain, which also mark the end of a file.
            active.output.set_len(active.end)?;
        }
        Ok(())
    }

    /// Removes every entry above `to`, from the end backwards. After a crash it may be partly done: the history is
    /// shorter than before, and valid.
    pub(crate) fn truncate(&mut self, to: Zxid) -> Result<(), WriteError> {
        self.roll()?;
        self.progress.clear()?;
        let newest = truncate(&self.volume, &self.dir, to)?;
        self.last = self.last.min(to);
        if let Some((log, end)) = newest {
            let committed = Zxid(self.committed.load(Ordering::Relaxed));
            // Otherwise damage to the remaining log could be taken for a torn write until the next append.
            self.progress.advance(Mark { log, end, last: self.last, committed }, 0)?;
        }
        Ok(())
    }

    /// Prepares for the replacement of the history by a snapshot.
    pub(crate) fn prepare_restart(&mut self) -> Result<(), WriteError> {
        self.roll()?;
        Ok(self.progress.clear()?)
    }

    /// Continues after the history was replaced by a snapshot.
    pub(crate) fn restart(&mut self, at: Zxid) {
        self.active = None;
        self.blocks.clear();
        self.last = at;
    }

    /// Starts a batch, and a file with its header if necessary.
    fn begin(&mut self, first: Zxid) -> Result<(), WriteError> {
        self.first = first;
        let full = |active: &ActiveFile| self.bytes_max.is_some_and(|max| active.end >= max);
        if self.active.as_ref().is_some_and(full) {
            self.roll()?;
        }
        if self.active.is_none() {
            self.blocks.end().extend_from_slice(&records::file_header(self.last));
        }
        Ok(())
    }
}

/// The callback for completed writes.
#[derive(Default)]
struct Observer(Option<Box<dyn FnMut(Flush) + Send>>);

impl Observer {
    fn call(&mut self, flush: Flush) {
        if let Some(observe) = &mut self.0 {
            observe(flush);
        }
    }
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Observer").finish_non_exhaustive()
    }
}

impl ActiveFile {
    /// Allocates space up to `end` and beyond: as much again, so that a small log occupies little, within these limits.
    /// If the disk is nearly full, only what is needed now.
    fn allocate(&mut self, end: u64, beyond_max: u64) -> Result<(), FileError> {
        let beyond = end.max(BEYOND_BYTES_MIN).min(beyond_max);
        let mut allocated = (end + beyond).next_multiple_of(BLOCK_BYTES as u64);
        match self.output.allocate(self.allocated, allocated) {
            Err(error) if error.source.kind() == ErrorKind::StorageFull => {
                allocated = end.next_multiple_of(BLOCK_BYTES as u64);
                self.output.allocate(self.allocated, allocated)?;
            }
            other => other?,
        }
        self.allocated = allocated;
        Ok(())
    }

    /// Writes zeros into the allocated space ahead. Syncing data in space that was only reserved makes the file system
    /// commit its journal too, which takes about half as long again and sometimes much longer, so this is done once for
    /// many small writes. Large writes pay for it themselves; writing everything twice would cost more.
    fn zero_ahead(&mut self) {
        self.written = self.written.max(self.end.next_multiple_of(BLOCK_BYTES as u64));
        let to = (self.written + AHEAD_BYTES).min(self.allocated);
        if self.written < self.end + AHEAD_BYTES && self.written < to {
            // The space reads as zeros already, so a failure here costs only time.
            let _ = self.output.write_zeros(self.written, to);
            self.written = to;
        }
    }
}

/// Whether `next` may directly follow `last` in a history.
pub(crate) fn follows(last: Zxid, next: Zxid) -> bool {
    if next.epoch() == last.epoch() {
        next.counter().checked_sub(1) == Some(last.counter())
    } else {
        next.epoch() > last.epoch() && next.counter() == 1
    }
}

/// Removes every entry above `to` from the files of a directory. Returns the first entry of the newest file and its new
/// end.
pub(crate) fn truncate(volume: &Volume, dir: &Path, to: Zxid) -> Result<Option<(Zxid, u64)>, FileError> {
    for (first, path) in names::logs(dir)?.into_iter().rev() {
        if first > to {
            volume.remove(&path)?;
            // Otherwise a crash could make this file reappear after an older one is gone.
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

/// Batches up to this size count as small: a few transactions, each with a client waiting for it.
const SMALL_BYTES_MAX: usize = 16 << 10;

/// The minimum number of bytes to allocate beyond the end, unless the configuration says less.
const BEYOND_BYTES_MIN: u64 = 1 << 20;

/// The minimum number of bytes to zero ahead; at most twice as many.
const AHEAD_BYTES: u64 = 256 << 10;
