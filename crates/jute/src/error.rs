//! Why bytes are no record: which record, which field, where, expected against got.

use core::fmt;

use crate::OpCode;

/// Bytes that are not the record they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place} at byte {at}: {cause}")]
pub struct Error {
    /// The innermost record and its field.
    pub place: Place,
    /// How many bytes had been read.
    pub at: usize,
    /// What is wrong there.
    pub cause: Cause,
}

impl Error {
    /// Whether more bytes could make it right: a reader of a stream then waits for more and reads the record again.
    #[must_use]
    pub fn is_short(&self) -> bool {
        matches!(self.cause, Cause::Short { .. })
    }
}

/// A field of a record, by the names that this crate gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The record.
    pub record: &'static str,
    /// The field.
    pub field: &'static str,
}

impl Place {
    /// That field of that record.
    #[must_use]
    pub const fn new(record: &'static str, field: &'static str) -> Self {
        Self { record, field }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.record, self.field)
    }
}

/// What can be wrong with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The input ends too early.
    #[error("needs {needed} bytes, got {left}")]
    Short {
        /// At least so many bytes had to follow.
        needed: usize,
        /// So many do.
        left: usize,
    },
    /// A buffer is there in full but too short for the record in it: more bytes would not help.
    #[error("needs {needed} bytes, got a buffer with {left}")]
    Cramped {
        /// At least so many bytes had to follow.
        needed: usize,
        /// So many do.
        left: usize,
    },
    /// A length that no buffer, string or vector has.
    #[error("expected a length from -1 to {max}, got {got}")]
    Length {
        /// The declared length.
        got: i32,
        /// The longest that is allowed.
        max: usize,
    },
    /// A null where ZooKeeper knows none.
    #[error("expected a value, got null")]
    Null,
    /// A number that its enumeration does not have.
    #[error("expected {expected}, got {got}")]
    Unknown {
        /// The enumeration.
        expected: &'static str,
        /// The number.
        got: i32,
    },
    /// An operation that exists but not in this place.
    #[error("expected {expected}, got {got:?}")]
    Misplaced {
        /// What may stand here.
        expected: &'static str,
        /// The operation.
        got: OpCode,
    },
    /// A string that is no number.
    #[error("expected hexadecimal digits")]
    Digits,
    /// Bytes after the end.
    #[error("expected the end, got {left} more bytes")]
    Trailing {
        /// How many.
        left: usize,
    },
}
