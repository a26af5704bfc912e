//! The state that the ensemble agrees on, as far as a server must know it.
//!
//! In: requests to make into transactions, transactions to apply. Out: answers.
//! Why abstract: the agreement is tested over a small machine, and the tree comes later.

use bytes::Bytes;
use pole_election::Zxid;
use pole_zab::{Body, Entry, SessionId};

use crate::Request;

/// A deterministic state machine.
pub trait Machine {
    /// The leader makes a request into the transaction at `zxid`, against the committed state and all that was
    /// prepared since. Every request gets exactly one transaction, one that says why it failed if need be, so that the
    /// requests found in a recovered history are a prefix of those asked. None: the request belongs to a connection
    /// that its session has left (its floor is older than the session's last attachment); it is dropped.
    fn prepare(&mut self, zxid: Zxid, request: &Request) -> Option<Bytes>;

    /// Forget what was prepared and not applied: it will not be, or not by us.
    fn forget_prepared(&mut self);

    /// Applies a committed transaction. Cannot fail.
    fn apply(&mut self, entry: &Entry) -> Outcome;

    /// Answers a read.
    fn read(&self, session: SessionId, body: &Bytes) -> Bytes;

    /// The whole state.
    fn snapshot(&self) -> Body;

    /// Replaces the state.
    ///
    /// # Errors
    /// If the bytes are no snapshot; the state is as it was.
    fn restore(&mut self, body: &Bytes) -> Result<(), &'static str>;

    /// The size of a snapshot, near enough to estimate how long one travels.
    fn size_bytes(&self) -> u64 {
        0
    }

    /// A digest of the state, equal on servers that applied the same transactions.
    fn digest(&self) -> u64;
}

/// What a transaction did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The answer to whoever asked.
    pub reply: Bytes,
    /// The session that it ended, if it did.
    pub ended: Option<SessionId>,
}
