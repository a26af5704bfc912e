//! SIGTERM and SIGINT: the wish to stop.

use std::io;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// From here on the signals no longer end the process; they wait to be heard.
pub(crate) struct Signals {
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn catch() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (terminate, interrupt) = {
            let _entered = runtime.enter();
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
        };
        Ok(Self { runtime, terminate, interrupt })
    }

    /// Does this on a thread of its own, each time that a signal arrives, until it says that it has heard enough.
    pub(crate) fn each(mut self, mut heard: impl FnMut() -> bool + Send + 'static) {
        std::thread::spawn(move || {
            self.runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = self.terminate.recv() => {}
                        _ = self.interrupt.recv() => {}
                    }
                    if !heard() {
                        return;
                    }
                }
            });
        });
    }
}
