//! What travels from a connection to the leader: who asks, and what.
//!
//! In: the body of a client's frame, as it came. Out: one run of bytes, and on the leader a typed request.
//! Why: the server that has the connection does not look into a write; only the leader does, once.
//! The form, between servers of one version of Pole only: a number, the identities, and what follows from the number.

use alloc::string::String;
use alloc::vec::Vec;
use core::cell::OnceCell;

use bytes::{BufMut, Bytes, BytesMut};
use pole_jute::{Cause, DeleteContainerRequest, Error, Id, OpCode, Place, Reader, Record, Request, Value, Writer};

/// A request for a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Who asks.
    pub caller: Caller,
    /// What for.
    pub what: What,
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Its address, what it has proved to be, and for the admin path [`Caller::admin`].
    pub ids: Vec<Id>,
}

/// What can be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A client's write.
    Request(Request),
    /// A connection for a session.
    Attach {
        /// For a new session, in milliseconds.
        timeout_ms: i32,
        /// Whether the session must exist already.
        resume: bool,
    },
    /// The end of a session that expired; a client that closes its own sends a request.
    CloseSession,
    /// The end of a container or of a node whose time is over: the leader's own chore.
    DeleteContainer(String),
}

impl Caller {
    /// The scheme of the admin path. No client can prove to be of it.
    pub const ADMIN_SCHEME: &str = "pole";

    /// The admin path itself, which alone writes `/zookeeper/pole`.
    #[must_use]
    pub fn admin() -> Self {
        Self { ids: Vec::from([Id { scheme: Self::ADMIN_SCHEME.into(), id: "admin".into() }]) }
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.ids.iter().any(|id| id.scheme == Self::ADMIN_SCHEME && id.id == "admin")
    }
}

impl Ask {
    /// A client's write: the body of its frame after the header, not looked into.
    #[must_use]
    pub fn encode(op: OpCode, caller: &Caller, body: &[u8]) -> Bytes {
        let ids: usize = caller.ids.iter().map(|id| 8 + id.scheme.len() + id.id.len()).sum();
        let mut writer = head(op.number(), caller, ids + body.len());
        writer.raw(body);
        writer.into_bytes()
    }

    /// A connection for a session; with `resume`, for one that exists, whose own timeout stays.
    #[must_use]
    pub fn attach(timeout_ms: i32, resume: bool) -> Bytes {
        let mut writer = head(ATTACH, &Caller::default(), 5);
        writer.int(timeout_ms);
        writer.bool(resume);
        writer.into_bytes()
    }

    /// The end of a session.
    #[must_use]
    pub fn close() -> Bytes {
        head(CLOSE, &Caller::default(), 0).into_bytes()
    }

    /// The end of a node that [`crate::Tree::due`] named.
    #[must_use]
    pub fn delete_container(path: &str) -> Bytes {
        let mut writer = head(DELETE_CONTAINER, &Caller::default(), path.len());
        DeleteContainerRequest { path: path.into() }.write(&mut writer);
        writer.into_bytes()
    }

    /// What was encoded.
    ///
    /// # Errors
    /// If the client's body is not the request that its header said.
    pub fn decode(bytes: &Bytes) -> Result<Self, Error> {
        let (identity, what) = Self::open(bytes)?;
        Ok(Self { caller: identity.caller().clone(), what })
    }

    /// The same, with the identities as they came.
    pub(crate) fn open(bytes: &Bytes) -> Result<(Identity, What), Error> {
        let mut reader = Reader::new(bytes.clone());
        let number = reader.int(Place::new("Ask", "kind"))?;
        let ids = reader.buffer(Place::new("Ask", "caller"))?.unwrap_or_default();
        let what = match number {
            ATTACH => What::Attach {
                timeout_ms: reader.int(Place::new("Ask", "timeout_ms"))?,
                resume: reader.bool(Place::new("Ask", "resume"))?,
            },
            CLOSE => What::CloseSession,
            DELETE_CONTAINER => What::DeleteContainer(DeleteContainerRequest::read(&mut reader)?.path),
            number => {
                let cause = Cause::Unknown { expected: "the number of an operation", got: number };
                let unknown = Error { place: Place::new("Ask", "kind"), at: reader.position(), cause };
                What::Request(Request::decode(OpCode::from_number(number).ok_or(unknown)?, &mut reader)?)
            }
        };
        Ok((Identity { bytes: ids, caller: OnceCell::new() }, what))
    }
}

/// Who asks, read only if somebody wants to know: most nodes are open to everyone.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    bytes: Bytes,
    caller: OnceCell<Caller>,
}

impl Identity {
    /// The caller. Whoever cannot be read is nobody.
    pub(crate) fn caller(&self) -> &Caller {
        self.caller.get_or_init(|| {
            let ids = Reader::new(self.bytes.clone()).vector(Place::new("Ask", "caller"));
            Caller { ids: ids.unwrap_or_default() }
        })
    }
}

fn head(number: i32, caller: &Caller, room: usize) -> Writer {
    let mut bytes = BytesMut::with_capacity(12 + room);
    bytes.put_i32(number);
    let mut writer = Writer::over(bytes);
    writer.frame(|writer| caller.ids.put(writer));
    writer
}

/// Beside the numbers of operations, which a client can send.
const ATTACH: i32 = -1001;
const CLOSE: i32 = -1002;
const DELETE_CONTAINER: i32 = -1003;

#[cfg(test)]
mod tests {
    use super::*;
    use pole_jute::DeleteRequest;

    #[test]
    fn what_is_asked_arrives() {
        let caller = Caller { ids: Vec::from([Id { scheme: "ip".into(), id: "::1".into() }]) };
        let request = DeleteRequest { path: "/a".into(), version: 3 };
        let ask = Ask::decode(&Ask::encode(OpCode::Delete, &caller, &request.encode())).unwrap();
        assert_eq!(ask, Ask { caller, what: What::Request(Request::Delete(request)) });
        let what = |bytes: Bytes| Ask::decode(&bytes).unwrap().what;
        assert_eq!(what(Ask::attach(4000, true)), What::Attach { timeout_ms: 4000, resume: true });
        assert_eq!(what(Ask::close()), What::CloseSession);
        assert_eq!(what(Ask::delete_container("/c")), What::DeleteContainer("/c".into()));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let whole =
            Ask::encode(OpCode::Delete, &Caller::admin(), &DeleteRequest { path: "/a".into(), version: 3 }.encode());
        for end in 0..whole.len() {
            assert!(Ask::decode(&whole.slice(..end)).is_err(), "{end}");
        }
        assert!(Ask::decode(&Bytes::from_static(&[0, 0, 0, 99, 0, 0, 0, 4, 0, 0, 0, 0])).is_err());
    }
}
