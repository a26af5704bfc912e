//! The disk thread: takes all queued operations at once and reports them with one event.
//!
//! Operations come from the protocol thread; events are reported on the disk thread. A sync may take arbitrarily long,
//! and the protocol must continue meanwhile. Operations that arrive during one sync share the next.
//!
//! Invariant: events come in the order of the tickets. The length of the queue is bounded by `zab`'s limit of data in
//! flight.

use pole_types::Zxid;
use pole_zab::{DiskOp, Ticket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;

use crate::checkpoint::{Report, send_event};
use crate::{Counts, Disk, Event, Pins, WriteError};

/// A handle to a disk with a separate thread.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    counts: Arc<Counts>,
    committed: Arc<AtomicU64>,
    pins: Pins,
    directories: (PathBuf, PathBuf),
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// Locked while operations are carried out and reported, so that reports keep their order.
    disk: Mutex<Disk>,
    queue: Mutex<Queue>,
    /// Signals that the queue has operations, or that the thread must stop.
    wake: Condvar,
    report: Report,
}

#[derive(Default)]
struct Queue {
    ops: Vec<(Ticket, DiskOp)>,
    stopping: bool,
    /// A write failed: further operations are dropped, so that they do not accumulate.
    failed: bool,
}

impl Writer {
    pub(crate) fn new(disk: Disk, report: Report) -> Self {
        let (queue, wake, counts) = (Mutex::default(), Condvar::new(), disk.counts());
        let committed = disk.committed();
        let (pins, directories) = (disk.pins(), disk.directories());
        let shared = Arc::new(Shared { disk: Mutex::new(disk), queue, wake, report });
        let thread = std::thread::Builder::new().name("disk".into());
        let spawned = thread.spawn({
            let shared = shared.clone();
            move || shared.run()
        });
        // Without the thread nothing can be reported later, so the failure is reported here.
        let thread = spawned.map_err(|error| shared.fail(format!("no thread for the disk: {error}"))).ok();
        Self { shared, counts, committed, pins, directories, thread }
    }

    /// Queues an operation. [`Event::Written`] reports when it is durable.
    pub fn write(&self, ticket: Ticket, op: DiskOp) {
        self.write_all([(ticket, op)]);
    }

    /// Queues operations, in the order of their tickets. They share a sync.
    pub fn write_all(&self, ops: impl IntoIterator<Item = (Ticket, DiskOp)>) {
        self.shared.enqueue(ops);
    }

    /// Carries out the operations on this thread if the disk is idle, and returns the last ticket: everything up to it
    /// is durable, and no event reports that. If the disk is busy, the operations are queued as by [`Self::write_all`], and
    /// `None` is returned. This is for a server with little load: two thread switches can cost as much as the sync.
    pub fn write_here(&self, ops: &mut Vec<(Ticket, DiskOp)>) -> Option<Ticket> {
        let mut disk = match self.shared.disk.try_lock() {
            Ok(disk) => disk,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.shared.enqueue(ops.drain(..));
                return None;
            }
        };
        // The disk is locked whenever operations are taken from the queue, so operations that are not in it are done.
        if !self.shared.queue().ops.is_empty() {
            self.shared.enqueue(ops.drain(..));
            return None;
        }
        self.shared.perform(&mut disk, ops)
    }

    /// See [`Disk::note_committed`]. Does not wait for the disk.
    pub fn note_committed(&self, zxid: Zxid) {
        self.committed.fetch_max(zxid.0, Ordering::Relaxed);
    }

    /// Statistics of the disk.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The parts of the log that must not be purged.
    #[must_use]
    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    /// The directories of the snapshots and of the log, for concurrent readers.
    #[must_use]
    pub fn directories(&self) -> (&Path, &Path) {
        (&self.directories.0, &self.directories.1)
    }

    /// Stops the thread after all queued operations are done. A checkpoint under way is aborted.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.queue().stopping = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic was already printed by the thread.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut batch = Vec::new();
        while self.wait() {
            let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut self.queue().ops, &mut batch);
            if let Some(through) = self.perform(&mut disk, &mut batch) {
                send_event(&self.report, Event::Written { through });
            }
        }
    }

    /// Waits until there is something to do. Returns false when the thread must stop.
    fn wait(&self) -> bool {
        let idle = |queue: &mut Queue| queue.ops.is_empty() && !queue.stopping;
        let queue = self.wake.wait_while(self.queue(), idle).unwrap_or_else(PoisonError::into_inner);
        !queue.ops.is_empty()
    }

    fn enqueue(&self, ops: impl IntoIterator<Item = (Ticket, DiskOp)>) {
        let mut queue = self.queue();
        if !queue.failed {
            queue.ops.extend(ops);
            self.wake.notify_one();
        }
    }

    fn perform(&self, disk: &mut Disk, ops: &mut Vec<(Ticket, DiskOp)>) -> Option<Ticket> {
        disk.perform(ops).unwrap_or_else(|error| {
            if matches!(error, WriteError::Earlier { .. }) {
                // It was reported when it happened.
                self.drop_all();
            } else {
                self.fail(error.to_string());
            }
            None
        })
    }

    fn drop_all(&self) {
        let mut queue = self.queue();
        queue.ops.clear();
        queue.failed = true;
    }

    /// Reports the first failure, and nothing after it.
    fn fail(&self, reason: String) {
        let mut queue = self.queue();
        queue.ops.clear();
        if !std::mem::replace(&mut queue.failed, true) {
            drop(queue);
            send_event(&self.report, Event::Failed { reason });
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("disk", &self.disk).finish_non_exhaustive()
    }
}
