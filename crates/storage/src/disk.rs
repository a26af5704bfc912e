//! The disk of one server: carries out operations in order, on the thread of the caller.
//!
//! Consecutive appends are combined into one write and one sync. Nothing is written after a failure.

use pole_types::Zxid;
use pole_zab::{DiskOp, Snapshot, Ticket};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::checkpoint::{Checkpoints, Report};
use crate::locks::Locks;
use crate::log::Log;
use crate::progress::Progress;
use crate::snapshot::Receiving;
use crate::volume::Volume;
use crate::{Config, Counts, Event, Flush, OpenError, Pins, WriteError, Writer, epochs, intent, snapshot};

/// An open data directory. No other process can open it until this is dropped.
pub struct Disk {
    volume: Volume,
    dir: PathBuf,
    log_dir: PathBuf,
    log: Log,
    /// The newest snapshot. Its transactions are committed and cannot be truncated.
    snapshot: Option<Zxid>,
    /// See [`Config::blank`].
    blank: Option<bytes::Bytes>,
    checkpoints: Checkpoints,
    pins: Pins,
    /// The leader's snapshot that is being received.
    receiving: Option<Receiving>,
    report: Report,
    /// The reason of the first failure. Nothing is written after it.
    failed: Option<String>,
    replayed: (u64, u64),
    locks: Locks,
}

/// The results of start-up that writing depends on.
pub(crate) struct DiskState {
    pub(crate) dir: PathBuf,
    pub(crate) log_dir: PathBuf,
    pub(crate) snapshot: Option<Zxid>,
    pub(crate) last: Zxid,
    pub(crate) replayed: (u64, u64),
    pub(crate) locks: Locks,
}

impl Disk {
    pub(crate) fn new(volume: Volume, config: Config, state: DiskState) -> Self {
        let DiskState { dir, log_dir, snapshot, last, replayed, locks } = state;
        let pins = Pins::default();
        Self {
            log: Log::new(volume.clone(), log_dir.clone(), &config, last, Progress::new(locks.progress(), config.sync)),
            checkpoints: Checkpoints::new(volume.clone(), dir.clone(), log_dir.clone(), &config, pins.clone()),
            pins,
            receiving: None,
            volume,
            dir,
            log_dir,
            snapshot,
            blank: config.blank,
            report: Arc::new(Mutex::new(Box::new(|_| ()))),
            failed: None,
            replayed,
            locks,
        }
    }

    /// Sets the callback for the results of checkpoints, when operations are performed on the caller's thread.
    pub fn on_event(&mut self, report: impl Fn(Event) + Send + 'static) {
        self.report = Arc::new(Mutex::new(Box::new(report)));
    }

    /// Sets the callback for completed writes to the log. It is called on the thread that writes, and delays it.
    pub fn on_flush(&mut self, observe: impl FnMut(Flush) + Send + 'static) {
        self.log.on_flush(observe);
    }

    /// Moves the disk to a separate thread, which calls `report`.
    #[must_use]
    pub fn start(mut self, report: impl Fn(Event) + Send + 'static) -> Writer {
        self.on_event(report);
        let report = self.report.clone();
        Writer::new(self, report)
    }

    /// Carries out the operations in order. All operations up to the returned ticket are durable.
    ///
    /// # Errors
    /// If an operation fails. Later operations are not carried out, in this call or any other.
    pub fn perform(&mut self, ops: &mut Vec<(Ticket, DiskOp)>) -> Result<Option<Ticket>, WriteError> {
        if let Some(reason) = self.failed.clone().or_else(|| self.checkpoints.failure()) {
            ops.clear();
            return Err(WriteError::Earlier { reason });
        }
        let done = self.carry_out(ops);
        if let Err(error) = &done {
            self.failed = Some(error.to_string());
        }
        done
    }

    /// Records that everything up to `zxid` is committed. This is written with the next append, so that a restart need
    /// not keep the log up to there in memory.
    pub fn note_committed(&self, zxid: Zxid) {
        self.log.committed().fetch_max(zxid.0, Ordering::Relaxed);
    }

    pub(crate) fn committed(&self) -> Arc<AtomicU64> {
        self.log.committed()
    }

    /// The number of transactions above the newest snapshot that were applied to the state at start, and their size in
    /// bytes.
    #[must_use]
    pub fn replayed(&self) -> (u64, u64) {
        self.replayed
    }

