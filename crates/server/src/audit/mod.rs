//! The audit log: one line for every change that a client asked for, with the fields of Apache's (`audit.enable`).
//!
//! The server to which a client is connected writes the lines of its requests, when it answers them. Every server writes
//! the ephemeral nodes that a session leaves behind. The threads of the server only queue what is needed for a line; a
//! thread of its own decodes, formats and writes it. If the disk is too slow and the queue is full, lines are dropped
//! and counted (`pole_audit_lines_dropped_total`): the service does not wait for its log.

mod file;
mod line;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tracing::{error, warn};

use crate::clock::wall_ms;
use crate::log::target::SERVER;
pub(crate) use file::FileSettings;
use file::LogFile;

/// The queue in front of the thread that writes the log.
pub(crate) struct AuditLog {
    /// `None` after [`AuditLog::close`].
    sender: Mutex<Option<SyncSender<(i64, Record)>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Bytes of the records in the queue.
    queued_bytes: AtomicUsize,
    dropped: AtomicU64,
}

/// What a line, or several, are made of.
#[derive(Debug)]
pub(crate) enum Record {
    /// A client's write and its answer.
    Request {
        session: i64,
        address: IpAddr,
        /// As `pole_tree::WriteRequest`, with the identities of the client.
        request: Bytes,
        /// The code, then the body.
        reply: Bytes,
    },
    /// The ephemeral nodes of a session that has ended.
    SessionEnd {
        session: i64,
        paths: Vec<Arc<str>>,
    },
    ServerStart,
    ServerStop,
}

impl AuditLog {
    /// Opens the file and starts the thread.
    pub(crate) fn open(settings: FileSettings) -> io::Result<Self> {
        let file = LogFile::open(settings)?;
        let (sender, receiver) = sync_channel(RECORDS_MAX);
        let counts = Arc::<Counts>::default();
        let of_thread = Arc::clone(&counts);
        let thread = thread::Builder::new().name("audit".into()).spawn(move || write(&receiver, file, &of_thread))?;
        Ok(Self { sender: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)), counts })
    }

    /// Queues a record with the present time. Never waits.
    pub(crate) fn add(&self, record: Record) {
        let (bytes, counts) = (record.bytes(), &self.counts);
        let sender = self.sender.lock();
        let Some(sender) = &*sender else { return };
        if counts.queued_bytes.fetch_add(bytes, Ordering::AcqRel) + bytes <= BYTES_MAX {
            match sender.try_send((wall_ms(), record)) {
                Ok(()) => return,
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            }
        }
        counts.queued_bytes.fetch_sub(bytes, Ordering::AcqRel);
        if counts.dropped.fetch_add(1, Ordering::Relaxed) == 0 {
            warn!(target: SERVER, what = "the disk is too slow for it: see pole_audit_lines_dropped_total", "audit_lines_dropped");
        }
    }

    /// Records that were not written because the queue was full, or the file could not be written.
    pub(crate) fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }

    /// Writes what is queued, and waits for that for a moment.
    pub(crate) fn close(&self) {
        drop(self.sender.lock().take());
        let Some(thread) = self.thread.lock().take() else { return };
        let limit = Instant::now() + CLOSE_MAX;
        while !thread.is_finished() && Instant::now() < limit {
            // A thread cannot be joined with a time limit.
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Record {
    /// The memory that it takes, about.
    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Request { request, reply, .. } => request.len() + reply.len(),
                Self::SessionEnd { paths, .. } => paths.iter().map(|path| 16 + path.len()).sum(),
                Self::ServerStart | Self::ServerStop => 0,
            }
    }
}

/// The thread: writes records until there is no sender any more.
fn write(records: &Receiver<(i64, Record)>, mut file: LogFile, counts: &Counts) {
    let mut has_failed = false;
    let mut text = String::new();
    while let Ok(first) = records.recv() {
        // Everything that waits goes into one write.
        let mut next = Some(first);
        while let Some((at_ms, record)) = next {
            counts.queued_bytes.fetch_sub(record.bytes(), Ordering::AcqRel);
            line::write(at_ms, &record, &mut text);
            next = if text.len() < BATCH_BYTES { records.try_recv().ok() } else { None };
        }
        if let Err(why) = file.write(&text) {
            counts.dropped.fetch_add(text.lines().count() as u64, Ordering::Relaxed);
            if !has_failed {
                error!(target: SERVER, error = %why, what = "the audit log cannot be written", "audit_failed");
            }
            has_failed = true;
        }
        text.clear();
    }
}

/// Records that may wait: what a busy second brings.
const RECORDS_MAX: usize = 65_536;

/// Bytes of records that may wait. Requests may be as large as `jute.maxbuffer`.
const BYTES_MAX: usize = 32 << 20;

/// Bytes of text in one write, about.
const BATCH_BYTES: usize = 256 << 10;

/// How long the end of a server waits for its audit log.
const CLOSE_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_records_and_counts_them() {
        let dir = std::env::temp_dir().join(format!("pole-audit-{}", std::process::id()));
        let settings = FileSettings { path: dir.join("audit.log"), bytes_max: 1 << 20, files_max: 2 };
        let log = AuditLog::open(settings).expect("a file");
        let large = || Record::Request {
            session: 1,
            address: IpAddr::from([127, 0, 0, 1]),
            request: vec![0; BYTES_MAX].into(),
            reply: Bytes::new(),
        };
        log.add(large());
        assert_eq!(log.dropped(), 1, "it alone is larger than the queue");
        log.add(Record::ServerStart);
        log.close();
        log.add(Record::ServerStop);
        let text = std::fs::read_to_string(dir.join("audit.log")).expect("a file");
        assert!(text.ends_with("operation=serverStart\tresult=success\n"), "{text}");
        assert_eq!((text.lines().count(), log.counts.queued_bytes.load(Ordering::Relaxed)), (1, 0));
        std::fs::remove_dir_all(dir).expect("it is removed");
    }
}
