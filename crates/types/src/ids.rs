//! Ids of servers, sessions and requests.

use core::fmt;

/// The id of a server, the N of `server.N` in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u64);

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identifies a client session in the whole ensemble.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub i64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The number that a client gives to a request, unique within a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cxid(pub i32);

impl Cxid {
    /// Attachments are numbered downwards from here. Clients count upwards, and ZooKeeper's reserved numbers are just
    /// below zero.
    const ATTACHMENTS_BELOW: i32 = -1024;

    /// The number of transactions that the leader creates itself. ZooKeeper uses it in notifications to clients, so no
    /// client uses it for a request.
    pub const OWN: Self = Self(-1);

    /// The number of a server's `nth` connection. It distinguishes the attachments of a session.
    #[must_use]
    pub fn attachment(server: ServerId, nth: u32) -> Self {
        let server = (server.0 & 0xff) as i32;
        let nth = (nth & 0x003f_ffff) as i32;
        Self(Self::ATTACHMENTS_BELOW - 1 - (server << 22 | nth))
    }

    /// Whether this is the number of an attachment and not of a client's request.
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
