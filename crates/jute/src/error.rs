//! Decoding errors, which name the record, the field, the position, and what was expected.

use core::fmt;

use crate::OpCode;

/// Bytes that cannot be decoded as the expected record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place} at byte {at}: {cause}")]
pub struct Error {
    /// The innermost record and its field.
    pub place: Place,
    /// The number of bytes read before the error.
    pub at: usize,
    /// What is wrong.
    pub cause: Cause,
}

impl Error {
    /// Whether more input could fix the error. A reader of a stream then waits for more and decodes the record again.
    #[must_use]
    pub fn is_short(&self) -> bool {
        matches!(self.cause, Cause::Short { .. })
    }
}

/// A field of a record, by its names in this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The record.
    pub record: &'static str,
    /// The field.
    pub field: &'static str,
}

impl Place {
    /// Creates a place from the names of a record and its field.
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

/// The kinds of decoding errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The input ends too early.
    #[error("needs {needed} bytes, got {left}")]
    Short {
        /// The minimum number of bytes required.
        needed: usize,
        /// The number of bytes available.
        left: usize,
    },
    /// A nested buffer is complete but too short for its record, so more input would not help.
    #[error("needs {needed} bytes, got a buffer with {left}")]
    BufferTooShort {
        /// The minimum number of bytes required.
        needed: usize,
        /// The number of bytes in the buffer.
        left: usize,
    },
    /// An invalid length of a buffer, string or vector.
    #[error("expected a length from -1 to {max}, got {got}")]
    Length {
        /// The declared length.
        got: i32,
        /// The maximum length allowed.
        max: usize,
    },
    /// A null where ZooKeeper does not allow one.
    #[error("expected a value, got null")]
    Null,
    /// A number without a meaning in its enumeration.
    #[error("expected {expected}, got {got}")]
    Unknown {
        /// The enumeration.
        expected: &'static str,
        /// The number.
        got: i32,
    },
    /// An operation that is not allowed here.
    #[error("expected {expected}, got {got:?}")]
    Misplaced {
        /// What is allowed here.
        expected: &'static str,
        /// The operation.
        got: OpCode,
    },
    /// A string that is not a hexadecimal number.
    #[error("expected hexadecimal digits")]
    NotHexadecimal,
    /// Bytes remain after the end.
    #[error("expected the end, got {left} more bytes")]
    Trailing {
        /// The number of remaining bytes.
        left: usize,
    },
}
