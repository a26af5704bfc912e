//! The disk watchdog: how long writes take, and whether the disk has stopped answering.
//!
//! It looks at the clock, never at the disk: a watchdog that waits behind the disk it watches would hang with it.

use alloc::collections::VecDeque;
use pole_election::Span;
use pole_oracle::Time;
use pole_zab::Ticket;

/// Writes under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiskWatch {
    writes: VecDeque<Ticket>,
    /// Since when the disk has owed us an answer: the first write, or the last answer. Not since the oldest write was
    /// queued: behind a disk that hung, all that waited would seem late, one after the other.
    since: Time,
    /// The disk did not answer in time and has not answered since.
    hangs: bool,
}

impl DiskWatch {
    pub(crate) fn begin(&mut self, ticket: Ticket, now: Time) {
        if self.writes.is_empty() {
            self.since = now;
        }
        self.writes.push_back(ticket);
    }

    /// Everything up to `through` is durable; returns how long that took.
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

    /// When the disk will have taken too long.
    pub(crate) fn deadline(&self, limit: Span) -> Option<Time> {
        (!self.writes.is_empty()).then(|| self.since + limit)
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Span = Span::from_ms(1_000);

    fn at(ms: u64) -> Time {
        Time(0) + Span::from_ms(ms)
    }

    #[test]
    fn a_disk_that_answers_again_is_not_late_with_all_that_waited() {
        let mut disk = DiskWatch::default();
        (1..=3).for_each(|n| disk.begin(Ticket(n), at(n)));
        assert!(disk.look(at(1_001), LIMIT));
        assert!(!disk.look(at(1_500), LIMIT), "told once");
        assert_eq!(disk.end(Ticket(1), at(2_000)), Some(Span::from_ms(1_999)));
        assert!(!disk.hangs() && !disk.look(at(2_500), LIMIT));
        assert!(disk.look(at(3_000), LIMIT), "late again");
    }

    #[test]
    fn an_idle_disk_is_never_late() {
        let mut disk = DiskWatch::default();
        disk.begin(Ticket(1), at(0));
        disk.end(Ticket(1), at(5));
        assert!(!disk.look(at(60_000), LIMIT));
        disk.begin(Ticket(2), at(60_000));
        assert_eq!(disk.end(Ticket(2), at(60_001)), Some(Span::from_ms(1)));
    }
}
