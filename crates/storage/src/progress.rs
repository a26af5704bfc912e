//! How far the log is known to be durable and committed: a record in the lock file.
//!
//! It is overwritten in the page cache after durable writes of the log, so no operation waits for it: with the first
//! write after 10 ms or 64 KiB, and at an orderly stop. After the process was killed it lags by no more than that.
//! After a power failure it may be older than the log by what was written since the lock file was last synced, at most
//! [`SYNC_EVERY_BYTES`] plus those 64 KiB. It may lag, but it never claims more than is true: a truncation, which makes
//! the log shorter, first clears it durably.
//!
//! Start-up uses it twice. Data before the durable end cannot be a torn write, so damage there is corruption (`tail`).
//! And committed entries are never truncated, so they are applied to the state as they are read (`history`).
//!
//! If the log is not synced, the record contains no durable end and is written by size only.
//!
//! Apache ZooKeeper does not touch the lock file. After Apache has written to the directory, the log has a newer file
//! than the one named here, and the durable end no longer matters.

use pole_types::Zxid;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::locks::LockRecord;
use crate::{Damage, FileError, names};

/// The content of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The first transaction of the newest log file, which gives that file its name.
    pub(crate) log: Zxid,
    /// That file is durable up to this offset; 0 if unknown.
    pub(crate) end: u64,
    /// The last transaction before that offset; 0 if unknown.
    pub(crate) last: Zxid,
    /// Everything up to this transaction is committed.
    pub(crate) committed: Zxid,
}

impl Mark {
    /// Returns `None` if nothing is known.
    pub(crate) fn read(record: &LockRecord<4>) -> Result<Option<Self>, FileError> {
        Ok(record.read()?.map(Self::new))
    }

    pub(crate) fn new([log, end, last, committed]: [u64; 4]) -> Self {
        Self { log: Zxid(log), end, last: Zxid(last), committed: Zxid(committed) }
    }

    /// The durable end of this log file; 0 if the mark refers to another one.
    pub(crate) fn durable_end(&self, first: Zxid) -> u64 {
        if first == self.log { self.end } else { 0 }
    }

    /// Checks that the named log file is present. If the newest file is older, the named one is lost, which does not
    /// matter if a snapshot contains all of its transactions.
    pub(crate) fn check_present(&self, log_dir: &Path, newest: Option<Zxid>, snapshot: Zxid) -> Result<(), Damage> {
        if newest.is_some_and(|newest| newest >= self.log) || self.last <= snapshot {
            return Ok(());
        }
        let expected = format!("transactions up to {}, {DURABLE}", self.last);
        Err(Damage { path: log_dir.join(names::log(self.log)), offset: 0, expected, got: "no such file".into() })
    }

    /// The damage of a log file that ends at `offset`, before the durable end.
    pub(crate) fn missing(path: &Path, offset: u64, durable_end: u64) -> Damage {
        let expected = format!("transactions up to byte {durable_end}, {DURABLE}");
        Damage { path: path.into(), offset, expected, got: "nothing".into() }
    }
}

/// Maintains the record while the log is written.
#[derive(Debug)]
pub(crate) struct Progress {
    record: LockRecord<4>,
    /// Whether the log is synced.
    synced: bool,
    /// The newest mark, if it is not in the record yet.
    pending: Option<Mark>,
    /// When the record was last written; `None` if it must be written with the next write of the log.
    written_at: Option<Instant>,
    /// Bytes of log written since then.
    unwritten_bytes: u64,
    /// Bytes of log written since the record was last synced.
    unsynced_bytes: u64,
}

impl Progress {
    pub(crate) fn new(record: LockRecord<4>, synced: bool) -> Self {
        Self { record, synced, pending: None, written_at: None, unwritten_bytes: 0, unsynced_bytes: 0 }
    }

    /// Records a write of `bytes` bytes of log, durable if the log is synced, after which `mark` holds.
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

    /// Clears the record durably, before the log becomes shorter.
    pub(crate) fn clear(&mut self) -> Result<(), FileError> {
        self.pending = None;
        self.written_at = None;
        self.record.clear()?;
        self.record.sync()
    }

    /// An unsynced write takes about a microsecond, so reading the clock for each of them would matter.
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
        // If this fails, the record lags as after a kill.
        let _ = self.write();
    }
}

/// How much log may be written between two syncs of the record. This bounds how much log a start after a power failure
/// keeps in memory because it does not know that it is committed. It is large enough to make the cost of the additional
/// sync negligible.
const SYNC_EVERY_BYTES: u64 = 16 << 20;

/// How much log may be written between two writes of the record, and how much time may pass if the log is synced.
/// Writing it with each batch made a batch 3 to 4 % slower on ext4 with syncs, and 77 % without. Data not covered by
/// the record can be taken for torn if whole sectors of it are lost.
const WRITE_EVERY_BYTES: u64 = 64 << 10;
const WRITE_EVERY: Duration = Duration::from_millis(10);

/// How this is known, and what to do if it was intended.
const DURABLE: &str = "which were durable according to the lock file of dataDir (if older log files were put here on \
                       purpose, remove that file)";
