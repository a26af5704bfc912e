//! Handling of SIGTERM and SIGINT.

use std::io;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Catches the signals: once it exists, they no longer end the process but are queued for [`Self::on_each`].
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

    /// Calls `handler` on a thread of its own for each signal, until it returns false.
    pub(crate) fn on_each(mut self, mut handler: impl FnMut() -> bool + Send + 'static) {
        std::thread::spawn(move || {
            self.runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = self.terminate.recv() => {}
                        _ = self.interrupt.recv() => {}
                    }
                    if !handler() {
                        return;
                    }
                }
            });
        });
    }
}
