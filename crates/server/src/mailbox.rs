//! The way to the node's thread.
//!
//! In: letters from connections, the disk and the admin server. Out: all of them at once, in order.
//! Why not a channel: the node takes everything there is in one step, so one lock and at most one wake-up pay for any
//! number of letters.
//! Holds: bounded, because each sender is: a connection by its requests under way, the disk by what the node wrote.

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use pole_node::Event;
use pole_tree::Tree;
use pole_zab::{Ticket, Zxid};
use tokio::sync::Notify;

use crate::client::{Handle, Task};
use crate::driver::Driver;

/// Something for the node's thread.
pub(crate) enum Letter {
    /// What happened.
    Event(Event),
    /// A connection asks for a session.
    Attach {
        /// The connection.
        handle: Arc<Handle>,
        /// What the node is to know.
        event: Event,
    },
    /// Someone wants to look, or to change what only this thread may.
    Look(Box<dyn FnOnce(&mut Driver) + Send>),
    /// A connection that is served best on this thread.
    Serve(Task),
    /// A state was restored, or why it was not.
    Restored {
        /// The write that put the snapshot in place.
        ticket: Ticket,
        /// Its position.
        zxid: Zxid,
        /// The state.
        tree: Result<Box<Tree>, String>,
    },
    /// The disk did something that the node need not know.
    Said(String),
    /// The disk could not do something that it can go on without.
    Warning(String),
    /// The server is to stop.
    Stop,
}

impl Letter {
    /// What a connection asks of the node.
    pub(crate) fn of_connection(handle: &Arc<Handle>, event: Event) -> Self {
        if matches!(event, Event::Attach { .. }) {
            Self::Attach { handle: Arc::clone(handle), event }
        } else {
            Self::Event(event)
        }
    }
}

/// Letters that were not taken yet.
#[derive(Default)]
pub(crate) struct Mailbox {
    letters: Mutex<Vec<Letter>>,
    arrived: Notify,
}

impl Mailbox {
    pub(crate) fn post(&self, letter: Letter) {
        let mut letters = self.letters.lock();
        letters.push(letter);
        let is_first = letters.len() == 1;
        drop(letters);
        if is_first {
            self.arrived.notify_one();
        }
    }

    pub(crate) fn post_all(&self, more: &mut Vec<Letter>) {
        if more.is_empty() {
            return;
        }
        let mut letters = self.letters.lock();
        let is_first = letters.is_empty();
        letters.append(more);
        drop(letters);
        if is_first {
            self.arrived.notify_one();
        }
    }

    /// Everything there is, into `taken`, which is empty.
    pub(crate) fn take(&self, taken: &mut Vec<Letter>) {
        mem::swap(&mut *self.letters.lock(), taken);
    }

    /// Returns when there was something.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }
}
