//! Snapshots of our own state, written on a thread of their own while appends go on.
//!
//! In: a state that no longer changes. Out: a file, and old files purged; an [`Event`] says how it went.
//! Why a thread: a large state takes seconds, and an acknowledgement must not wait for it. Nothing hangs on it, but a
//! disk that refuses a snapshot, or the removal of an old file, is not trusted with the log either: it counts as failed.
//! Holds: one at a time. One that comes meanwhile waits; of several that wait the newest is written, the others were
//! only its past.

use pole_zab::Snapshot;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::volume::Volume;
use crate::{Config, Event, FileError, Pins, purge, snapshot};

/// Whom events are told.
pub(crate) type Report = Arc<Mutex<Box<dyn FnMut(Event) + Send>>>;

/// Tells an event.
pub(crate) fn tell(report: &Report, event: Event) {
    report.lock().unwrap_or_else(PoisonError::into_inner)(event);
}

/// The thread, when there is one, and what waits for it.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    volume: Volume,
    dir: PathBuf,
    log_dir: PathBuf,
    snap_retain_count: usize,
    purge_interval: Option<Duration>,
    pins: Pins,
    /// What is under way is no longer wanted.
    cancelled: AtomicBool,
    slot: Mutex<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    next: Option<Snapshot>,
    /// A thread is there and will look at `next` again.
    busy: bool,
    last_purge: Option<Instant>,
    /// Why the disk counts as failed.
    failed: Option<String>,
}

impl Checkpoints {
    pub(crate) fn new(volume: Volume, dir: PathBuf, log_dir: PathBuf, config: &Config, pins: Pins) -> Self {
        let shared = Shared {
            volume,
            dir,
            log_dir,
            snap_retain_count: config.snap_retain_count,
            purge_interval: config.purge_interval,
            pins,
            cancelled: AtomicBool::new(false),
            slot: Mutex::default(),
        };
        Self { shared: Arc::new(shared), thread: None }
    }

    /// Begins to write a snapshot, or lets it wait for the one under way.
    pub(crate) fn begin(&mut self, snapshot: Snapshot, report: &Report) {
        let zxid = snapshot.zxid;
        let mut slot = self.shared.slot();
        slot.next = Some(snapshot);
        if slot.busy {
            return;
        }
        let (shared, told) = (self.shared.clone(), report.clone());
        let spawned = std::thread::Builder::new().name("checkpoint".into()).spawn(move || shared.run(&told));
        match spawned {
            Ok(thread) => {
                slot.busy = true;
                self.thread = Some(thread);
            }
            Err(error) => {
                slot.next = None;
                drop(slot);
                let reason = format!("no thread to write it: {error}");
                tell(report, Event::CheckpointFailed { zxid, reason });
            }
        }
    }

    /// Waits until all is written that was asked for.
    pub(crate) fn finish(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic there was told by the thread itself; a snapshot less is no reason to end.
            let _ = thread.join();
        }
    }

    /// Why the disk counts as failed.
    pub(crate) fn failure(&self) -> Option<String> {
        self.shared.slot().failed.clone()
    }

    /// Gives up what is under way and what waits.
    pub(crate) fn cancel(&mut self) {
        self.shared.cancelled.store(true, Ordering::Relaxed);
        self.shared.slot().next = None;
        self.finish();
        self.shared.cancelled.store(false, Ordering::Relaxed);
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Shared {
    fn run(&self, report: &Report) {
        while let Some(snapshot) = self.next() {
            let zxid = snapshot.zxid;
            match self.write(&snapshot) {
                Ok(Some(purged)) => tell(report, Event::Checkpointed { zxid, purged }),
                Ok(None) => {}
                Err(error) => {
                    let reason = format!("snapshot at {zxid}: {error}");
                    self.slot().failed = Some(reason.clone());
                    tell(report, Event::Failed { reason });
                }
            }
        }
    }

    fn next(&self) -> Option<Snapshot> {
        let mut slot = self.slot();
        let next = slot.next.take();
        slot.busy = next.is_some();
        next
    }

    /// How many files were purged; none if it was cancelled.
    fn write(&self, snapshot: &Snapshot) -> Result<Option<usize>, FileError> {
        let (dir, Snapshot { zxid, body, .. }) = (&self.dir, snapshot);
        let go_on = || !self.cancelled.load(Ordering::Relaxed);
        if snapshot::prepare(&self.volume, dir, *zxid, body, &go_on)?.is_none() {
            return Ok(None);
        }
        snapshot::publish(&self.volume, dir, *zxid)?;
        self.purge().map(Some)
    }

    fn purge(&self) -> Result<usize, FileError> {
        let Some(interval) = self.purge_interval else { return Ok(0) };
        let now = Instant::now();
        if self.slot().last_purge.is_some_and(|last| now.duration_since(last) < interval) {
            return Ok(0);
        }
        self.slot().last_purge = Some(now);
        purge::purge(&self.volume, &self.dir, &self.log_dir, self.snap_retain_count, self.pins.lowest())
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
