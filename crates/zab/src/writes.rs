//! Disk operations under way, each with what follows when it is durable.

use alloc::collections::VecDeque;
use core::hash::{Hash, Hasher};

use crate::Ticket;
use crate::state::OnDurable;

/// The operations under way, oldest first. Their tickets are consecutive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Writes {
    next: Ticket,
    pending: VecDeque<OnDurable>,
}

impl Writes {
    pub(crate) fn new() -> Self {
        Self { next: Ticket(1), pending: VecDeque::new() }
    }

    /// Adds an operation, and returns its ticket.
    pub(crate) fn push(&mut self, on_durable: OnDurable) -> Ticket {
        let ticket = self.next;
        self.next = Ticket(ticket.0 + 1);
        self.pending.push_back(on_durable);
        ticket
    }

    /// Removes the oldest operation if its ticket is at most `through`.
    pub(crate) fn pop_durable(&mut self, through: Ticket) -> Option<(Ticket, OnDurable)> {
        let oldest = Ticket(self.next.0 - self.pending.len() as u64);
        let on_durable = if oldest <= through { self.pending.pop_front() } else { None };
        on_durable.map(|on_durable| (oldest, on_durable))
    }

    /// What follows when each operation is durable.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut OnDurable> {
        self.pending.iter_mut()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }
}

/// Only what is under way: tickets are a counter, and two servers that differ only in it behave alike. The model checker
/// takes them for one state.
impl Hash for Writes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pending.hash(state);
    }
}
