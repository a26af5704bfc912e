//! Log entries, snapshots, and the identifiers of the requests that they answer.

use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use core::hash::{Hash, Hasher};
use pole_types::{Cxid, SessionId, Zxid};

use crate::Epochs;

/// The request that a transaction answers. It is stored with the transaction, so that after a leader change the server
/// to which the client is connected recognises the request in the recovered history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The session that sent the request.
    pub session: SessionId,
    /// The session's number for the request.
    pub cxid: Cxid,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.session, self.cxid)
    }
}

/// One transaction and its position in the history.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The position.
    pub zxid: Zxid,
    /// The request that it answers.
    pub origin: Origin,
    /// The encoded transaction, opaque to this crate.
    pub body: Bytes,
}

impl Entry {
    /// The approximate memory use of the entry in bytes, for limits.
    #[must_use]
    pub fn cost_bytes(&self) -> usize {
        size_of::<Self>() + self.body.len()
    }
}

/// The state after all transactions up to `zxid`, all of them committed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Snapshot {
    /// The last transaction in the snapshot.
    pub zxid: Zxid,
    /// The epochs of the history that the snapshot replaces.
    pub epochs: Epochs,
    /// The encoded state, opaque to this crate.
    pub body: Body,
}

/// A state, either encoded or as an image that can be encoded.
///
/// Encoding a large state must not stall the protocol, so the thread that writes it to disk encodes it from an
/// immutable image.
#[derive(Clone, Debug)]
pub enum Body {
    /// The encoded state.
    Bytes(Bytes),
    /// An immutable state that is encoded on demand.
    Image(Arc<dyn Image>),
}

/// An immutable state that can encode itself.
pub trait Image: fmt::Debug + Send + Sync {
    /// Encodes the whole state, passing it to `sink` in pieces.
    fn write(&self, sink: &mut dyn FnMut(&[u8]));
}

impl Body {
    /// Returns the whole encoded state in one piece.
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

    /// Encodes the whole state, passing it to `sink` in pieces.
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

/// Two bodies are equal if their encodings are.
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
