//! A ZooKeeper client for load and for checking, on one thread.
//!
//! In: addresses of servers, requests. Out: replies, events, latencies.
//! Why our own: the generator of a load shares the machine with the servers, so it must cost little; and a checker must
//! know what a library hides: which server, which connection, sent or not.
//! Holds: replies are matched with requests in the order sent, as the protocol promises; anything else is an error. A
//! request whose connection broke is unknown, never absent.
//! Not here: what to ask and what the answers should be (`bench`, `soak`).
//!
//! Three layers: [`Connection`] is one socket; [`Session`] goes on over many, as the client of an application does;
//! [`load`] keeps many connections full and counts.

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

/// Why a connection is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading or writing failed.
    #[error("the connection broke: {0}")]
    Io(#[from] std::io::Error),
    /// The server closed it.
    #[error("the server closed the connection")]
    Closed,
    /// Nothing came for too long.
    #[error("the server said nothing for {0:?}")]
    Silent(std::time::Duration),
    /// The session is over.
    #[error("the session has expired")]
    Expired,
    /// What came is no frame.
    #[error(transparent)]
    Frame(#[from] pole_jute::FrameError),
    /// What came is no reply.
    #[error(transparent)]
    Decode(#[from] pole_jute::Error),
    /// What came is too short or too long for a reply.
    #[error("expected a reply of {least} to {most} bytes, got a length of {declared}")]
    Length {
        /// What its first four bytes say.
        declared: i32,
        /// A header.
        least: usize,
        /// Our limit.
        most: usize,
    },
    /// A reply to something else.
    #[error("expected the reply to request {expected}, got that to {got}")]
    Order {
        /// The oldest request without a reply.
        expected: i32,
        /// The number in the reply.
        got: i32,
    },
    /// A reply that says no, where only yes will do.
    #[error("the server refused: {0}")]
    Refused(pole_jute::ErrorCode),
    /// A load was answered by nobody while it counted.
    #[error("no reply came in the {0:?} that count")]
    NoReply(std::time::Duration),
}

impl Error {
    /// Whether the servers were merely away, and may serve the next who comes. All else is a wrong answer.
    pub fn is_absence(&self) -> bool {
        match self {
            Self::Io(_) | Self::Closed | Self::Silent(_) | Self::Expired | Self::NoReply(_) => true,
            Self::Frame(_) | Self::Decode(_) | Self::Length { .. } | Self::Order { .. } | Self::Refused(_) => false,
        }
    }
}

/// Runs clients on this thread until `work` is done. Those still there afterwards are dropped with their connections.
pub fn drive<T, E: From<Failure>>(work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| Failure::Check(format!("cannot start a runtime: {why}")))?;
    LocalSet::new().block_on(&runtime, work)
}

/// Replaces data, whatever the version.
pub fn set_data(path: &str, data: &[u8]) -> Request {
    Request::SetData(SetDataRequest { path: path.to_owned(), data: Some(data.to_vec().into()), version: -1 })
}

/// Reads data.
pub fn get_data(path: &str, watch: bool) -> Request {
    Request::GetData(GetDataRequest { path: path.to_owned(), watch })
}

/// Creates a node that everyone may do everything to.
pub fn create(path: &str, data: &[u8], mode: CreateMode) -> Request {
    let acl = Acl { perms: Perms::ALL, id: Id { scheme: "world".into(), id: "anyone".into() } };
    let data = Some(data.to_vec().into());
    Request::Create(CreateRequest { path: path.to_owned(), data, acl: vec![acl], flags: mode.number() })
}

/// Asks whether a node is there.
pub fn exists(path: &str) -> Request {
    Request::Exists(ExistsRequest { path: path.to_owned(), watch: false })
}

/// Lists children.
pub fn children(path: &str) -> Request {
    Request::GetChildren(GetChildrenRequest { path: path.to_owned(), watch: false })
}

/// Brings the server level with the leader.
pub fn sync() -> Request {
    Request::Sync(SyncRequest { path: "/".to_owned() })
}
