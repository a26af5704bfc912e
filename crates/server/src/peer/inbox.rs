//! The queue of everything that happens on the links, drained by the node's thread.
//!
//! There is one queue for all links, so that the order of events is the order in which they happened. For each link:
//!
//! - nothing of an old connection arrives after its `Down`;
//! - `Up` of a new connection comes after `Down` of the old one;
//! - after [`Inbox::forget`] nothing arrives but what a new connection brings.
//!
//! The queue is bounded: links stop reading when it is full. Links and node run on the same thread, so there are no
//! locks.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use pole_node::{Channel, Message};
use pole_types::ServerId;
use tokio::sync::Notify;

/// An event on a link.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly all are messages; a box for each would cost more than it saves")]
pub enum Arrival {
    /// A link was opened.
    Up {
        /// The other end.
        peer: ServerId,
        /// The channel of the link.
        channel: Channel,
        /// The number of the connection within the link.
        number: u64,
    },
    /// A link was closed.
    Down {
        /// The other end.
        peer: ServerId,
        /// The channel of the link.
        channel: Channel,
    },
    /// A message arrived.
    Received {
        /// The sender.
        from: ServerId,
        /// The channel of the link.
        channel: Channel,
        /// The message.
        message: Message,
    },
    /// A note for the operator, such as a refused connection, an unreachable peer or a broken link.
    Note {
        /// One line of text.
        text: String,
    },
}

/// The queue. Clones share it.
///
/// Arrivals must be taken one at a time, and the effects of each carried out before the next is taken, because a reset
/// removes what is still queued here.
#[derive(Clone, Debug, Default)]
pub struct Inbox(Rc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: RefCell<State>,
    arrived: Notify,
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Each with the size of its frame; 0 if it is not a message.
    queue: VecDeque<(Arrival, usize)>,
    /// The connection of each link that is open as far as the node knows, from the last `Up` that was taken.
    open: BTreeMap<(ServerId, Channel), u64>,
    /// The number of messages in the queue, and their bytes.
    messages: usize,
    bytes: usize,
    /// The number of notes in the queue, and of those dropped since the last one was queued.
    notes: usize,
    omitted: u64,
}

impl Inbox {
    /// Creates an empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next arrival, if there is one.
    #[must_use]
    pub fn pop(&self) -> Option<Arrival> {
        let mut state = self.0.state.borrow_mut();
        let was_full = state.is_full();
        let (arrival, bytes) = state.queue.pop_front()?;
        state.uncount(&arrival, bytes);
        match &arrival {
            Arrival::Up { peer, channel, number } => drop(state.open.insert((*peer, *channel), *number)),
            Arrival::Down { peer, channel } => drop(state.open.remove(&(*peer, *channel))),
            Arrival::Received { .. } | Arrival::Note { .. } => {}
        }
        if was_full && !state.is_full() {
            self.0.room.notify_waiters();
        }
        Some(arrival)
    }

    /// Waits until the queue is not empty. Cancel safe.
    pub async fn arrived(&self) {
        while self.is_empty() {
            self.0.arrived.notified().await;
        }
    }

