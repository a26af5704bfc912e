//! Decides whether the node's thread carries out a write of the log itself, or leaves it to the disk thread.
//!
//! Handing a write to the disk thread and back takes a tenth of a write that is alone, and a third of its CPU. But while the
//! node's thread writes, it takes no requests of clients and no proposals of the leader. So the node's thread writes if
//! that has seldom kept others waiting lately, and the disk is fast.
//!
//! Each write is one sample: whether a request or a proposal was taken while the disk thread had it or, if the node's
//! thread wrote, in the first turn after which the sockets were read again.

use std::mem;
use std::time::Duration;

use pole_zab::{DiskOp, Ticket};

/// What was seen during the last writes.
#[derive(Debug, Default)]
pub(crate) struct WritePlacement {
    /// How many of 1,000 writes something arrived during, as a moving average.
    overlaps: u32,
    /// Whether something arrived during the present sample.
    arrived: bool,
    /// The disk thread has writes.
    is_disk_busy: bool,
    /// It has finished them, in this turn.
    has_finished: bool,
    /// The node's thread has written, and the sockets have not been read since.
    has_written: bool,
    /// They have been read, in this turn.
    is_first_turn: bool,
    /// Moving average of the time that a write on the node's thread takes.
    took: Duration,
}

impl WritePlacement {
    /// A turn begins, and the sockets were read before it.
    pub(crate) fn turn_begins(&mut self) {
        self.is_first_turn = mem::take(&mut self.has_written);
    }

    /// The inputs of a turn have been taken. A sample ends here and not before, because what was taken in one turn may have
    /// arrived in any order.
    pub(crate) fn inputs_taken(&mut self) {
        let has_finished = mem::take(&mut self.has_finished);
        self.is_disk_busy &= !has_finished;
        if mem::take(&mut self.is_first_turn) || has_finished {
            let arrived = mem::take(&mut self.arrived);
            self.overlaps = (self.overlaps * 15 + if arrived { 1_000 } else { 0 }) / 16;
        }
    }

    /// A request of a client or a proposal of the leader was taken.
    pub(crate) fn arrived(&mut self) {
        self.arrived |= self.is_first_turn || self.is_disk_busy;
    }

    /// The disk thread has finished its writes.
    pub(crate) fn disk_finished(&mut self) {
        self.has_finished = self.is_disk_busy;
    }

    /// Whether these writes, which are not empty, belong on the node's thread. Otherwise the disk thread gets them.
    pub(crate) fn is_here(&mut self, writes: &[(Ticket, DiskOp)]) -> bool {
        let is_small = match writes {
            [(_, DiskOp::Append(entries))] => {
                let bytes: usize = entries.iter().map(|entry| entry.body.len()).sum();
                entries.len() <= ENTRIES_MAX && bytes <= BYTES_MAX
            }
            _ => false,
        };
        if self.took > TOOK_MAX {
            // The average decays, so that a write on the node's thread is tried again from time to time.
            self.took = self.took * 31 / 32;
        } else if is_small && !self.is_disk_busy && self.overlaps < OVERLAPS_MAX {
            return true;
        }
        self.is_disk_busy = true;
        false
    }

    /// The node's thread has written, which took this long.
    pub(crate) fn wrote_here(&mut self, took: Duration) {
        self.has_written = true;
        self.took = (self.took * 7 + took) / 8;
    }
}

/// Up to this share of writes, in thousandths, may keep others waiting: they wait for half a write on average, and all
/// others are spared two thread switches.
const OVERLAPS_MAX: u32 = 400;

/// Larger batches come from several clients.
const ENTRIES_MAX: usize = 2;

/// More than this takes the disk longer than two thread switches take.
const BYTES_MAX: usize = 64 << 10;

/// A disk that is slower than this on average is written to by the disk thread only.
const TOOK_MAX: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use pole_types::{Cxid, Epoch, SessionId, Zxid};
    use pole_zab::{Entry, Origin};

    fn append(entries: usize) -> [(Ticket, DiskOp); 1] {
        append_of(entries, 1)
    }

    fn append_of(entries: usize, bytes: usize) -> [(Ticket, DiskOp); 1] {
        let origin = Origin { session: SessionId(1), cxid: Cxid(1) };
        let entry = Entry { zxid: Zxid::ZERO, origin, body: vec![0; bytes].into() };
        [(Ticket(1), DiskOp::Append(vec![entry; entries]))]
    }

    /// How many of 100 writes are on the node's thread, if something arrives during every `one_in`th.
    fn here(placement: &mut WritePlacement, one_in: usize) -> usize {
        (1..=100).filter(|nth| write(placement, nth % one_in == 0)).count()
    }

    /// One write in the order of the driver. Returns whether it was on the node's thread.
    fn write(placement: &mut WritePlacement, arrives: bool) -> bool {
        let is_here = placement.is_here(&append(1));
        if is_here {
            placement.wrote_here(Duration::from_micros(100));
        }
        placement.turn_begins();
        if !is_here {
            placement.disk_finished();
        }
        if arrives {
            placement.arrived();
        }
        placement.inputs_taken();
        is_here
    }

    #[test]
    fn a_lone_writer_is_served_on_the_nodes_thread() {
        assert_eq!(here(&mut WritePlacement::default(), 1_000), 100);
        assert_eq!(here(&mut WritePlacement::default(), 5), 100, "another client now and then");
    }

    #[test]
    fn with_two_writers_the_disk_thread_writes_and_alone_the_nodes_thread_again() {
        let mut placement = WritePlacement::default();
        assert!(here(&mut placement, 1) < 20);
        assert_eq!(here(&mut placement, 1), 0);
        assert!(here(&mut placement, 1_000) > 80);
    }

    #[test]
    fn what_arrives_between_two_writes_does_not_count() {
        let mut placement = WritePlacement::default();
        for _ in 0..100 {
            write(&mut placement, false);
            placement.turn_begins();
            placement.arrived();
            placement.inputs_taken();
        }
        assert_eq!(here(&mut placement, 1_000), 100);
    }

    #[test]
    fn large_writes_batches_and_rare_operations_belong_on_the_disk_thread() {
        let epoch = [(Ticket(1), DiskOp::CurrentEpoch(Epoch(1)))];
        let large = append_of(1, BYTES_MAX + 1);
        for writes in [&append(3)[..], &epoch, &large, &[append(1), append(1)].concat()] {
            assert!(!WritePlacement::default().is_here(writes));
        }
    }

    #[test]
    fn a_write_does_not_overtake_one_on_the_disk_thread() {
        let mut placement = WritePlacement::default();
        assert!(!placement.is_here(&append(3)) && !placement.is_here(&append(1)));
        placement.disk_finished();
        placement.inputs_taken();
        assert!(placement.is_here(&append(1)));
    }

    #[test]
    fn a_slow_disk_is_left_to_its_thread_and_tried_again() {
        let mut placement = WritePlacement::default();
        (0..20).for_each(|_| placement.wrote_here(TOOK_MAX * 10));
        assert_eq!((0..20).filter(|_| placement.is_here(&append(1))).count(), 0);
        placement.disk_finished();
        placement.inputs_taken();
        assert!(here(&mut placement, 1_000) > 0);
    }
}
