//! How far the log is known to be durable, and how far it is known to be committed: a record in the lock file.
//!
//! It is overwritten after each durable write of the log, in the page cache, so nobody waits for it. When the process
//! ends, however it ends, the record is exact. After a power failure it may be older than the log by what was written
//! since the lock file was last synced, at most [`SYNC_EVERY_BYTES`]. It may lag, but it never claims more than is
//! true: a truncation, which makes the log shorter, first clears it durably.
//!
//! Start-up uses it twice. What lies before the durable end cannot be a torn write, so damage there is corruption
//! (`tail`). And what is committed is never truncated, so it goes into the state as it is read (`history`).
//!
//! If the log is not synced the record names no durable end, and is written less often.
//!
//! Apache ZooKeeper leaves the lock file alone. After Apache has written to the directory, the log has a newer file
//! than the one named here, and the durable end no longer matters.

use pole_zab::Zxid;
use std::path::Path;

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
    /// Bytes of log since the record was last written.
    unwritten_bytes: u64,
    /// Bytes of log since it was last synced.
    unsynced_bytes: u64,
}

impl Progress {
    pub(crate) fn new(record: LockRecord<4>, synced: bool) -> Self {
        // The first write of a run is recorded in any case.
        Self { record, synced, unwritten_bytes: WRITE_EVERY_BYTES, unsynced_bytes: 0 }
    }

    /// So many bytes of log were written, and are durable if the log is synced; and this is true now.
    pub(crate) fn advance(&mut self, mark: Mark, bytes: u64) -> Result<(), FileError> {
        self.unwritten_bytes = self.unwritten_bytes.saturating_add(bytes);
        self.unsynced_bytes += bytes;
        if !self.synced && self.unwritten_bytes < WRITE_EVERY_BYTES {
            return Ok(());
        }
        let (end, last) = if self.synced { (mark.end, mark.last) } else { (0, Zxid::ZERO) };
        self.record.write([mark.log.0, end, last.0, mark.committed.0])?;
        self.unwritten_bytes = 0;
        if self.synced && self.unsynced_bytes >= SYNC_EVERY_BYTES {
            self.record.sync()?;
            self.unsynced_bytes = 0;
        }
        Ok(())
    }

    /// The log is about to become shorter: from here on the record says nothing, durably.
    pub(crate) fn clear(&mut self) -> Result<(), FileError> {
        self.record.clear()?;
        self.record.sync()
    }
}

/// How much log may be written between two syncs of the record. This bounds how much log a start after a power failure
/// holds in memory because it does not know that it is committed. Small enough for that, and large enough that one more
/// sync does not count beside writing as much log.
const SYNC_EVERY_BYTES: u64 = 16 << 20;

/// How much log may be written between two writes of the record if the log is not synced. A write to the page cache
/// would then cost as much as the log's own.
const WRITE_EVERY_BYTES: u64 = 64 << 10;

/// How we know, and what to do if it was intended.
const DURABLE: &str = "which were durable according to the lock file of dataDir (if older log files were put here on \
                       purpose, remove that file)";
