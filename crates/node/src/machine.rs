//! The replicated state machine, as a server sees it.
//!
//! It turns requests into transactions, applies them, and returns answers and events for clients. It is a trait so that
//! the agreement can be tested over a small machine. The tree of the coordination service is [`crate::Znodes`].

use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use pole_types::{Membership, SessionId, Span, Zxid};
use pole_zab::{Body, Entry, MembersOf};

use crate::{AttachAnswer, ClientId, Request};

/// A deterministic state machine. The default implementations suit machines whose sessions never expire and that send
/// no events.
pub trait Machine {
    /// Leader: turns a request into the transaction at `zxid`, against the committed state and everything prepared
    /// since. Every request gets exactly one transaction, which records the error if it fails, so that the requests
    /// found in a recovered history are a prefix of those sent. Returns `None`, which drops the request, if its session
    /// has left the connection that sent it (its floor is older than the session's last attachment). `wall_ms` is the
    /// wall clock in milliseconds since 1970; it is recorded for people to read and must not affect decisions.
    ///
    /// `may_change` is asked before a transaction that changes the members of the ensemble is made.
    fn prepare(&mut self, zxid: Zxid, request: &Request, wall_ms: i64, may_change: MayChange<'_>) -> Option<Bytes>;

    /// Finds changes of the members among transactions.
    const MEMBERS_OF: MembersOf = MembersOf::NEVER;

    /// The description of the members that the state holds, and the position of the transaction that set it; `None` if the
    /// members were never changed.
    fn members(&self) -> Option<(Bytes, Zxid)> {
        None
    }

    /// A transaction without any effect.
    fn nothing(&self, _zxid: Zxid, _wall_ms: i64) -> Bytes {
        Bytes::new()
    }

    /// Reads a description of the members.
    fn parse_members(_description: &Bytes) -> Option<Membership> {
        None
    }

    /// Whether the prepared transactions must be applied before anything else can be prepared.
    fn is_waiting(&self) -> bool {
        false
    }

    /// Forgets what was prepared and not applied: it will not be applied, or not as prepared here.
    fn forget_prepared(&mut self);

    /// Applies a committed transaction. The reply is built only if `answer` is set.
    ///
    /// # Errors
    /// If the bytes are no transaction. The state has not changed then, and the server cannot continue. Decoding is
    /// deterministic: it succeeds on all servers or on none.
    fn apply(&mut self, entry: &Entry, answer: bool) -> Result<Outcome, String>;

    fn read(&mut self, client: ClientId, session: SessionId, body: &Bytes) -> ReadResult;

    /// Removes a closed connection, which gets no events any more.
    fn forget(&mut self, _client: ClientId) {}

    /// The open sessions and their timeouts.
    fn sessions(&self) -> Vec<(SessionId, Span)> {
        Vec::new()
    }

    /// The request with which the leader closes an expired session.
    fn closing(&self) -> Bytes {
        Bytes::new()
    }

    /// The requests that are due by the wall clock, issued by the leader itself. Scans a part of the state, starting at
    /// `from`, and returns where to continue if there is more.
    fn chores(&self, _wall_ms: i64, _from: u32) -> (Vec<Bytes>, Option<u32>) {
        (Vec::new(), None)
    }

    /// The oracle chosen by the ensemble, and the position of the transaction that chose it.
    fn oracle(&self) -> Option<(Bytes, Zxid)> {
        None
    }

    /// An image of the whole state.
    fn snapshot(&self) -> Body;

    /// Replaces the state by that of a snapshot at `zxid`.
    ///
    /// # Errors
    /// If the bytes are no snapshot. The state has not changed then.
    fn restore(&mut self, zxid: Zxid, body: &Bytes) -> Result<(), String>;

    /// The approximate size of a snapshot in bytes, to estimate how long its transfer takes.
    fn size_bytes(&self) -> u64 {
        0
    }

    /// A digest of the state, equal on servers that applied the same transactions.
    fn digest(&self) -> u64;
}

/// Decides whether the members can be changed to these: a quorum of the new voters follows the leader and has its history.
pub type MayChange<'a> = &'a dyn Fn(&Membership) -> bool;

/// The result of applying a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The reply; empty if none was requested.
    pub reply: Bytes,
    /// The answer to a request for a session, if the transaction opened it. `None` also if the session does not exist.
    pub attached: Option<AttachAnswer>,
    /// Events for clients, to be sent before the reply.
    pub events: Vec<(ClientId, Bytes)>,
    /// The session that it opened or attached again, and its timeout.
    pub opened: Option<(SessionId, Span)>,
    /// The session that it ended.
    pub ended: Option<SessionId>,
    /// Whether it may have changed the choice of the oracle.
    pub oracle: bool,
    /// Whether it changed the members of the ensemble.
    pub members: bool,
}

/// The result of a read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadResult {
    /// Events that the client missed, to be sent before the reply.
    pub events: Vec<Bytes>,
    pub reply: Bytes,
}
