//! The state that start-up rebuilds from a snapshot and the log.

use bytes::Bytes;
use pole_zab::{Entry, Zxid};

/// A state that takes transactions in while the log is read. Without one, start-up would have to hold the whole log
/// above the snapshot in memory.
pub trait State {
    /// Starts from nothing. What was restored or applied before is forgotten.
    fn clear(&mut self);

    /// The next piece of a snapshot, which is cut anywhere. The first follows [`State::clear`].
    ///
    /// # Errors
    /// If the bytes are no state; why.
    fn restore(&mut self, piece: Bytes) -> Result<(), String>;

    /// That was all of the snapshot, which stands for everything up to this transaction.
    ///
    /// # Errors
    /// If the bytes were no state; why.
    fn restored(&mut self, zxid: Zxid) -> Result<(), String>;

    /// Applies the next transaction, which is committed.
    ///
    /// # Errors
    /// If the bytes are no transaction; why.
    fn apply(&mut self, entry: &Entry) -> Result<(), String>;
}
