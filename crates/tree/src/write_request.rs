//! The encoding of a write on its way from a connection to the leader: the caller's identities and the operation.
//!
//! The server that holds the connection does not decode a write; it copies the body of the client's frame. Only the
//! leader decodes it, once.
//!
//! The format is private to servers of one version of Pole: a number, the identities, and a body that depends on the
//! number.

use alloc::string::String;
use alloc::vec::Vec;
use core::cell::OnceCell;

use bytes::{BufMut, Bytes, BytesMut};
use pole_jute::{Cause, DeleteContainerRequest, Error, Id, OpCode, Place, Reader, Record, Request, Value, Writer};

/// A request for one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRequest {
    pub caller: Caller,
    pub operation: Operation,
}

/// The identities of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The client's address, the identities that it has proved, and for the admin path [`Caller::admin`].
    pub ids: Vec<Id>,
}

/// The operation that a [`WriteRequest`] asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Request(Request),
    /// Attaches a session to a new connection.
    Attach {
        /// The timeout of a new session, in milliseconds.
        timeout_ms: i32,
        resume: bool,
    },
    /// Closes an expired session. A client that closes its own session sends a [`Request`] instead.
    CloseSession,
    /// Deletes an empty container or a node whose TTL has passed. Only the leader itself requests this.
    DeleteContainer(String),
}

impl Caller {
    /// The scheme of the admin path. No client can authenticate with it.
    pub const ADMIN_SCHEME: &str = "pole";

    /// The caller of the admin path, the only one that may write `/zookeeper/pole`.
    #[must_use]
    pub fn admin() -> Self {
        Self { ids: Vec::from([Id { scheme: Self::ADMIN_SCHEME.into(), id: "admin".into() }]) }
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.ids.iter().any(|id| id.scheme == Self::ADMIN_SCHEME && id.id == "admin")
    }
}

impl WriteRequest {
    /// Encodes a client's write. `body` is the rest of its frame after the header and is not decoded.
    #[must_use]
    pub fn encode(op: OpCode, caller: &Caller, body: &[u8]) -> Bytes {
        let ids: usize = caller.ids.iter().map(|id| 8 + id.scheme.len() + id.id.len()).sum();
        let mut writer = head(op.number(), caller, ids + body.len());
        writer.raw(body);
        writer.into_bytes()
    }

    /// Encodes an attachment. With `resume` the session must exist and keeps its own timeout.
    #[must_use]
    pub fn attach(timeout_ms: i32, resume: bool) -> Bytes {
        let mut writer = head(ATTACH, &Caller::default(), 5);
        writer.int(timeout_ms);
        writer.bool(resume);
        writer.into_bytes()
    }

    /// Encodes the end of an expired session.
    #[must_use]
    pub fn close() -> Bytes {
        head(CLOSE, &Caller::default(), 0).into_bytes()
    }

    /// Encodes the deletion of a node that [`crate::Tree::due`] returned.
    #[must_use]
    pub fn delete_container(path: &str) -> Bytes {
        let mut writer = head(DELETE_CONTAINER, &Caller::default(), path.len());
        DeleteContainerRequest { path: path.into() }.write(&mut writer);
        writer.into_bytes()
    }

    /// Decodes a request.
    ///
    /// # Errors
    /// If the client's body does not match the operation in its header.
    pub fn decode(bytes: &Bytes) -> Result<Self, Error> {
        let (identity, operation) = Self::decode_lazily(bytes)?;
        Ok(Self { caller: identity.caller().clone(), operation })
    }

    /// Whether this is the attachment of a session that a client had before.
    #[must_use]
    pub fn is_resumption(bytes: &Bytes) -> bool {
        matches!(Self::decode_lazily(bytes), Ok((_, Operation::Attach { resume: true, .. })))
    }

