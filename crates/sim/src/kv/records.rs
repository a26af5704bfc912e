//! Requests, transactions and answers, and their encoding.
//!
//! The encoding is fixed: one byte of kind, then little-endian numbers, then optional padding, which gives a record its
//! size in experiments with large transactions. Bytes that do not decode yield `None`.

use bytes::Bytes;

/// A key.
pub type Key = u32;

/// Identifies a request for the checker. Unique within a simulation.
pub type OpId = u64;

/// The value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Value {
    /// The data.
    pub data: u64,
    /// Counts the writes of the key, from 1.
    pub version: u32,
}

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvRequest {
    /// Identifies the request.
    pub op: OpId,
    /// The operation.
    pub change: Change,
}

/// The operations. A read consists of its key only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Creates a session, or attaches it again.
    Create,
    /// Attaches an existing session.
    Resume,
    /// Ends the session.
    CloseSession,
    /// Sets a key.
    Put(Key, u64),
    /// Sets a key if it has this version.
    PutIf(Key, u64, u32),
    /// Sets a key that must not exist.
    Insert(Key, u64),
    /// Removes a key that must exist.
    Delete(Key),
    /// Adds to the value of a key, which exposes duplicates.
    Add(Key, u64),
}

/// A validated change. Applying it cannot fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Txn {
    /// The session is attached at this position.
    Attached(OpId),
    /// The session is closed.
    Closed(OpId),
    /// The key has this value now; none: it was removed.
    Set(OpId, Key, Option<Value>),
    /// The request failed at this position.
    Refused(OpId, Refusal),
    /// Nothing, of no request.
    Nothing,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The session does not exist or is closed.
    NoSession,
    /// The version does not match.
    BadVersion,
    /// The key exists.
    Exists,
    /// The key does not exist.
    Absent,
    /// The request could not be decoded, or is not valid here.
    Malformed,
    /// The members of the ensemble cannot be changed like that now.
    NotNow,
}

/// The answer to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The value of the key after the operation, or as read; none: the key does not exist.
    Holds(Option<Value>),
    /// The session is attached or closed.
    Session,
    /// The request failed.
    Refused(Refusal),
}

impl KvRequest {
    /// Encodes the record.
    #[must_use]
    pub fn encode(self) -> Bytes {
        let (kind, key, data, version) = match self.change {
            Change::Create => (0, 0, 0, 0),
            Change::Resume => (1, 0, 0, 0),
            Change::CloseSession => (2, 0, 0, 0),
            Change::Put(key, data) => (3, key, data, 0),
            Change::PutIf(key, data, version) => (4, key, data, version),
            Change::Insert(key, data) => (5, key, data, 0),
            Change::Delete(key) => (6, key, 0, 0),
            Change::Add(key, data) => (7, key, data, 0),
        };
        pack(kind, self.op, key, data, version)
    }

    /// Encodes the record with this much padding.
    #[must_use]
    pub fn padded(self, padding: usize) -> Bytes {
        pad(self.encode(), padding)
    }

    /// Decodes a record. None if the bytes are not one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, op, key, data, version) = unpack(bytes)?;
        let change = match kind {
            0 => Change::Create,
            1 => Change::Resume,
            2 => Change::CloseSession,
            3 => Change::Put(key, data),
            4 => Change::PutIf(key, data, version),
            5 => Change::Insert(key, data),
            6 => Change::Delete(key),
            7 => Change::Add(key, data),
            _ => return None,
        };
        Some(Self { op, change })
    }
}

impl Txn {
    /// Encodes the record.
    #[must_use]
    pub fn encode(self) -> Bytes {
        match self {
            Self::Attached(op) => pack(0, op, 0, 0, 0),
            Self::Closed(op) => pack(1, op, 0, 0, 0),
            Self::Set(op, key, Some(value)) => pack(2, op, key, value.data, value.version),
            Self::Set(op, key, None) => pack(3, op, key, 0, 0),
            Self::Refused(op, why) => pack(4, op, 0, why.code(), 0),
            Self::Nothing => pack(5, 0, 0, 0, 0),
        }
    }

