//! What the disk reports while it works.

use pole_zab::{Ticket, Zxid};

/// Something that happened on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Everything up to this ticket is durable.
    Written {
        /// The last of them.
        through: Ticket,
    },
    /// A write failed, of whichever file. Nothing more is written or reported.
    Failed {
        /// What, where, and what the operator can do.
        reason: String,
    },
    /// A snapshot of our own state has its name.
    Checkpointed {
        /// The last transaction in it.
        zxid: Zxid,
        /// How many old files went after it.
        purged: usize,
    },
    /// A snapshot of our own state could not be begun. A warning: the log has it all, and grows.
    CheckpointFailed {
        /// The last transaction in it.
        zxid: Zxid,
        /// What, where, and what the operator can do.
        reason: String,
    },
}
