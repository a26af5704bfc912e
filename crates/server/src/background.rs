//! Runs work whose duration grows with the state on threads of its own: sending history to another server, and
//! restoring a state received from one.
//!
//! The node requests one piece at a time and receives it as an event, so the work in flight is bounded by its requests.
//! All of this can be abandoned at any time: the thread of a closed transfer ends at its next piece.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use bytes::{Bytes, BytesMut};
use pole_node::Event;
use pole_storage::{LogReader, Pins, SnapshotReader, Writer};
use pole_tree::{Restorer, Rules, Tree};
use pole_types::Zxid;
use pole_zab::{Body, Ticket, TransferId};
use tracing::warn;

use crate::log::target::SERVER;
use crate::mailbox::Command;
use crate::shared::Shared;

/// The background threads, as seen by the node's thread.
pub(crate) struct Background {
    shared: Arc<Shared>,
    pins: Pins,
    snapshots: PathBuf,
    logs: PathBuf,
    transfers: HashMap<TransferId, Sender<TransferRequest>>,
    /// The most recent restore; the results of earlier ones are dropped.
    restoring: Option<Ticket>,
}

/// A request to the thread of a transfer.
enum TransferRequest {
    Piece { bytes: usize },
    ReadLog { after: Zxid, through: Zxid, bytes: usize },
}

impl Background {
    pub(crate) fn new(shared: Arc<Shared>, disk: &Writer) -> Self {
        let (snapshots, logs) = disk.directories();
        Self {
            shared,
            pins: disk.pins().clone(),
            snapshots: snapshots.to_owned(),
            logs: logs.to_owned(),
            transfers: HashMap::new(),
            restoring: None,
        }
    }

    pub(crate) fn open_transfer(&mut self, id: TransferId, after: Zxid, state: Option<Body>) {
        self.pins.keep(id.0, after);
        let (sender, requests) = channel();
        let transfer = Transfer { id, shared: Arc::clone(&self.shared), requests, log: LogReader::new(&self.logs) };
        spawn("transfer", move || transfer.run(state));
        self.transfers.insert(id, sender);
    }

    pub(crate) fn next_piece(&self, id: TransferId, bytes: usize) {
        self.request(id, TransferRequest::Piece { bytes });
    }

    pub(crate) fn read_log(&self, id: TransferId, after: Zxid, through: Zxid, bytes: usize) {
        self.request(id, TransferRequest::ReadLog { after, through, bytes });
    }

    pub(crate) fn close_transfer(&mut self, id: TransferId) {
        self.pins.release(id.0);
        self.transfers.remove(&id);
    }

    pub(crate) fn restore(&mut self, ticket: Ticket, zxid: Zxid) {
        self.restoring = Some(ticket);
        let (shared, dir) = (Arc::clone(&self.shared), self.snapshots.clone());
        let spawned = spawn("restore", move || {
            let tree = restore(&dir, zxid, shared.settings.rules).map(Box::new);
            shared.mailbox.post(Command::Restored { ticket, zxid, tree });
        });
        if !spawned {
            // Without a thread there is nothing else that would report the failure.
            let tree = Err("no thread to restore it".to_owned());
            self.shared.mailbox.post(Command::Restored { ticket, zxid, tree });
        }
    }

    /// Returns whether this is the most recent restore, and marks it as finished.
    pub(crate) fn finish_restore(&mut self, ticket: Ticket) -> bool {
        self.restoring.take_if(|restoring| *restoring == ticket).is_some()
    }

    /// Sends a request to the thread of a transfer. If that thread has ended, the node already knows why.
    fn request(&self, id: TransferId, request: TransferRequest) {
        if let Some(sender) = self.transfers.get(&id) {
            let _ = sender.send(request);
        }
    }
}

/// Drops a large value on a thread of its own, because freeing it takes long.
pub(crate) fn drop_in_background(large: impl Send + 'static) {
    spawn("drop", move || drop(large));
}

/// The thread of one transfer.
struct Transfer {
    id: TransferId,
    shared: Arc<Shared>,
    requests: Receiver<TransferRequest>,
    log: LogReader,
}

impl Transfer {
    fn run(mut self, state: Option<Body>) {
        if let Some(state) = state {
            self.send_state(&state);
        }
        while let Ok(request) = self.requests.recv() {
            match request {
                TransferRequest::Piece { .. } => {} // more pieces were requested than there are
                TransferRequest::ReadLog { after, through, bytes } => self.send_log(after, through, bytes),
            }
        }
    }

    fn send_state(&mut self, state: &Body) {
        let (mut ready, mut wanted) = (BytesMut::new(), None);
        let mut ended = false;
        state.write(&mut |piece| {
            if ended {
                return;
            }
            ready.extend_from_slice(piece);
            loop {
                let Some(bytes) = wanted.take().or_else(|| self.next_piece_bytes()) else {
                    ended = true;
                    return;
                };
                if ready.len() < bytes {
                    wanted = Some(bytes);
                    return;
                }
                self.post(ready.split_to(bytes).freeze(), false);
            }
        });
        if !ended && wanted.or_else(|| self.next_piece_bytes()).is_some() {
            self.post(ready.freeze(), true);
        }
    }

    /// Waits for a request for a piece and returns its size; `None` if the transfer was closed.
    fn next_piece_bytes(&self) -> Option<usize> {
        loop {
            match self.requests.recv() {
                Ok(TransferRequest::Piece { bytes }) => return Some(bytes.max(1)),
                Ok(TransferRequest::ReadLog { .. }) => {} // the node requests the log only after the state
                Err(_) => return None,
            }
        }
    }

    fn post(&self, body: Bytes, last: bool) {
        self.shared.mailbox.post(Command::Event(Event::PieceReady { transfer: self.id, body, last }));
    }

    fn send_log(&mut self, after: Zxid, through: Zxid, bytes: usize) {
        let entries = self.log.read(after, through, bytes).unwrap_or_else(|error| {
            self.shared.mailbox.post(Command::LogWarning(format!("the log cannot be sent: {error}")));
            Vec::new()
        });
        self.shared.mailbox.post(Command::Event(Event::LogRead { transfer: self.id, entries }));
    }
}

fn restore(dir: &Path, zxid: Zxid, rules: Rules) -> Result<Tree, String> {
    let mut snapshot = SnapshotReader::open(dir, zxid).map_err(|error| error.to_string())?;
    let mut restorer = Restorer::new(rules);
    while let Some(piece) = snapshot.next_piece().map_err(|error| error.to_string())? {
        restorer.feed(piece).map_err(|error| error.to_string())?;
    }
    restorer.finish().map_err(|error| error.to_string())
}

/// Returns false if no thread could be created. A transfer then makes no progress, and its receiver tries again.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> bool {
    let spawned = thread::Builder::new().name(name.into()).spawn(work);
    if let Err(error) = &spawned {
        warn!(target: SERVER, what = %format_args!("no thread for {name}: {error}"), "background");
    }
    spawned.is_ok()
}
