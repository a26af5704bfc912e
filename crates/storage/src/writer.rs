//! The disk thread: takes all that waits at once, and reports it with one word.
//!
//! In: operations, from the thread that runs the protocol. Out: events, on the disk thread.
//! Why a thread: a sync takes as long as the disk likes, and the protocol must go on meanwhile, if only to notice.
//! What arrives during one sync shares the next.
//! Holds: events come in the order of the tickets. How much may wait is bounded by `zab`'s limit of what is in flight.

use pole_zab::{DiskOp, Ticket, Zxid};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;

use crate::checkpoint::{Report, tell};
use crate::{Counts, Disk, Event, Pins, WriteError};

/// The way to a disk that has a thread of its own.
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
    /// Something was put into the queue, or it is to end.
    wake: Condvar,
    report: Report,
}

#[derive(Default)]
struct Queue {
    ops: Vec<(Ticket, DiskOp)>,
    stopping: bool,
    /// A write failed: what comes is dropped, or it would pile up.
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
        // Without the thread nothing could ever be reported, so that is the report.
        let thread = spawned.map_err(|error| shared.fail(format!("no thread for the disk: {error}"))).ok();
        Self { shared, counts, committed, pins, directories, thread }
    }

    /// Asks for an operation. [`Event::Written`] tells when it is durable.
    pub fn write(&self, ticket: Ticket, op: DiskOp) {
        self.shared.enqueue([(ticket, op)]);
    }

    /// Carries the operations out on this thread if the disk is idle, and returns the last ticket: everything up to it
    /// is durable, and no event says so. If the disk is busy they are queued as by [`Self::write`], and none is
    /// returned. For a server with little to do: a thread switch there and back can cost as much as the sync.
    pub fn write_here(&self, ops: &mut Vec<(Ticket, DiskOp)>) -> Option<Ticket> {
        let mut disk = match self.shared.disk.try_lock() {
            Ok(disk) => disk,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.shared.enqueue(ops.drain(..));
                return None;
            }
        };
        // Whoever takes from the queue holds the disk, so what is not in it is done.
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

    /// How often the disk was asked for something.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What of the log must not be purged.
    #[must_use]
    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    /// Where the snapshots are, and where the log is: for those who read beside us.
    #[must_use]
    pub fn directories(&self) -> (&Path, &Path) {
        (&self.directories.0, &self.directories.1)
    }

    /// Ends the thread when all that waits is done. A checkpoint under way is given up.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.queue().stopping = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was said on the way.
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
                tell(&self.report, Event::Written { through });
            }
        }
    }

    /// Until there is something to do; false when there never will be.
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
                // It was told when it happened.
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

    /// The first failure is told, and nothing after it.
    fn fail(&self, reason: String) {
        let mut queue = self.queue();
        queue.ops.clear();
        if !std::mem::replace(&mut queue.failed, true) {
            drop(queue);
            tell(&self.report, Event::Failed { reason });
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
