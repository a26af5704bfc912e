//! What the log is made of.

use bytes::Bytes;
use core::fmt;
use pole_election::{ServerId, Zxid};

use crate::Epochs;

/// A client's session, the same on whichever server the client is connected to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub i64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A client's own number for its request, unique within a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cxid(pub i32);

impl Cxid {
    /// Attachments are numbered downwards from here; clients count upwards, and ZooKeeper's own special numbers are
    /// a few below zero.
    const ATTACHMENTS_BELOW: i32 = -1024;

    /// The number of a server's `nth` connection: what tells a session's attachments apart.
    #[must_use]
    pub fn attachment(server: ServerId, nth: u32) -> Self {
        let server = (server.0 & 0xff) as i32;
        let nth = (nth & 0x003f_ffff) as i32;
        Self(Self::ATTACHMENTS_BELOW - 1 - (server << 22 | nth))
    }

    /// Whether this numbers an attachment and not a client's request.
    #[must_use]
    pub fn is_attachment(self) -> bool {
        self.0 < Self::ATTACHMENTS_BELOW
    }
}

impl fmt::Display for Cxid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whose request a transaction answers. It travels with the transaction, so that after a leader change the server
/// that the client is connected to recognises its request in the recovered history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The session that asked.
    pub session: SessionId,
    /// Its number for the request.
    pub cxid: Cxid,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.session, self.cxid)
    }
}

/// One transaction: a position in the history, and what happens there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Its position.
    pub zxid: Zxid,
    /// The request that it answers.
    pub origin: Origin,
    /// The transaction; opaque here.
    pub body: Bytes,
}

impl Entry {
    /// What the entry costs in memory, near enough to bound it.
    #[must_use]
    pub fn cost_bytes(&self) -> usize {
        size_of::<Self>() + self.body.len()
    }
}

/// The state after all transactions up to `zxid`, every one of them committed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Snapshot {
    /// The last transaction in it.
    pub zxid: Zxid,
    /// The epochs of the history that it stands for.
    pub epochs: Epochs,
    /// The state; opaque here.
    pub body: Bytes,
}