    /// Whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.state.borrow().queue.is_empty()
    }

    /// The number of arrivals in the queue.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.state.borrow().queue.len()
    }

    /// Whether the node has taken the `Up` of this connection and nothing that ends it. When a connection is replaced,
    /// the node's messages are meant for the old one until it has taken the `Up` of the new one.
    #[must_use]
    pub fn is_open(&self, peer: ServerId, channel: Channel, number: u64) -> bool {
        self.0.state.borrow().open.get(&(peer, channel)) == Some(&number)
    }

    /// Waits until the queue has room for messages.
    pub async fn room(&self) {
        loop {
            let room = self.0.room.notified();
            if !self.0.state.borrow().is_full() {
                return;
            }
            room.await;
        }
    }

    /// Queues the start of a connection that passed the handshake. The connections of a link are numbered upwards, and
    /// a new one comes after the end of the old one.
    pub fn up(&self, peer: ServerId, channel: Channel, number: u64) {
        self.push(Arrival::Up { peer, channel, number }, 0);
    }

    /// Queues the end of the current connection. If its `Up` has not been taken yet, all of it is removed instead, so
    /// that the queue stays bounded however often a peer reconnects. This is correct, because a link may lose any
    /// suffix of what was sent.
    pub fn down(&self, peer: ServerId, channel: Channel) {
        let pending_up = {
            let state = self.0.state.borrow();
            let is_up = |(arrival, _): &(Arrival, usize)| match arrival {
                Arrival::Up { .. } => arrival.link() == Some((peer, channel)),
                Arrival::Down { .. } | Arrival::Received { .. } | Arrival::Note { .. } => false,
            };
            state.queue.iter().rposition(is_up)
        };
        match pending_up {
            Some(from) => self.remove(from, peer, channel),
            None => self.push(Arrival::Down { peer, channel }, 0),
        }
    }

    /// Removes everything of a link that the node has reset.
    pub fn forget(&self, peer: ServerId, channel: Channel) {
        self.remove(0, peer, channel);
        self.0.state.borrow_mut().open.remove(&(peer, channel));
    }

    /// Queues a message of the current connection. `bytes` is the size of its frame.
    pub fn received(&self, from: ServerId, channel: Channel, message: Message, bytes: usize) {
        self.push(Arrival::Received { from, channel, message }, bytes);
    }

    pub(super) fn note(&self, text: String) {
        let text = {
            let mut state = self.0.state.borrow_mut();
            if state.notes >= NOTES_MAX {
                state.omitted += 1;
                return;
            }
            match std::mem::take(&mut state.omitted) {
                0 => text,
                omitted => format!("{text} (and {omitted} earlier notes were dropped)"),
            }
        };
        self.push(Arrival::Note { text }, 0);
    }

    fn push(&self, arrival: Arrival, bytes: usize) {
        let mut state = self.0.state.borrow_mut();
        state.count(&arrival, bytes);
        state.queue.push_back((arrival, bytes));
        self.0.arrived.notify_one();
    }

    /// Removes everything of a link from the queue, beginning at this index.
    fn remove(&self, from: usize, peer: ServerId, channel: Channel) {
        let mut state = self.0.state.borrow_mut();
        let tail = state.queue.split_off(from);
        for (arrival, bytes) in tail {
            if arrival.link() == Some((peer, channel)) {
                state.uncount(&arrival, bytes);
            } else {
                state.queue.push_back((arrival, bytes));
            }
        }
        self.0.room.notify_waiters();
    }
}

impl State {
    fn is_full(&self) -> bool {
        self.messages >= MESSAGES_MAX || self.bytes >= BYTES_MAX
    }

    fn count(&mut self, arrival: &Arrival, bytes: usize) {
        self.bytes += bytes;
        match arrival {
            Arrival::Received { .. } => self.messages += 1,
            Arrival::Note { .. } => self.notes += 1,
            Arrival::Up { .. } | Arrival::Down { .. } => {}
        }
    }

    fn uncount(&mut self, arrival: &Arrival, bytes: usize) {
        self.bytes -= bytes;
        match arrival {
            Arrival::Received { .. } => self.messages -= 1,
            Arrival::Note { .. } => self.notes -= 1,
            Arrival::Up { .. } | Arrival::Down { .. } => {}
        }
    }
}

impl Arrival {
    fn link(&self) -> Option<(ServerId, Channel)> {
        match self {
            Self::Up { peer, channel, .. } | Self::Down { peer, channel } => Some((*peer, *channel)),
            Self::Received { from, channel, .. } => Some((*from, *channel)),
            Self::Note { .. } => None,
        }
    }
}

/// The number of queued messages at which links stop reading, so that TCP flow control slows the senders down. The node
/// processes as many in about ten milliseconds.
const MESSAGES_MAX: usize = 4096;

/// The same in bytes: several batches of the largest size from each of a few peers.
const BYTES_MAX: usize = 16 << 20;

