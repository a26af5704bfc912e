//! The thread that writes the log to standard error, behind a bounded queue.
//!
//! A blocked reader (a full pipe, a paused terminal) never blocks the server. If the queue is full, lines are dropped and
//! counted; the next line that fits is preceded by the count.

use std::io::Write as _;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};

use super::format::Line;

/// Queues a line.
pub(super) fn write(line: Line<'_>, is_json: bool) {
    let dropped = lines_dropped();
    if dropped > DROPPED_REPORTED.swap(dropped, Ordering::Relaxed) {
        let fields = [("total", dropped.to_string())];
        WRITER.write(&Line { level: "WARN", event: "log_lines_dropped", fields: &fields }.format(is_json));
    }
    WRITER.write(&line.format(is_json));
}

/// Waits until everything queued so far is written, for a second at most. Later lines are written by the thread that
/// logs them.
pub(super) fn flush() {
    drop(WRITER.worker.lock().take());
}

/// The number of lines dropped because the reader of the log was too slow.
pub(crate) fn lines_dropped() -> usize {
    WRITER.dropped.dropped_lines()
}

/// The thread that writes, and the queue in front of it.
struct Writer {
    lines: NonBlocking,
    dropped: ErrorCounter,
    /// `None` after [`flush`].
    worker: Mutex<Option<WorkerGuard>>,
}

impl Writer {
    fn start() -> Self {
        let builder = NonBlockingBuilder::default().buffered_lines_limit(LINES_MAX).lossy(true).thread_name("log");
        let (lines, worker) = builder.finish(std::io::stderr());
        Self { dropped: lines.error_counter(), lines, worker: Mutex::new(Some(worker)) }
    }

    fn write(&self, line: &str) {
        // A log that cannot be written must not stop the server.
        let _ = match &*self.worker.lock() {
            Some(_) => self.lines.clone().write_all(line.as_bytes()),
            None => std::io::stderr().lock().write_all(line.as_bytes()),
        };
    }
}

static WRITER: LazyLock<Writer> = LazyLock::new(Writer::start);

/// How many dropped lines have been reported in the log.
static DROPPED_REPORTED: AtomicUsize = AtomicUsize::new(0);

/// Lines that may wait to be written: about what a busy second logs.
const LINES_MAX: usize = 1024;
