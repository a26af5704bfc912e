//! Work that takes as long as the state is large, on threads of its own: sending history to another server, and
//! restoring a state that another server sent.
//!
//! The node asks for one piece at a time and hears of it as an event, so that what is under way is bounded by what it
//! asks for. Everything here can be given up at any moment: a thread whose transfer was closed ends at its next piece.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use bytes::{Bytes, BytesMut};
use pole_node::Event;
use pole_storage::{LogReader, Pins, SnapshotReader, Writer};
use pole_tree::{Restorer, Rules, Tree};
use pole_zab::{Body, Ticket, TransferId, Zxid};

use crate::log;
use crate::mailbox::Letter;
use crate::shared::Shared;

/// The threads, for the node's.
pub(crate) struct Background {
    shared: Arc<Shared>,
    pins: Pins,
    snapshots: PathBuf,
    logs: PathBuf,
    transfers: HashMap<TransferId, Sender<Command>>,
    /// The restoration that counts.
    restoring: Option<Ticket>,
}

/// What is asked of a transfer.
enum Command {
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
        let (commands, asked) = channel();
        let sender = Transfer { id, shared: Arc::clone(&self.shared), asked, log: LogReader::new(&self.logs) };
        spawn("transfer", move || sender.run(state));
        self.transfers.insert(id, commands);
    }

    pub(crate) fn next_piece(&self, id: TransferId, bytes: usize) {
        self.ask(id, Command::Piece { bytes });
    }

    pub(crate) fn read_log(&self, id: TransferId, after: Zxid, through: Zxid, bytes: usize) {
        self.ask(id, Command::ReadLog { after, through, bytes });
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
            shared.mailbox.post(Letter::Restored { ticket, zxid, tree });
        });
        if !spawned {
            // Nobody else would ever say so.
            let tree = Err("no thread to restore it".to_owned());
            self.shared.mailbox.post(Letter::Restored { ticket, zxid, tree });
        }
    }

    /// Whether this is the restoration that was asked for last.
    pub(crate) fn is_restored(&mut self, ticket: Ticket) -> bool {
        self.restoring.take_if(|restoring| *restoring == ticket).is_some()
    }

    /// If its thread has ended, so has the transfer, and the node has heard why.
    fn ask(&self, id: TransferId, command: Command) {
        if let Some(commands) = self.transfers.get(&id) {
            let _ = commands.send(command);
        }
    }
}

/// Lets go of something large where nobody waits.
pub(crate) fn drop_elsewhere(large: impl Send + 'static) {
    spawn("drop", move || drop(large));
}

/// The thread of one transfer.
struct Transfer {
    id: TransferId,
    shared: Arc<Shared>,
    asked: Receiver<Command>,
    log: LogReader,
}

impl Transfer {
    fn run(mut self, state: Option<Body>) {
        if let Some(state) = state {
            self.send_state(&state);
        }
        while let Ok(command) = self.asked.recv() {
            match command {
                Command::Piece { .. } => {} // more were asked for than there are
                Command::ReadLog { after, through, bytes } => self.send_log(after, through, bytes),
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
                let Some(bytes) = wanted.take().or_else(|| self.wanted()) else {
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
        if !ended && wanted.or_else(|| self.wanted()).is_some() {
            self.post(ready.freeze(), true);
        }
    }

    /// Waits until a piece is wanted; none if the transfer was closed.
    fn wanted(&self) -> Option<usize> {
        loop {
            match self.asked.recv() {
                Ok(Command::Piece { bytes }) => return Some(bytes.max(1)),
                Ok(Command::ReadLog { .. }) => {} // the node asks for the log when it has the state
                Err(_) => return None,
            }
        }
    }

    fn post(&self, body: Bytes, last: bool) {
        self.shared.mailbox.post(Letter::Event(Event::PieceReady { transfer: self.id, body, last }));
    }

    fn send_log(&mut self, after: Zxid, through: Zxid, bytes: usize) {
        let entries = self.log.read(after, through, bytes).unwrap_or_else(|error| {
            self.shared.mailbox.post(Letter::Warning(format!("the log cannot be sent: {error}")));
            Vec::new()
        });
        self.shared.mailbox.post(Letter::Event(Event::LogRead { transfer: self.id, entries }));
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

/// False if there is no thread to be had. A transfer then makes no progress, and its receiver tries again.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> bool {
    let spawned = thread::Builder::new().name(name.into()).spawn(work);
    if let Err(error) = &spawned {
        log::warn("background", &[("what", &format!("no thread for {name}: {error}"))]);
    }
    spawned.is_ok()
}
