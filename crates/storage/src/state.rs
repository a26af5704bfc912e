//! The state that start-up rebuilds from a snapshot and the log.

use bytes::Bytes;
use pole_zab::{Entry, Zxid};

/// A state that takes transactions in while the log is read. Without one, start-up would have to hold the whole log
/// above the snapshot in memory.
pub trait State {
    /// Starts from a snapshot, or from nothing. What was applied before is forgotten.
    ///
    /// # Errors
    /// If the bytes are no state; why.
    fn restore(&mut self, snapshot: Option<(Zxid, &Bytes)>) -> Result<(), String>;

    /// Applies the next transaction, which is committed.
    ///
    /// # Errors
    /// If the bytes are no transaction; why.
    fn apply(&mut self, entry: &Entry) -> Result<(), String>;
}