/// The number of queued notes. Further ones are only counted, so that a flood of connections cannot fill memory or the
/// log.
const NOTES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: ServerId = ServerId(2);
    const OTHER: ServerId = ServerId(3);

    fn echo(inbox: &Inbox, from: ServerId, seq: u64) {
        inbox.received(from, Channel::Quorum, Message::Echo { seq }, 9);
    }

    fn drain(inbox: &Inbox) -> Vec<Arrival> {
        std::iter::from_fn(|| inbox.pop()).collect()
    }

    #[test]
    fn a_reset_takes_back_what_waits_of_that_link_alone() {
        let inbox = Inbox::new();
        echo(&inbox, PEER, 1);
        echo(&inbox, OTHER, 2);
        inbox.received(PEER, Channel::Election, Message::Echo { seq: 3 }, 9);
        inbox.forget(PEER, Channel::Quorum);
        let left: Vec<_> = drain(&inbox).iter().map(Arrival::link).collect();
        assert_eq!(left, [Some((OTHER, Channel::Quorum)), Some((PEER, Channel::Election))]);
    }

    #[test]
    fn a_connection_that_the_node_never_heard_of_leaves_no_trace() {
        let inbox = Inbox::new();
        echo(&inbox, PEER, 1);
        inbox.down(PEER, Channel::Quorum);
        for seq in 2..100 {
            inbox.up(PEER, Channel::Quorum, seq);
            echo(&inbox, PEER, seq);
            inbox.down(PEER, Channel::Quorum);
        }
        inbox.up(PEER, Channel::Quorum, 100);
        let up = Arrival::Up { peer: PEER, channel: Channel::Quorum, number: 100 };
        let down = Arrival::Down { peer: PEER, channel: Channel::Quorum };
        let first = Arrival::Received { from: PEER, channel: Channel::Quorum, message: Message::Echo { seq: 1 } };
        assert_eq!(drain(&inbox), [first, down, up]);
    }

    #[test]
    fn a_connection_is_open_for_the_node_from_its_up_to_its_end() {
        let inbox = Inbox::new();
        let is_open = |number| inbox.is_open(PEER, Channel::Quorum, number);
        inbox.up(PEER, Channel::Quorum, 1);
        assert!(!is_open(1), "the node has not heard of it");
        assert!(inbox.pop().is_some() && is_open(1));
        inbox.down(PEER, Channel::Quorum);
        inbox.up(PEER, Channel::Quorum, 2);
        assert!(is_open(1) && !is_open(2), "the node still speaks to the first");
        assert!(inbox.pop().is_some() && !is_open(1) && !is_open(2));
        assert!(inbox.pop().is_some() && is_open(2));
        inbox.forget(PEER, Channel::Quorum);
        assert!(!is_open(2));
    }

    #[test]
    fn notes_beyond_the_limit_are_counted_and_the_count_is_reported() {
        let inbox = Inbox::new();
        (0..NOTES_MAX + 5).for_each(|_| inbox.note("stranger".into()));
        assert_eq!(drain(&inbox).len(), NOTES_MAX);
        inbox.note("another".into());
        let expected = Arrival::Note { text: "another (and 5 earlier notes were dropped)".into() };
        assert_eq!(inbox.pop(), Some(expected));
    }

    #[test]
    fn the_inbox_is_full_until_enough_is_taken_out() {
        let inbox = Inbox::new();
        (0..MESSAGES_MAX as u64).for_each(|seq| echo(&inbox, PEER, seq));
        assert!(inbox.0.state.borrow().is_full());
        assert!(inbox.pop().is_some());
        assert!(!inbox.0.state.borrow().is_full());
    }

    #[test]
    fn the_inbox_is_full_of_bytes_as_they_came_whatever_the_message() {
        let inbox = Inbox::new();
        for seq in 0..4 {
            assert!(!inbox.0.state.borrow().is_full());
            inbox.received(PEER, Channel::Election, Message::Echo { seq }, BYTES_MAX / 4);
        }
        assert!(inbox.0.state.borrow().is_full());
        inbox.forget(PEER, Channel::Election);
        assert_eq!(inbox.0.state.borrow().bytes, 0);
    }
}
