//! The durable state of a server, and the operations on it.
//!
//! The contract with whoever carries them out: operations become durable in the order of their tickets, and
//! [`crate::Zab::written`] is called only when everything up to that ticket is durable. A crash keeps a prefix of
//! the operations (of an append, a prefix of its entries). Each operation but `Append` is atomic: its
//! implementation may take several steps, but a restart finds all of it or nothing.

use alloc::vec::Vec;
use bytes::Bytes;
use pole_election::{Epoch, Standing, Zxid};

use crate::{Entry, Snapshot};

/// Names a write, in the order in which writes are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// One operation on the disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DiskOp {
    /// Entries at the end of the log, contiguous with it.
    Append(Vec<Entry>),
    /// Drops every entry above `to`, from the end backwards.
    Truncate {
        /// The last entry that stays.
        to: Zxid,
    },
    /// The promise: no epoch below this one is listened to again.
    AcceptedEpoch(Epoch),
    /// The history of this epoch's leader has been taken over.
    CurrentEpoch(Epoch),
    /// Hand-over: promise and take-over in one step.
    TakeOver(Epoch),
    /// A part of a snapshot that another server sends, to be put aside. The first one drops what was put aside before.
    /// It need not be durable when it is reported; a crash loses all that was put aside.
    Receive {
        /// The last transaction in the snapshot.
        zxid: Zxid,
        /// Where this part begins; the parts follow one another.
        offset: usize,
        /// This part.
        body: Bytes,
    },
    /// Replaces the whole history by the snapshot that was put aside: nothing above its zxid stays.
    Install {
        /// The last transaction in it.
        zxid: Zxid,
    },
    /// A snapshot of our own committed state. The log stays. The one write on which nothing hangs: it may become
    /// durable later than its ticket says, and a crash that loses it loses nothing.
    Checkpoint(Snapshot),
}

/// What a server finds on its disk at start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recovered {
    /// The last epoch promised.
    pub accepted_epoch: Epoch,
    /// The last epoch whose history was taken over. At most `accepted_epoch`.
    pub current_epoch: Epoch,
    /// The state that `node` restores; everything in it is committed. None: start from nothing.
    pub snapshot: Option<Snapshot>,
    /// The log above the snapshot, and below it as far as it was kept; contiguous.
    pub entries: Vec<Entry>,
}

impl Recovered {
    /// A disk on which nothing was ever written.
    #[must_use]
    pub fn blank() -> Self {
        Self { accepted_epoch: Epoch(0), current_epoch: Epoch(0), snapshot: None, entries: Vec::new() }
    }

    /// The position of the snapshot, or the beginning.
    #[must_use]
    pub fn snapshot_zxid(&self) -> Zxid {
        self.snapshot.as_ref().map_or(Zxid::ZERO, |s| s.zxid)
    }

    /// Where the server stands.
    #[must_use]
    pub fn standing(&self) -> Standing {
        Standing {
            accepted_epoch: self.accepted_epoch,
            current_epoch: self.current_epoch,
            last_zxid: self.entries.last().map_or(self.snapshot_zxid(), |e| e.zxid.max(self.snapshot_zxid())),
        }
    }
}
