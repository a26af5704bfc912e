//! The queue of commands for the node's thread.
//!
//! Connections, the disk and the admin server post commands; the node's thread takes all of them at once, in order.
//! This is not a channel, because the node's thread takes everything in one step: one lock and at most one wake-up
//! serve any number of commands.
//!
//! The queue is bounded because each sender is: a connection by its outstanding requests, the disk by the node's
//! writes.

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use pole_node::Event;
use pole_tree::Tree;
use pole_types::Zxid;
use pole_zab::Ticket;
use tokio::sync::Notify;

use crate::client::{Handle, Task};
use crate::peer::Delays;
use crate::question::Question;

/// A command for the node's thread.
pub(crate) enum Command {
    /// Passes an event to the node.
    Event(Event),
    /// Registers a connection that asks for a session.
    Attach { handle: Arc<Handle>, event: Event },
    /// A question of another thread, with the place for its answer.
    Ask(Question),
    /// Replaces the emulated delays of the links to other servers.
    SetDelays(Delays),
    /// A connection that is served best on this thread.
    Serve(Task),
    /// Reports the end of a restore.
    Restored {
        /// The ticket of the write that installed the snapshot.
        ticket: Ticket,
        /// The position of the snapshot.
        zxid: Zxid,
        /// The restored state, or why it could not be restored.
        tree: Result<Box<Tree>, String>,
    },
    /// Logs an event of the disk that does not concern the node.
    LogInfo(String),
    /// Logs a failure that the server can continue after.
    LogWarning(String),
    /// Stops the server.
    Stop,
}

impl Command {
    /// Wraps an event of a connection.
    pub(crate) fn from_connection(handle: &Arc<Handle>, event: Event) -> Self {
        if matches!(event, Event::Attach { .. }) {
            Self::Attach { handle: Arc::clone(handle), event }
        } else {
            Self::Event(event)
        }
    }
}

/// Commands that have not been taken yet.
#[derive(Default)]
pub(crate) struct Mailbox {
    commands: Mutex<Vec<Command>>,
    arrived: Notify,
}

impl Mailbox {
    pub(crate) fn post(&self, command: Command) {
        let mut commands = self.commands.lock();
        commands.push(command);
        let is_first = commands.len() == 1;
        drop(commands);
        if is_first {
            self.arrived.notify_one();
        }
    }

    pub(crate) fn post_all(&self, more: &mut Vec<Command>) {
        if more.is_empty() {
            return;
        }
        let mut commands = self.commands.lock();
        let is_first = commands.is_empty();
        commands.append(more);
        drop(commands);
        if is_first {
            self.arrived.notify_one();
        }
    }

    /// Moves all commands into `taken`, which must be empty.
    pub(crate) fn take(&self, taken: &mut Vec<Command>) {
        mem::swap(&mut *self.commands.lock(), taken);
    }

    /// Waits until a command has been posted.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }
}
