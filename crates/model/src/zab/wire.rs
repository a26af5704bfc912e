//! One direction of a quorum link: a queue of messages, possibly ended by a close.
//!
//! Messages sent before the close may still arrive, in order, followed by the close; nothing comes after it.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use pole_zab::Message;

use crate::digest::digest;

/// What is transmitted.
#[derive(Clone, Debug)]
pub(crate) enum Packet {
    /// A message with its digest, which is stored because queues are hashed far more often than they change.
    Message(Arc<Message>, u64),
    /// The sender has closed its end.
    Close,
}

/// The packets in flight in one direction, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire(pub(crate) VecDeque<Packet>);

/// Both directions of all links.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Wires {
    servers: usize,
    all: Vec<Wire>,
}

impl Wires {
    pub(crate) fn new(servers: usize) -> Self {
        Self { servers, all: vec![Wire::default(); servers * servers] }
    }
}

/// The directions from one server, by receiver.
impl Index<usize> for Wires {
    type Output = [Wire];

    fn index(&self, from: usize) -> &[Wire] {
        &self.all[from * self.servers..][..self.servers]
    }
}

impl IndexMut<usize> for Wires {
    fn index_mut(&mut self, from: usize) -> &mut [Wire] {
        &mut self.all[from * self.servers..][..self.servers]
    }
}

impl Packet {
    pub(crate) fn message(message: Message) -> Self {
        let digest = digest(&message);
        Self::Message(Arc::new(message), digest)
    }
}

impl Wire {
    pub(crate) fn push(&mut self, packet: Packet) {
        if !matches!(self.0.back(), Some(Packet::Close)) {
            self.0.push_back(packet);
        }
    }

    /// The message that would arrive next.
    pub(crate) fn head(&self) -> Option<&Message> {
        match self.0.front() {
            Some(Packet::Message(message, _)) => Some(message),
            Some(Packet::Close) | None => None,
        }
    }

    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.0.front(), Some(Packet::Close))
    }
}

impl Hash for Wire {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.len().hash(state);
        for packet in &self.0 {
            match packet {
                Packet::Message(_, digest) => digest.hash(state),
                Packet::Close => 0u64.hash(state),
            }
        }
    }
}
