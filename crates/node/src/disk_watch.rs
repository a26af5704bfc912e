//! The disk watchdog: measures how long writes take, and detects a disk that has stopped responding.
//!
//! It uses the clock only and never the disk: a watchdog that waits for the disk would hang along with it.

use alloc::collections::VecDeque;
use pole_types::{Span, Time};
use pole_zab::Ticket;

#[derive(Clone, Debug, Default)]
pub(crate) struct DiskWatch {
    writes: VecDeque<Ticket>,
    /// Since when the disk has owed us a completion: the first write, or the last completion. Not since the oldest
    /// write was queued: after a hang, all queued writes would appear to be late one after the other.
    since: Time,
    /// The disk exceeded its time limit and has not completed a write since.
    hangs: bool,
}

impl DiskWatch {
    pub(crate) fn begin(&mut self, ticket: Ticket, now: Time) {
        if self.writes.is_empty() {
            self.since = now;
        }
        self.writes.push_back(ticket);
    }

    /// Records that everything up to `through` is durable. Returns how long that took.
    pub(crate) fn end(&mut self, through: Ticket, now: Time) -> Option<Span> {
        let before = self.writes.len();
        while self.writes.front().is_some_and(|ticket| *ticket <= through) {
            self.writes.pop_front();
        }
        if self.writes.len() == before {
            return None;
        }
        self.hangs = false;
        Some(now - core::mem::replace(&mut self.since, now))
    }

    /// When the disk will exceed its time limit.
    pub(crate) fn deadline(&self, limit: Span) -> Option<Time> {
        (!self.writes.is_empty()).then(|| self.since + limit)
    }

    /// Returns true if the disk is found to hang, once per hang.
    pub(crate) fn check(&mut self, now: Time, limit: Span) -> bool {
        let late = self.deadline(limit).is_some_and(|deadline| now >= deadline);
        let found = late && !self.hangs;
        self.hangs |= late;
        found
    }

    pub(crate) fn hangs(&self) -> bool {
        self.hangs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Span = Span::from_ms(1_000);

    fn at(ms: u64) -> Time {
        Time(0) + Span::from_ms(ms)
    }

    #[test]
    fn after_a_hang_queued_writes_are_not_all_late() {
        let mut disk = DiskWatch::default();
        (1..=3).for_each(|n| disk.begin(Ticket(n), at(n)));
        assert!(disk.check(at(1_001), LIMIT));
        assert!(!disk.check(at(1_500), LIMIT), "reported once");
        assert_eq!(disk.end(Ticket(1), at(2_000)), Some(Span::from_ms(1_999)));
        assert!(!disk.hangs() && !disk.check(at(2_500), LIMIT));
        assert!(disk.check(at(3_000), LIMIT), "late again");
    }

    #[test]
    fn an_idle_disk_is_never_late() {
        let mut disk = DiskWatch::default();
        disk.begin(Ticket(1), at(0));
        disk.end(Ticket(1), at(5));
        assert!(!disk.check(at(60_000), LIMIT));
        disk.begin(Ticket(2), at(60_000));
        assert_eq!(disk.end(Ticket(2), at(60_001)), Some(Span::from_ms(1)));
    }
}
