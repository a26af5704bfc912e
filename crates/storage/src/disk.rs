//! The disk of one server: operations in order, on whichever thread calls.
//!
//! In: operations with their tickets. Out: the last ticket that is durable.
//! Holds: appends that stand side by side are one write and one sync; nothing is done after a failure.

use pole_zab::{DiskOp, Snapshot, Ticket, Zxid};
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
use crate::{Config, Counts, Event, OpenError, Pins, WriteError, Writer, epochs, intent, snapshot};

/// An open data directory. Nobody else has it until this is dropped.
pub struct Disk {
    volume: Volume,
    dir: PathBuf,
    log_dir: PathBuf,
    log: Log,
    /// The newest snapshot; what it holds is committed and stays.
    snapshot: Option<Zxid>,
    /// See [`Config::blank`].
    blank: Option<bytes::Bytes>,
    checkpoints: Checkpoints,
    pins: Pins,
    /// A leader's snapshot, as far as it has come.
    receiving: Option<Receiving>,
    report: Report,
    /// Why nothing is written any more.
    failed: Option<String>,
    replayed: (u64, u64),
    locks: Locks,
}

/// What start-up found, as far as writing depends on it.
pub(crate) struct Found {
    pub(crate) dir: PathBuf,
    pub(crate) log_dir: PathBuf,
    pub(crate) snapshot: Option<Zxid>,
    pub(crate) last: Zxid,
    pub(crate) replayed: (u64, u64),
    pub(crate) locks: Locks,
}

impl Disk {
    pub(crate) fn new(volume: Volume, config: Config, found: Found) -> Self {
        let Found { dir, log_dir, snapshot, last, replayed, locks } = found;
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

    /// Whom to tell how checkpoints end, when operations are performed on the caller's thread.
    pub fn on_event(&mut self, report: impl Fn(Event) + Send + 'static) {
        self.report = Arc::new(Mutex::new(Box::new(report)));
    }

    /// Hands the disk to a thread of its own, which reports to `report`.
    #[must_use]
    pub fn start(mut self, report: impl Fn(Event) + Send + 'static) -> Writer {
        self.on_event(report);
        let report = self.report.clone();
        Writer::new(self, report)
    }

    /// Carries the operations out, in order, and makes them durable: all up to the ticket returned are.
    ///
    /// # Errors
    /// If one fails. Those after it are not carried out, and no later one ever is.
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

    /// Everything up to `zxid` is committed. It is written down with the next append, so that a restart need not hold
    /// the log up to there in memory.
    pub fn note_committed(&self, zxid: Zxid) {
        self.log.committed().fetch_max(zxid.0, Ordering::Relaxed);
    }

    pub(crate) fn committed(&self) -> Arc<AtomicU64> {
        self.log.committed()
    }

    /// How many transactions above the newest snapshot went into the state at start, and how many bytes they have.
    #[must_use]
    pub fn replayed(&self) -> (u64, u64) {
        self.replayed
    }

    /// Reserves `count` session numbers for this run, from `wish` on or above all that were reserved before, and returns
    /// the first. Durable on return: no later run gets any of them.
    ///
    /// Apache ZooKeeper takes the first session number of a run from the clock. If the clock was set back between two
    /// runs, a number could be given a second time, and a client that still has it could take the new session over.
    ///
    /// # Errors
    /// If the lock file, which has the record, cannot be read or written.
    pub fn reserve_sessions(&self, wish: u64, count: u64) -> Result<u64, OpenError> {
        let record = self.locks.sessions();
        let [reserved] = record.read()?.unwrap_or([0]);
        let first = reserved.max(wish);
        record.write([first.saturating_add(count)])?;
        // The name of the file has been durable since the directory was opened.
        record.sync()?;
        Ok(first)
    }

    /// How often the disk was asked for something.
    #[must_use]
    pub fn counts(&self) -> Arc<Counts> {
        self.volume.counts()
    }

    /// What of the log must not be purged.
    #[must_use]
    pub fn pins(&self) -> Pins {
        self.pins.clone()
    }

    /// Where the snapshots are, and where the log is: for those who read beside us.
    #[must_use]
    pub fn directories(&self) -> (PathBuf, PathBuf) {
        (self.dir.clone(), self.log_dir.clone())
    }

    /// Waits for checkpoints under way. Nothing needs it but whoever wants to look at the files.
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
                    self.leave_a_beginning()?;
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

    /// The first log file stands on a snapshot of nothing.
    fn leave_a_beginning(&mut self) -> Result<(), WriteError> {
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
            // What is being written belongs to the history that goes, and may even have the same name.
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

    /// As in Apache, a snapshot begins a new log file, so that old ones can go whole.
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
