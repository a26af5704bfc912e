//! The state that the ensemble agrees on, as far as a server must know it.
//!
//! In: requests to make into transactions, transactions to apply. Out: answers, and what clients are to be told.
//! Why abstract: the agreement is tested over a small machine; the tree of a coordination service is [`crate::Znodes`].

use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use pole_election::{Span, Zxid};
use pole_zab::{Body, Entry, SessionId};

use crate::{AttachAnswer, ClientId, Request};

/// A deterministic state machine. What has a default is for machines whose sessions never expire and that tell clients
/// nothing but answers.
pub trait Machine {
    /// The leader makes a request into the transaction at `zxid`, against the committed state and all that was
    /// prepared since. Every request gets exactly one transaction, one that says why it failed if need be, so that the
    /// requests found in a recovered history are a prefix of those asked. None: the request belongs to a connection
    /// that its session has left (its floor is older than the session's last attachment); it is dropped.
    /// `wall_ms` is what the calendar says, in milliseconds since 1970: for people to read, never to decide by.
    fn prepare(&mut self, zxid: Zxid, request: &Request, wall_ms: i64) -> Option<Bytes>;

    /// Whether what was prepared must be applied before anything else can be prepared.
    fn is_waiting(&self) -> bool {
        false
    }

    /// Forget what was prepared and not applied: it will not be, or not by us.
    fn forget_prepared(&mut self);

    /// Applies a committed transaction. Its answer is made only if someone here waits for it.
    ///
    /// # Errors
    /// If the bytes are no transaction; the state is as it was, and the server can go no further. What one server can
    /// read all of them can, and it succeeds on all.
    fn apply(&mut self, entry: &Entry, answer: bool) -> Result<Outcome, String>;

    /// Answers a read.
    fn read(&mut self, client: ClientId, session: SessionId, body: &Bytes) -> Told;

    /// A connection is gone: nobody is to be told anything on its account.
    fn forget(&mut self, _client: ClientId) {}

    /// The sessions that are open, and how long each may be silent.
    fn sessions(&self) -> Vec<(SessionId, Span)> {
        Vec::new()
    }

    /// The request by which the leader closes a session that was silent for too long.
    fn closing(&self) -> Bytes {
        Bytes::new()
    }

    /// Requests that nobody asks but the leader: what is due by the calendar. Looks at a part of the state, from the place
    /// `from` on, and says where to go on, if there is more.
    fn chores(&self, _wall_ms: i64, _from: u32) -> (Vec<Bytes>, Option<u32>) {
        (Vec::new(), None)
    }

    /// What the ensemble decided on its oracle, and where in the history.
    fn oracle(&self) -> Option<(Bytes, Zxid)> {
        None
    }

    /// The whole state.
    fn snapshot(&self) -> Body;

    /// Replaces the state by that of a snapshot at `zxid`.
    ///
    /// # Errors
    /// If the bytes are no snapshot; the state is as it was.
    fn restore(&mut self, zxid: Zxid, body: &Bytes) -> Result<(), String>;

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
    /// The answer to whoever asked; empty if none was wanted.
    pub reply: Bytes,
    /// If it attached a session to a connection: what the client is told. None also if it refused to.
    pub attached: Option<AttachAnswer>,
    /// Whom to tell what, before the answer.
    pub events: Vec<(ClientId, Bytes)>,
    /// The session that it opened or attached anew, and how long that may be silent.
    pub opened: Option<(SessionId, Span)>,
    /// The session that it ended, if it did.
    pub ended: Option<SessionId>,
    /// Whether the ensemble decided on its oracle.
    pub oracle: bool,
}

/// What a read tells its client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// What it missed, before the answer.
    pub events: Vec<Bytes>,
    /// The answer.
    pub reply: Bytes,
}
