//! The events that the disk reports.

use pole_types::Zxid;
use pole_zab::Ticket;
use std::time::Duration;

/// An event of the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Everything up to this ticket is durable.
    Written { through: Ticket },
    /// A write to any file failed. Nothing more is written or reported.
    Failed {
        /// The operation, the file, and advice to the operator.
        reason: String,
    },
    /// A snapshot of our own state was completed.
    Checkpointed {
        /// The last transaction in the snapshot.
        zxid: Zxid,
        /// The number of old files removed after it.
        purged: usize,
        /// How long it took to write, without the removal of old files.
        took: Duration,
    },
    /// A snapshot of our own state could not be started. This is a warning: no data is lost, but the log grows.
    CheckpointFailed {
        /// The last transaction in the snapshot.
        zxid: Zxid,
        /// The operation, the file, and advice to the operator.
        reason: String,
    },
}

/// A write of transactions to the log that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    pub transactions: u64,
    /// How long the write took, with the sync unless [`crate::Config::sync`] is off.
    pub took: Duration,
}
