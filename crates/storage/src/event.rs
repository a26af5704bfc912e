//! The events that the disk reports.

use pole_types::Zxid;
use pole_zab::Ticket;

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
    },
    /// A snapshot of our own state could not be started. This is a warning: no data is lost, but the log grows.
    CheckpointFailed {
        /// The last transaction in the snapshot.
        zxid: Zxid,
        /// The operation, the file, and advice to the operator.
        reason: String,
    },
}
