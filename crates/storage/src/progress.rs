//! How far the log is known to be durable, and how far it is known to be committed: a record in the lock file.
//!
//! It is overwritten after durable writes of the log, in the page cache, so nobody waits for it: with the first write
//! after 10 ms or 64 KiB, and at an orderly stop. After the process was killed it lags by no more than that. After a
//! power failure it may be older than the log by what was written since the lock file was last synced, at most
//! [`SYNC_EVERY_BYTES`] and those 64 KiB. It may lag, but it never claims more than is true: a truncation, which makes
//! the log shorter, first clears it durably.
//!
//! Start-up uses it twice. What lies before the durable end cannot be a torn write, so damage there is corruption
//! (`tail`). And what is committed is never truncated, so it goes into the state as it is read (`history`).
//!
//! If the log is not synced the record names no durable end, and is written by size only.
//!
//! Apache ZooKeeper leaves the lock file alone. After Apache has written to the directory, the log has a newer file
//! than the one named here, and the durable end no longer matters.

use pole_zab::Zxid;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::locks::LockRecord;
use crate::{Damage, FileError, names};

/// What the record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The first transaction of the newest log file, after which that file is named.
    pub(crate) log: Zxid,
    /// That file is durable up to this byte; 0 if that is not known.
    pub(crate) end: u64,
    /// The last transaction before that byte; 0 if that is not known.
    pub(crate) last: Zxid,
    /// Everything up to this transaction is committed.
    pub(crate) committed: Zxid,
}

impl Mark {
    /// None if nothing is known.
    pub(crate) fn read(record: &LockRecord<4>) -> Result<Option<Self>, FileError> {
        let mark = |[log, end, last, committed]: [u64; 4]| Self {
            log: Zxid(log),
            end,
            last: Zxid(last),
            committed: Zxid(committed),
        };
        Ok(record.read()?.map(mark))
    }

    /// The durable end of this log file; 0 if the mark is about another one.
    pub(crate) fn durable_end(&self, first: Zxid) -> u64 {
        if first == self.log { self.end } else { 0 }
    }

    /// A log whose newest file is older than the one named here has lost that file. This does not matter if a
    /// snapshot holds all of its transactions.
    pub(crate) fn check_present(&self, log_dir: &Path, newest: Option<Zxid>, snapshot: Zxid) -> Result<(), Damage> {
        if newest.is_some_and(|newest| newest >= self.log) || self.last <= snapshot {
            return Ok(());
        }
        let expected = format!("transactions up to {}, {DURABLE}", self.last);
        Err(Damage { path: log_dir.join(names::log(self.log)), offset: 0, expected, got: "no such file".into() })
    }

    /// The log file ends at `offset`, before the durable end.
    pub(crate) fn missing(path: &Path, offset: u64, durable_end: u64) -> Damage {
        let expected = format!("transactions up to byte {durable_end}, {DURABLE}");
        Damage { path: path.into(), offset, expected, got: "nothing".into() }
    }
}

/// The record while the log is written.
#[derive(Debug)]
pub(crate) struct Progress {
    record: LockRecord<4>,
    /// Whether the log is synced.
    synced: bool,
    /// What is true now and not yet in the record.
    pending: Option<Mark>,
    /// When the record was last written; None if it has to be with the next write of the log.
    written_at: Option<Instant>,
    /// Bytes of log since then.
    unwritten_bytes: u64,
    /// Bytes of log since it was last synced.
    unsynced_bytes: u64,
}

impl Progress {
    pub(crate) fn new(record: LockRecord<4>, synced: bool) -> Self {
        Self { record, synced, pending: None, written_at: None, unwritten_bytes: 0, unsynced_bytes: 0 }
    }

    /// So many bytes of log were written, and are durable if the log is synced; and this is true now.
    pub(crate) fn advance(&mut self, mark: Mark, bytes: u64) -> Result<(), FileError> {
        self.pending = Some(if self.synced { mark } else { Mark { end: 0, last: Zxid::ZERO, ..mark } });
        self.unwritten_bytes += bytes;
        self.unsynced_bytes += bytes;
        if !self.is_due() {
            return Ok(());
        }
        self.write()?;
        if self.synced && self.unsynced_bytes >= SYNC_EVERY_BYTES {
            self.record.sync()?;
            self.unsynced_bytes = 0;
        }
        Ok(())
    }

    /// The log is about to become shorter: from here on the record says nothing, durably.
    pub(crate) fn clear(&mut self) -> Result<(), FileError> {
        self.pending = None;
        self.written_at = None;
        self.record.clear()?;
        self.record.sync()
    }

    /// A log that is not synced is written in about a microsecond; reading the clock for each write would count.
    fn is_due(&self) -> bool {
        let Some(written_at) = self.written_at else { return true };
        self.unwritten_bytes >= WRITE_EVERY_BYTES || (self.synced && written_at.elapsed() >= WRITE_EVERY)
    }

    fn write(&mut self) -> Result<(), FileError> {
        if let Some(Mark { log, end, last, committed }) = self.pending.take() {
            self.record.write([log.0, end, last.0, committed.0])?;
            self.written_at = Some(Instant::now());
            self.unwritten_bytes = 0;
        }
        Ok(())
    }
}

/// After an orderly stop the record is exact.
impl Drop for Progress {
    fn drop(&mut self) {
        // If this fails, the record lags, as after the end of the process.
        let _ = self.write();
    }
}

/// How much log may be written between two syncs of the record. This bounds how much log a start after a power failure
/// holds in memory because it does not know that it is committed. Small enough for that, and large enough that one more
/// sync does not count beside writing as much log.
const SYNC_EVERY_BYTES: u64 = 16 << 20;

/// How much log may be written between two writes of the record, and how much time may pass if the log is synced. To
/// write it with each batch made a batch 3 to 4 % slower on ext4 with syncs, and 77 % without. What is not in the record
/// can be taken for torn if whole sectors of it are lost.
const WRITE_EVERY_BYTES: u64 = 64 << 10;
const WRITE_EVERY: Duration = Duration::from_millis(10);

/// How we know, and what to do if it was intended.
const DURABLE: &str = "which were durable according to the lock file of dataDir (if older log files were put here on \
                       purpose, remove that file)";
