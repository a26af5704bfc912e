//! The durable state of a server, and the operations on it.
//!
//! Contract with the driver: operations become durable in the order of their tickets, and [`crate::Zab::written`] is
//! called only when everything up to that ticket is durable. A crash keeps a prefix of the operations (of an append, a
//! prefix of its entries). Each operation except `Append` is atomic: its implementation may take several steps, but a
//! restart finds either all of it or nothing.

use alloc::vec::Vec;
use bytes::Bytes;
use pole_election::Standing;
use pole_types::{Epoch, Zxid};

use crate::{Entry, Snapshot};

/// Identifies a write. Tickets ascend in the order in which writes are issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// One operation on the disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DiskOp {
    /// Appends entries, contiguous with the end of the log.
    Append(Vec<Entry>),
    /// Removes every entry above `to`, from the end backwards.
    Truncate {
        /// The last entry that is kept.
        to: Zxid,
    },
    /// Records the promise to ignore all lower epochs.
    AcceptedEpoch(Epoch),
    /// Records that the history of this epoch's leader has been adopted.
    CurrentEpoch(Epoch),
    /// Records promise and adoption of an epoch in one step, for a hand-over.
    TakeOver(Epoch),
    /// Stages a part of a snapshot sent by another server. The first part discards what was staged before. A part need
    /// not be durable when it is reported as written; a crash loses everything staged.
    Receive {
        /// The last transaction in the snapshot.
        zxid: Zxid,
        /// The byte offset of this part. Parts are contiguous.
        offset: usize,
        /// The bytes of this part.
        body: Bytes,
    },
    /// Replaces the whole history by the staged snapshot. Nothing above its zxid is kept.
    Install {
        /// The last transaction in the snapshot.
        zxid: Zxid,
    },
    /// Stores a snapshot of our own committed state; the log is kept. Nothing depends on this write: it may become
    /// durable later than its ticket implies, and losing it in a crash loses no data.
    Checkpoint(Snapshot),
}

/// The durable state that a server finds on its disk at start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recovered {
    /// The last epoch promised.
    pub accepted_epoch: Epoch,
    /// The last epoch whose history was adopted. At most `accepted_epoch`.
    pub current_epoch: Epoch,
    /// The state that `node` restores; all of it is committed. `None`: start from the empty state.
    pub snapshot: Option<Snapshot>,
    /// The log above the snapshot, and below it as far as it was kept. Contiguous.
    pub entries: Vec<Entry>,
}

impl Recovered {
    /// A disk that was never written to.
    #[must_use]
    pub fn blank() -> Self {
        Self { accepted_epoch: Epoch(0), current_epoch: Epoch(0), snapshot: None, entries: Vec::new() }
    }

    /// The position of the snapshot, or [`Zxid::ZERO`] if there is none.
    #[must_use]
    pub fn snapshot_zxid(&self) -> Zxid {
        self.snapshot.as_ref().map_or(Zxid::ZERO, |s| s.zxid)
    }

    /// The epochs and the last position of the server.
    #[must_use]
    pub fn standing(&self) -> Standing {
        Standing {
            accepted_epoch: self.accepted_epoch,
            current_epoch: self.current_epoch,
            last_zxid: self.entries.last().map_or(self.snapshot_zxid(), |e| e.zxid.max(self.snapshot_zxid())),
        }
    }
}