    /// Decodes a record. None if the bytes are not one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, op, key, data, version) = unpack(bytes)?;
        Some(match kind {
            0 => Self::Attached(op),
            1 => Self::Closed(op),
            2 => Self::Set(op, key, Some(Value { data, version })),
            3 => Self::Set(op, key, None),
            4 => Self::Refused(op, Refusal::from_code(data)?),
            5 => Self::Nothing,
            _ => return None,
        })
    }

    /// The request of this transaction, if it has one.
    #[must_use]
    pub fn op(self) -> Option<OpId> {
        match self {
            Self::Attached(op) | Self::Closed(op) | Self::Set(op, _, _) | Self::Refused(op, _) => Some(op),
            Self::Nothing => None,
        }
    }

    /// The answer for the client.
    #[must_use]
    pub fn answer(self) -> Answer {
        match self {
            Self::Attached(_) | Self::Closed(_) | Self::Nothing => Answer::Session,
            Self::Set(_, _, value) => Answer::Holds(value),
            Self::Refused(_, why) => Answer::Refused(why),
        }
    }
}

impl Answer {
    /// Encodes the record.
    #[must_use]
    pub fn encode(self) -> Bytes {
        match self {
            Self::Holds(Some(value)) => pack(0, 0, 0, value.data, value.version),
            Self::Holds(None) => pack(1, 0, 0, 0, 0),
            Self::Session => pack(2, 0, 0, 0, 0),
            Self::Refused(why) => pack(3, 0, 0, why.code(), 0),
        }
    }

    /// Decodes a record. None if the bytes are not one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, _, _, data, version) = unpack(bytes)?;
        Some(match kind {
            0 => Self::Holds(Some(Value { data, version })),
            1 => Self::Holds(None),
            2 => Self::Session,
            3 => Self::Refused(Refusal::from_code(data)?),
            _ => return None,
        })
    }
}

impl Refusal {
    const ALL: [Self; 6] =
        [Self::NoSession, Self::BadVersion, Self::Exists, Self::Absent, Self::Malformed, Self::NotNow];

    fn code(self) -> u64 {
        Self::ALL.iter().position(|why| *why == self).unwrap_or(0) as u64
    }

    fn from_code(code: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }
}

fn pack(kind: u8, op: OpId, key: Key, data: u64, version: u32) -> Bytes {
    let mut bytes = Vec::with_capacity(RECORD_BYTES);
    bytes.push(kind);
    bytes.extend_from_slice(&op.to_le_bytes());
    bytes.extend_from_slice(&key.to_le_bytes());
    bytes.extend_from_slice(&data.to_le_bytes());
    bytes.extend_from_slice(&version.to_le_bytes());
    Bytes::from(bytes)
}

fn unpack(bytes: &[u8]) -> Option<(u8, OpId, Key, u64, u32)> {
    let bytes: &[u8; RECORD_BYTES] = bytes.first_chunk()?;
    let op = u64::from_le_bytes(bytes[1..9].try_into().ok()?);
    let key = u32::from_le_bytes(bytes[9..13].try_into().ok()?);
    let data = u64::from_le_bytes(bytes[13..21].try_into().ok()?);
    let version = u32::from_le_bytes(bytes[21..25].try_into().ok()?);
    Some((bytes[0], op, key, data, version))
}

/// Appends padding to a record.
pub(crate) fn pad(record: Bytes, padding: usize) -> Bytes {
    if padding == 0 {
        return record;
    }
    let mut bytes = record.to_vec();
    bytes.resize(bytes.len() + padding, 0);
    Bytes::from(bytes)
}

/// The size of the padding of a record.
pub(crate) fn padding(bytes: &[u8]) -> usize {
    bytes.len().saturating_sub(RECORD_BYTES)
}

const RECORD_BYTES: usize = 25;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_their_bytes_and_other_bytes_are_refused() {
        let request = KvRequest { op: 9, change: Change::PutIf(3, 4, 5) };
        assert_eq!(KvRequest::decode(&request.encode()), Some(request));
        for txn in [Txn::Attached(1), Txn::Set(2, 3, None), Txn::Refused(4, Refusal::Absent)] {
            assert_eq!(Txn::decode(&txn.encode()), Some(txn));
        }
        assert_eq!(Txn::decode(b"short"), None);
        assert_eq!(KvRequest::decode(&[9; RECORD_BYTES]), None);
    }
}
