//! The state that start-up rebuilds from a snapshot and the log.

use bytes::Bytes;
use pole_types::Zxid;
use pole_zab::Entry;

/// A state to which transactions are applied while the log is read. Otherwise start-up would have to keep the whole log
/// above the snapshot in memory.
pub trait State {
    /// Resets the state. Everything restored or applied before is discarded.
    fn clear(&mut self);

    /// Takes the next piece of a snapshot. Pieces are split anywhere; the first one follows [`State::clear`].
    ///
    /// # Errors
    /// If the bytes are no valid state, with the reason.
    fn restore(&mut self, piece: Bytes) -> Result<(), String>;

    /// Completes the snapshot, which contains everything up to this transaction.
    ///
    /// # Errors
    /// If the bytes were no valid state, with the reason.
    fn restored(&mut self, zxid: Zxid) -> Result<(), String>;

    /// Applies the next committed transaction.
    ///
    /// # Errors
    /// If the bytes are no valid transaction, with the reason.
    fn apply(&mut self, entry: &Entry) -> Result<(), String>;
}