    /// Reserves `count` session numbers for this run and returns the first of them: `preferred`, or the next one that
    /// was never reserved if that is higher. Durable on return: no later run gets any of them.
    ///
    /// Apache ZooKeeper derives the first session number of a run from the clock. If the clock was set back between two
    /// runs, a number could be assigned twice, and a client that still has it could take over the new session.
    ///
    /// # Errors
    /// If the lock file, which contains the record, cannot be read or written.
    pub fn reserve_sessions(&self, preferred: u64, count: u64) -> Result<u64, OpenError> {
        let record = self.locks.sessions();
        let [reserved] = record.read()?.unwrap_or([0]);
        let first = reserved.max(preferred);
        record.write([first.saturating_add(count)])?;
        // The name of the file is durable since the directory was opened.
        record.sync()?;
        Ok(first)
    }

    /// Statistics of the disk.
    #[must_use]
    pub fn counts(&self) -> Arc<Counts> {
        self.volume.counts()
    }

    /// The parts of the log that must not be purged.
    #[must_use]
    pub fn pins(&self) -> Pins {
        self.pins.clone()
    }

    /// The directories of the snapshots and of the log, for concurrent readers.
    #[must_use]
    pub fn directories(&self) -> (PathBuf, PathBuf) {
        (self.dir.clone(), self.log_dir.clone())
    }

    /// Waits for checkpoints under way. Only needed to inspect the files afterwards.
    pub fn finish_checkpoints(&mut self) {
        self.checkpoints.finish();
    }

    fn carry_out(&mut self, ops: &mut Vec<(Ticket, DiskOp)>) -> Result<Option<Ticket>, WriteError> {
        let mut through = None;
        for (ticket, op) in ops.drain(..) {
            if !matches!(op, DiskOp::Append(_) | DiskOp::Receive { .. }) {
                self.log.flush()?;
            }
            match op {
                DiskOp::Append(entries) => {
                    self.write_blank_snapshot()?;
                    entries.iter().try_for_each(|entry| self.log.append(entry))?;
                }
                DiskOp::Truncate { to } => self.truncate(to)?,
                DiskOp::AcceptedEpoch(epoch) => epochs::write(&self.volume, &self.dir, epochs::ACCEPTED, epoch)?,
                DiskOp::CurrentEpoch(epoch) => epochs::write(&self.volume, &self.dir, epochs::CURRENT, epoch)?,
                DiskOp::TakeOver(epoch) => intent::take_over(&self.volume, &self.dir, epoch)?,
                DiskOp::Receive { zxid, offset, body } => self.receive(zxid, offset, &body)?,
                DiskOp::Install { zxid } => self.install(zxid)?,
                DiskOp::Checkpoint(snapshot) => self.checkpoint(snapshot)?,
            }
            through = Some(ticket);
        }
        self.log.flush()?;
        Ok(through)
    }

    /// Writes the blank state as a snapshot before the first log file.
    fn write_blank_snapshot(&mut self) -> Result<(), WriteError> {
        if self.snapshot.is_none()
            && let Some(blank) = self.blank.take()
        {
            snapshot::prepare(&self.volume, &self.dir, Zxid::ZERO, &blank.into(), &|| true)?;
            snapshot::publish(&self.volume, &self.dir, Zxid::ZERO)?;
            self.snapshot = Some(Zxid::ZERO);
        }
        Ok(())
    }

    fn truncate(&mut self, to: Zxid) -> Result<(), WriteError> {
        match self.snapshot {
            Some(snapshot) if to < snapshot => Err(WriteError::CutsSnapshot { to, snapshot }),
            Some(_) | None => self.log.truncate(to),
        }
    }

    fn receive(&mut self, zxid: Zxid, offset: usize, part: &[u8]) -> Result<(), WriteError> {
        if offset == 0 {
            // The checkpoint under way belongs to the old history, and may even have the same name.
            self.checkpoints.cancel();
            self.receiving = Some(Receiving::begin(&self.volume, &self.dir, zxid)?);
        }
        let receiving = self.receiving.as_mut().filter(|receiving| receiving.continues(zxid, offset));
        receiving.ok_or(WriteError::NotReceived { zxid, offset })?.put(part)?;
        Ok(())
    }

    fn install(&mut self, zxid: Zxid) -> Result<(), WriteError> {
        let received = self.receiving.take().ok_or(WriteError::NotReceived { zxid, offset: 0 })?;
        self.checkpoints.cancel();
        self.log.prepare_restart()?;
        intent::install(&self.volume, &self.dir, &self.log_dir, zxid, received)?;
        self.log.restart(zxid);
        self.snapshot = Some(zxid);
        Ok(())
    }

    /// As in Apache, a snapshot starts a new log file, so that old ones can be removed as a whole.
    fn checkpoint(&mut self, snapshot: Snapshot) -> Result<(), WriteError> {
        self.log.roll()?;
        self.snapshot = self.snapshot.max(Some(snapshot.zxid));
        self.checkpoints.begin(snapshot, &self.report);
        Ok(())
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("dir", &self.dir).field("log", &self.log).finish_non_exhaustive()
    }
}
