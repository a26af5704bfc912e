//! Decides whether the node's thread carries out a write of the log itself, or leaves it to the disk thread.
//!
//! Only single appends that follow many others of the same session are carried out here, and only while the disk is fast.

use std::time::Duration;

use pole_types::SessionId;
use pole_zab::{DiskOp, Entry, Ticket};

/// What the last writes were.
#[derive(Debug, Default)]
pub(crate) struct WritePlacement {
    /// The session of the last entry.
    session: SessionId,
    /// How many writes in a row were a single entry of this session.
    in_a_row: u8,
    /// Moving average of the time that a write on the node's thread takes.
    took: Duration,
}

impl WritePlacement {
    /// Looks at the writes that are to be started now.
    pub(crate) fn learn(&mut self, writes: &[(Ticket, DiskOp)]) {
        match writes {
            [(_, DiskOp::Append(entries))] => self.appended(entries),
            // A batch from several clients, or an operation that is rare and slow.
            _ => self.in_a_row = 0,
        }
    }

    fn appended(&mut self, entries: &[Entry]) {
        if let [entry] = entries {
            let is_same = entry.origin.session == self.session;
            self.in_a_row = if is_same { self.in_a_row.saturating_add(1) } else { 0 };
            self.session = entry.origin.session;
        } else {
            self.in_a_row = 0;
        }
        if self.in_a_row >= IN_A_ROW_MIN && self.took > TOOK_MAX {
            // The average decays, so that a write on the node's thread is tried again from time to time.
            self.took = self.took * 31 / 32;
            self.in_a_row = IN_A_ROW_MIN - 1;
        }
    }

    /// Whether the last write that was looked at belongs on the node's thread.
    pub(crate) fn is_here(&self) -> bool {
        self.in_a_row >= IN_A_ROW_MIN
    }

    /// Records how long a write on the node's thread took.
    pub(crate) fn took(&mut self, took: Duration) {
        self.took = (self.took * 7 + took) / 8;
    }
}

/// A second writer is noticed sooner than a lone one is believed.
const IN_A_ROW_MIN: u8 = 8;

/// A disk that is slower than this on average is written to by the disk thread only.
const TOOK_MAX: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use pole_types::{Cxid, Epoch, Zxid};
    use pole_zab::Origin;

    /// How many of these writes, each with the sessions of its entries, would be on the node's thread.
    fn here(placement: &mut WritePlacement, writes: &[&[i64]]) -> usize {
        let entry = |session: &i64| Entry {
            zxid: Zxid::ZERO,
            origin: Origin { session: SessionId(*session), cxid: Cxid(1) },
            body: "x".into(),
        };
        let is_here = |sessions: &&&[i64]| {
            placement.learn(&[(Ticket(1), DiskOp::Append(sessions.iter().map(entry).collect()))]);
            placement.is_here()
        };
        writes.iter().filter(is_here).count()
    }

    #[test]
    fn a_lone_writer_is_served_here_after_a_while() {
        assert_eq!(here(&mut WritePlacement::default(), &[&[7][..]; 20]), 20 - usize::from(IN_A_ROW_MIN));
    }

    #[test]
    fn two_writers_and_batches_are_not() {
        assert_eq!(here(&mut WritePlacement::default(), &[&[7][..], &[8]].repeat(20)), 0);
        assert_eq!(here(&mut WritePlacement::default(), &[&[7, 7][..]; 20]), 0);
    }

    #[test]
    fn a_rare_operation_is_not() {
        let mut placement = WritePlacement::default();
        here(&mut placement, &[&[7][..]; 20]);
        placement.learn(&[(Ticket(1), DiskOp::CurrentEpoch(Epoch(1)))]);
        assert!(!placement.is_here());
    }

    #[test]
    fn a_slow_disk_is_left_to_its_thread_and_tried_again() {
        let mut placement = WritePlacement::default();
        here(&mut placement, &[&[7][..]; 20]);
        (0..20).for_each(|_| placement.took(TOOK_MAX * 10));
        assert_eq!(here(&mut placement, &[&[7][..]; 20]), 0);
        assert!(here(&mut placement, &[&[7][..]; 200]) > 0, "the disk may be fast again");
    }
}
