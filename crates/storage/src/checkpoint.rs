//! Snapshots of our own state, written on a separate thread while appends continue.
//!
//! Writing a large state takes seconds, and acknowledgements must not wait for it. An [`Event`] reports the result; old
//! files are purged afterwards. Nothing depends on a snapshot, but a disk that fails to write one, or to remove an old
//! file, is not trusted with the log either: it counts as failed.
//!
//! Only one snapshot is written at a time. Of several that wait, only the newest is written.

use pole_zab::Snapshot;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::volume::Volume;
use crate::{Config, Event, FileError, Pins, purge, snapshot};

/// The callback for events.
pub(crate) type Report = Arc<Mutex<Box<dyn FnMut(Event) + Send>>>;

pub(crate) fn send_event(report: &Report, event: Event) {
    report.lock().unwrap_or_else(PoisonError::into_inner)(event);
}

/// The thread, if there is one, and the snapshot that waits for it.
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
    /// Set to abort the snapshot under way.
    cancelled: AtomicBool,
    slot: Mutex<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    next: Option<Snapshot>,
    /// A thread is running and will check `next` again.
    busy: bool,
    last_purge: Option<Instant>,
    /// Why the disk counts as failed, if it does.
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

    /// Starts to write a snapshot, or queues it behind the one under way.
    pub(crate) fn begin(&mut self, snapshot: Snapshot, report: &Report) {
        let zxid = snapshot.zxid;
        let mut slot = self.shared.slot();
        slot.next = Some(snapshot);
        if slot.busy {
            return;
        }
        let (shared, events) = (self.shared.clone(), report.clone());
        let spawned = std::thread::Builder::new().name("checkpoint".into()).spawn(move || shared.run(&events));
        match spawned {
            Ok(thread) => {
                slot.busy = true;
                self.thread = Some(thread);
            }
            Err(error) => {
                slot.next = None;
                drop(slot);
                let reason = format!("no thread to write it: {error}");
                send_event(report, Event::CheckpointFailed { zxid, reason });
            }
        }
    }

    /// Waits until all requested snapshots are written.
    pub(crate) fn finish(&mut self) {
        if let Some(thread) = self.thread.take() {
            // The thread reports its own panic; a missing snapshot is no reason to stop.
            let _ = thread.join();
        }
    }

    /// Why the disk counts as failed, if it does.
    pub(crate) fn failure(&self) -> Option<String> {
        self.shared.slot().failed.clone()
    }

    /// Aborts the snapshot under way and drops the one that waits.
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
                Ok(Some((took, purged))) => send_event(report, Event::Checkpointed { zxid, purged, took }),
                Ok(None) => {}
                Err(error) => {
                    let reason = format!("snapshot at {zxid}: {error}");
                    self.slot().failed = Some(reason.clone());
                    send_event(report, Event::Failed { reason });
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

    /// Writes a snapshot and purges old files. Returns how long the snapshot took and the number of files purged, or
    /// `None` if it was cancelled.
    fn write(&self, snapshot: &Snapshot) -> Result<Option<(Duration, usize)>, FileError> {
        let began = Instant::now();
        let (dir, Snapshot { zxid, body, .. }) = (&self.dir, snapshot);
        let should_continue = || !self.cancelled.load(Ordering::Relaxed);
        if snapshot::prepare(&self.volume, dir, *zxid, body, &should_continue)?.is_none() {
            return Ok(None);
        }
        snapshot::publish(&self.volume, dir, *zxid)?;
        let took = began.elapsed();
        Ok(Some((took, self.purge()?)))
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
