//! A single-threaded ZooKeeper client for load generation and for checks.
//!
//! It has three layers: [`Connection`] is one socket; [`Session`] survives broken connections, like the client of an
//! application; [`load`] keeps many connections busy and measures latencies.
//!
//! The harness has its own client for two reasons. A load generator shares the machine with the servers, so it must
//! be cheap. And a checker must know what a library hides: which server, which connection, whether a request was
//! sent.
//!
//! Replies are matched with requests in the order sent, as the protocol guarantees; anything else is an error. The
//! outcome of a request whose connection broke is unknown: it may have taken effect.
//!
//! The requests of benchmarks and of the soak, and the checks of their results, are in `bench` (xtask) and
//! [`crate::soak`].

mod connection;
pub mod load;
mod session;

pub use connection::Connection;
pub use session::{Answer, Event, Refusal, Session, Timing};

use pole_jute::{
    Acl, CreateMode, CreateRequest, ExistsRequest, GetChildrenRequest, GetDataRequest, Id, Perms, Request,
    SetDataRequest, SyncRequest,
};
use tokio::task::LocalSet;

use crate::Failure;

/// The reason why a connection or a load failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A read or a write failed.
    #[error("the connection broke: {0}")]
    Io(#[from] std::io::Error),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// Nothing arrived for this long.
    #[error("the server said nothing for {0:?}")]
    Silent(std::time::Duration),
    /// The server no longer has the session.
    #[error("the session has expired")]
    Expired,
    /// The stream is not a valid sequence of frames.
    #[error(transparent)]
    Frame(#[from] pole_jute::FrameError),
    /// The frame is not a valid reply.
    #[error(transparent)]
    Decode(#[from] pole_jute::Error),
    /// The frame is too short or too long for a reply.
    #[error("expected a reply of {least} to {most} bytes, got a length of {declared}")]
    Length {
        /// The length prefix of the frame.
        declared: i32,
        /// The length of a reply header.
        least: usize,
        /// The limit of this client.
        most: usize,
    },
    /// The reply is not for the oldest outstanding request.
    #[error("expected the reply to request {expected}, got that to {got}")]
    Order {
        /// The xid of the oldest request without a reply.
        expected: i32,
        /// The xid in the reply.
        got: i32,
    },
    /// An error reply to a request that must succeed.
    #[error("the server refused: {0}")]
    Refused(pole_jute::ErrorCode),
    /// No reply arrived during the measurement window of a load, which had this length.
    #[error("no reply came in the {0:?} that count")]
    NoReply(std::time::Duration),
}

impl Error {
    /// Whether the servers were merely unavailable, so that a retry may succeed. All other errors are wrong answers.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Io(_) | Self::Closed | Self::Silent(_) | Self::Expired | Self::NoReply(_) => true,
            Self::Frame(_) | Self::Decode(_) | Self::Length { .. } | Self::Order { .. } | Self::Refused(_) => false,
        }
    }
}

/// Runs clients on this thread until `work` is done. Tasks that are left then are dropped, with their connections.
pub fn drive<T, E: From<Failure>>(work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| Failure::Check(format!("cannot start a runtime: {why}")))?;
    LocalSet::new().block_on(&runtime, work)
}

/// A `setData` request for any version.
pub fn set_data(path: &str, data: &[u8]) -> Request {
    Request::SetData(SetDataRequest { path: path.to_owned(), data: Some(data.to_vec().into()), version: -1 })
}

/// A `getData` request.
pub fn get_data(path: &str, watch: bool) -> Request {
    Request::GetData(GetDataRequest { path: path.to_owned(), watch })
}

/// A `create` request with the open ACL (`world:anyone`, all permissions).
pub fn create(path: &str, data: &[u8], mode: CreateMode) -> Request {
    let acl = Acl { perms: Perms::ALL, id: Id { scheme: "world".into(), id: "anyone".into() } };
    let data = Some(data.to_vec().into());
    Request::Create(CreateRequest { path: path.to_owned(), data, acl: vec![acl], flags: mode.number() })
}

/// An `exists` request without a watch.
pub fn exists(path: &str) -> Request {
    Request::Exists(ExistsRequest { path: path.to_owned(), watch: false })
}

/// A `getChildren` request without a watch.
pub fn children(path: &str) -> Request {
    Request::GetChildren(GetChildrenRequest { path: path.to_owned(), watch: false })
}

/// A `sync` request: reads after it see everything that was committed before it.
pub fn sync() -> Request {
    Request::Sync(SyncRequest { path: "/".to_owned() })
}
