//! The threads that serve clients: one per core, each with its own event loop and sockets.
//!
//! A task runs on one thread to its end. There is no work stealing: a connection that stays on its thread needs no lock
//! to be woken by its socket, an idle thread is not woken to look for work, and an idle server uses less memory.
//!
//! Connections are assigned to the threads in turn, so their numbers differ by at most one before any of them ends.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

/// Owns the threads; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct Threads {
    loops: Loops,
    /// Dropping it ends the event loops.
    _alive: watch::Sender<()>,
}

/// Spawns tasks on the threads.
#[derive(Clone, Debug)]
pub(crate) struct Loops {
    loops: Arc<[Handle]>,
    next: Arc<AtomicUsize>,
}

impl Threads {
    /// Starts one thread per core.
    pub(crate) fn start() -> io::Result<Self> {
        let (alive, _) = watch::channel(());
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let loops = (0..cores).map(|_| start_one(alive.subscribe())).collect::<io::Result<_>>()?;
        Ok(Self { loops: Loops { loops, next: Arc::default() }, _alive: alive })
    }

    /// Returns a handle for spawning tasks. It does not keep the threads alive.
    pub(crate) fn loops(&self) -> Loops {
        self.loops.clone()
    }

    /// The event loop of the first thread, on which everything but client connections runs.
    pub(crate) fn first(&self) -> &Handle {
        &self.loops.loops[0]
    }
}

impl Loops {
    /// Runs a task on the next thread in turn.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        self.loops[turn % self.loops.len()].spawn(task);
    }
}

fn start_one(mut alive: watch::Receiver<()>) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new().name("clients".to_owned()).spawn(move || {
        // Returns an error when the sender is dropped. Tasks that still run are dropped with the runtime.
        let _ = runtime.block_on(alive.changed());
        runtime.shutdown_background();
    })?;
    Ok(handle)
}
