//! The disk of a server: the durable image and the pending operations.
//!
//! Operations arrive in the order of their tickets. The disk reports the ticket up to which all are durable and, after
//! a crash, what is recovered. A crash keeps a prefix of the operations and, of an append, a prefix of its entries; so
//! a write that was durable but not yet reported needs no state of its own.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use pole_types::Zxid;
use pole_zab::{DiskOp, Recovered, Ticket};

use super::check;
use crate::violation::Violation;

/// The disk of one server.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    pub(crate) image: Recovered,
    pub(crate) pending: VecDeque<(Ticket, DiskOp)>,
}

impl Disk {
    pub(crate) fn new(image: Recovered) -> Self {
        Self { image, pending: VecDeque::new() }
    }

    /// Makes the given number of oldest operations durable, and returns the last ticket.
    pub(crate) fn complete(&mut self, operations: usize) -> Result<Option<Ticket>, Violation> {
        let mut through = None;
        for (ticket, op) in self.pending.drain(..operations) {
            apply(&mut self.image, op)?;
            through = Some(ticket);
        }
        Ok(through)
    }

    /// The number of operations to complete so that an output is released. Nothing waits for a truncation, so it is
    /// never the last one. (Whether it was durable earlier matters only for a crash, which chooses by itself.)
    pub(crate) fn next_release(&self) -> Option<usize> {
        let hanging = |op: &DiskOp| !matches!(op, DiskOp::Truncate { .. } | DiskOp::Checkpoint(_));
        self.pending.iter().position(|(_, op)| hanging(op)).map(|at| at + 1)
    }

    /// The points at which a crash can cut the pending operations: a number of whole ones, and of entries of the next.
    pub(crate) fn crash_points(&self) -> Vec<(usize, usize)> {
        let mut points = Vec::new();
        for (at, (_, op)) in self.pending.iter().enumerate() {
            points.push((at, 0));
            if let DiskOp::Append(entries) = op {
                points.extend((1..entries.len()).map(|torn| (at, torn)));
            }
        }
        points.push((self.pending.len(), 0));
        points
    }

    /// Crashes at such a point and returns what is recovered.
    pub(crate) fn crash(&mut self, operations: usize, torn: usize) -> Result<Recovered, Violation> {
        self.complete(operations)?;
        if let Some((_, DiskOp::Append(entries))) = self.pending.front() {
            let kept = entries[..torn].to_vec();
            apply(&mut self.image, DiskOp::Append(kept))?;
        }
        self.pending.clear();
        Ok(self.image.clone())
    }

    /// Whether the durable history contains the position.
    pub(crate) fn holds(&self, zxid: Zxid) -> bool {
        zxid == Zxid::ZERO || self.image.entries.iter().any(|entry| entry.zxid == zxid)
    }

    /// The end of the durable history.
    pub(crate) fn last(&self) -> Zxid {
        self.image.standing().last_zxid
    }
}

/// Tickets are just a counter, so two disks with the same pending operations are equal.
impl Hash for Disk {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.image.hash(state);
        self.pending.len().hash(state);
        self.pending.iter().for_each(|(_, op)| op.hash(state));
    }
}

fn apply(image: &mut Recovered, op: DiskOp) -> Result<(), Violation> {
    match op {
        DiskOp::Append(entries) => {
            for entry in entries {
                let last = image.standing().last_zxid;
                if !follows(last, entry.zxid) {
                    return Err(check::gap(last, entry.zxid));
                }
                image.entries.push(entry);
            }
        }
        DiskOp::Truncate { to } => image.entries.retain(|entry| entry.zxid <= to),
        DiskOp::AcceptedEpoch(epoch) => {
            if epoch < image.accepted_epoch {
                return Err(check::broken_promise(image.accepted_epoch, epoch));
            }
            image.accepted_epoch = epoch;
        }
        DiskOp::CurrentEpoch(epoch) => image.current_epoch = epoch,
        DiskOp::TakeOver(epoch) => {
            if epoch < image.accepted_epoch {
                return Err(check::broken_promise(image.accepted_epoch, epoch));
            }
            (image.accepted_epoch, image.current_epoch) = (epoch, epoch);
        }
        DiskOp::Receive { .. } | DiskOp::Install { .. } | DiskOp::Checkpoint(_) => {
            unreachable!("no snapshots within these bounds")
        }
    }
    if image.current_epoch > image.accepted_epoch {
        return Err(check::epochs(image.current_epoch, image.accepted_epoch));
    }
    Ok(())
}

fn follows(last: Zxid, next: Zxid) -> bool {
    let same = next.epoch() == last.epoch() && next.counter() == last.counter() + 1;
    same || (next.epoch() > last.epoch() && next.counter() == 1)
}
