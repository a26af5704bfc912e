//! The threads that serve clients: one for each core, each with a loop and sockets of its own.
//!
//! In: tasks. Out: nothing; each runs on the thread that it was given to, to its end.
//! Why not a pool whose tasks wander: a connection that stays needs no lock to be woken by its own socket, a thread with
//! nothing to do is not woken to look for work, and a server that rests is smaller.
//! Holds: connections go to the threads in turn, so no thread has more than one connection more than another at the start.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

/// The threads, as long as this lives.
#[derive(Debug)]
pub(crate) struct Threads {
    loops: Loops,
    /// When it is dropped the loops end.
    _alive: watch::Sender<()>,
}

/// A way to give tasks to the threads.
#[derive(Clone, Debug)]
pub(crate) struct Loops {
    loops: Arc<[Handle]>,
    next: Arc<AtomicUsize>,
}

impl Threads {
    /// One for each core.
    pub(crate) fn start() -> io::Result<Self> {
        let (alive, _) = watch::channel(());
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let loops = (0..cores).map(|_| start_one(alive.subscribe())).collect::<io::Result<_>>()?;
        Ok(Self { loops: Loops { loops, next: Arc::default() }, _alive: alive })
    }

    /// A way to give them tasks, which does not keep them alive.
    pub(crate) fn loops(&self) -> Loops {
        self.loops.clone()
    }

    /// The loop of the first thread, on which everything but connections of clients runs.
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
        // Ends with an error, when nobody can change it any more. Tasks that still run are dropped with the loop.
        let _ = runtime.block_on(alive.changed());
        runtime.shutdown_background();
    })?;
    Ok(handle)
}
