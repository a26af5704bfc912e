//! What the log is made of.

use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use core::hash::{Hash, Hasher};
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

    /// What a leader asks of its own accord. Clients get it as the number of what they did not ask, so none uses it.
    pub const OWN: Self = Self(-1);

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
    pub body: Body,
}

/// A state as bytes, or what can write it.
///
/// Why two: a large state is not turned into bytes while the protocol waits; whoever writes it to a disk does that,
/// at its leisure, from an image that no longer changes.
#[derive(Clone, Debug)]
pub enum Body {
    /// It is here.
    Bytes(Bytes),
    /// It can be written.
    Image(Arc<dyn Image>),
}

/// A state that was put aside and does not change any more.
pub trait Image: fmt::Debug + Send + Sync {
    /// Writes the whole state, piece by piece.
    fn write(&self, sink: &mut dyn FnMut(&[u8]));
}

impl Body {
    /// The whole state in one piece.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::Image(_) => {
                let mut whole = Vec::new();
                self.write(&mut |piece| whole.extend_from_slice(piece));
                whole.into()
            }
        }
    }

    /// Writes the whole state, piece by piece.
    pub fn write(&self, sink: &mut dyn FnMut(&[u8])) {
        match self {
            Self::Bytes(bytes) => sink(bytes),
            Self::Image(image) => image.write(sink),
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

/// Equal if they say the same, however they are kept.
impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        self.to_bytes() == other.to_bytes()
    }
}

impl Eq for Body {}

impl Hash for Body {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_bytes().hash(state);
    }
}