    /// Like [`Self::decode`], but decodes the identities only when they are needed.
    pub(crate) fn decode_lazily(bytes: &Bytes) -> Result<(Identity, Operation), Error> {
        let mut reader = Reader::new(bytes.clone());
        let number = reader.int(Place::new("WriteRequest", "kind"))?;
        let ids = reader.buffer(Place::new("WriteRequest", "caller"))?.unwrap_or_default();
        let operation = match number {
            ATTACH => Operation::Attach {
                timeout_ms: reader.int(Place::new("WriteRequest", "timeout_ms"))?,
                resume: reader.bool(Place::new("WriteRequest", "resume"))?,
            },
            CLOSE => Operation::CloseSession,
            DELETE_CONTAINER => Operation::DeleteContainer(DeleteContainerRequest::read(&mut reader)?.path),
            number => {
                let cause = Cause::Unknown { expected: "the number of an operation", got: number };
                let unknown = Error { place: Place::new("WriteRequest", "kind"), at: reader.position(), cause };
                Operation::Request(Request::decode(OpCode::from_number(number).ok_or(unknown)?, &mut reader)?)
            }
        };
        Ok((Identity { bytes: ids, caller: OnceCell::new() }, operation))
    }
}

/// The caller's identities, decoded on first use: most nodes are open to everyone and need no check.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    bytes: Bytes,
    caller: OnceCell<Caller>,
}

impl Identity {
    /// The caller; without identities if they cannot be decoded.
    pub(crate) fn caller(&self) -> &Caller {
        self.caller.get_or_init(|| {
            let ids = Reader::new(self.bytes.clone()).vector(Place::new("WriteRequest", "caller"));
            Caller { ids: ids.unwrap_or_default() }
        })
    }
}

fn head(number: i32, caller: &Caller, room: usize) -> Writer {
    let mut bytes = BytesMut::with_capacity(12 + room);
    bytes.put_i32(number);
    let mut writer = Writer::with_buffer(bytes);
    writer.frame(|writer| caller.ids.put(writer));
    writer
}

/// These numbers differ from all operation codes that a client can send.
const ATTACH: i32 = -1001;
const CLOSE: i32 = -1002;
const DELETE_CONTAINER: i32 = -1003;

#[cfg(test)]
mod tests {
    use super::*;
    use pole_jute::DeleteRequest;

    #[test]
    fn a_request_survives_encoding() {
        let caller = Caller { ids: Vec::from([Id { scheme: "ip".into(), id: "::1".into() }]) };
        let request = DeleteRequest { path: "/a".into(), version: 3 };
        let decoded = WriteRequest::decode(&WriteRequest::encode(OpCode::Delete, &caller, &request.encode())).unwrap();
        assert_eq!(decoded, WriteRequest { caller, operation: Operation::Request(Request::Delete(request)) });
        let decode = |bytes: Bytes| WriteRequest::decode(&bytes).unwrap().operation;
        assert_eq!(decode(WriteRequest::attach(4000, true)), Operation::Attach { timeout_ms: 4000, resume: true });
        assert_eq!(decode(WriteRequest::close()), Operation::CloseSession);
        assert!(WriteRequest::is_resumption(&WriteRequest::attach(4000, true)));
        assert!(!WriteRequest::is_resumption(&WriteRequest::attach(4000, false)));
        assert_eq!(decode(WriteRequest::delete_container("/c")), Operation::DeleteContainer("/c".into()));
    }

    #[test]
    fn no_input_makes_it_panic() {
        let whole = WriteRequest::encode(
            OpCode::Delete,
            &Caller::admin(),
            &DeleteRequest { path: "/a".into(), version: 3 }.encode(),
        );
        for end in 0..whole.len() {
            assert!(WriteRequest::decode(&whole.slice(..end)).is_err(), "{end}");
        }
        assert!(WriteRequest::decode(&Bytes::from_static(&[0, 0, 0, 99, 0, 0, 0, 4, 0, 0, 0, 0])).is_err());
    }
}
