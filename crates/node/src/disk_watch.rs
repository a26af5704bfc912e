//! The disk watchdog: how long writes take, and whether the disk has stopped answering.
//!
//! It looks at the clock, never at the disk: a watchdog that waits behind the disk it watches would hang with it.

use alloc::collections::VecDeque;
use pole_election::Span;
use pole_oracle::Time;
use pole_zab::Ticket;

/// Writes under way and when they began.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiskWatch {
    writes: VecDeque<(Ticket, Time)>,
    /// The disk did not answer in time and has not answered since.
    hangs: bool,
}

impl DiskWatch {
    pub(crate) fn begin(&mut self, ticket: Ticket, now: Time) {
        self.writes.push_back((ticket, now));
    }

    /// Everything up to `through` is durable; returns how long the last of it took.
    pub(crate) fn end(&mut self, through: Ticket, now: Time) -> Option<Span> {
        let mut took = None;
        while self.writes.front().is_some_and(|(ticket, _)| *ticket <= through) {
            took = self.writes.pop_front().map(|(_, began)| now - began);
        }
        self.hangs &= took.is_none();
        took
    }

    /// When the oldest write under way will have taken too long.
    pub(crate) fn deadline(&self, limit: Span) -> Option<Time> {
        self.writes.front().map(|(_, began)| *began + limit)
    }

    /// Looks at the clock; true when the disk is found hanging.
    pub(crate) fn look(&mut self, now: Time, limit: Span) -> bool {
        let late = self.deadline(limit).is_some_and(|deadline| now >= deadline);
        let found = late && !self.hangs;
        self.hangs |= late;
        found
    }

    pub(crate) fn hangs(&self) -> bool {
        self.hangs
    }
}
