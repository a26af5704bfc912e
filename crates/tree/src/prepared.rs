//! The leader's side: requests become transactions.
//!
//! In: requests in the order in which they will be applied. Out: for each, exactly one transaction, encoded as Apache's
//! log holds it; one that says why if the request is refused, so that it keeps its place in the history.
//! Why an overlay: hundreds of transactions are in flight, and each must be validated against all before it.
//! Holds: what is prepared here is applied without meeting anything that it did not expect. Validating against the tree
//! and the overlay gives what validating against the tree gives once all is applied.
//! Not here: zxids and wall-clock times, which the caller brings.

use bytes::{Bytes, BytesMut};
use pole_jute::{ErrorCode, ErrorTxn, Record, Txn, TxnEntry, TxnHeader, Writer};

use crate::ask::Identity;
use crate::desk::Desk;
use crate::overlay::Overlay;
use crate::{Ask, Tree, What, op};

/// What the leader has decided and not yet applied.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    overlay: Overlay,
    refusals: Refusals,
}

/// How many requests were refused because they exceeded a limit of [`crate::Rules`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// `path_bytes_max`.
    pub path: u64,
    /// `ephemerals_max`.
    pub ephemerals: u64,
    /// `txn_bytes_max`.
    pub txn: u64,
}

/// The place of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// In the history.
    pub zxid: i64,
    /// On the leader's wall clock, in milliseconds since 1970.
    pub wall_ms: i64,
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct From {
    /// The session.
    pub session: i64,
    /// Its number for the request.
    pub cxid: i32,
    /// The zxid of the attachment of the connection that it came by; 0 for attachments and for what the leader asks.
    pub floor: i64,
}

impl Prepared {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a request into the transaction at this place. None: the session has left the connection that it came by, so
    /// it is dropped.
    ///
    /// Not to be called while [`Self::is_waiting`].
    pub fn prepare(&mut self, tree: &Tree, at: Position, from: From, ask: &Bytes) -> Option<Bytes> {
        debug_assert!(!self.is_waiting(), "a transaction that was prepared must be applied first");
        self.overlay.begin();
        let (identity, what) = match Ask::open(ask) {
            Ok((identity, what)) => (identity, Ok(what)),
            Err(_) => (Identity::default(), Err(ErrorCode::MarshallingError)),
        };
        let Self { overlay, refusals } = self;
        let session = from.session;
        let mut desk =
            Desk { tree, overlay, refusals, at, session, identity: &identity, acl_room: tree.rules.txn_bytes_max };
        if from.floor != 0 && desk.open_session(from.session).is_some_and(|session| from.floor < session.attached) {
            return None;
        }
        let decided = what.and_then(|what| decide(&mut desk, what));
        let error = |code| Txn::Error(ErrorTxn::from(code));
        // What was asked is nearly all of what is written.
        let room = BytesMut::with_capacity(ask.len() + TXN_ROOM_BYTES);
        let mut writer = Writer::over(room).limited(tree.rules.txn_bytes_max);
        entry(at, from, decided.unwrap_or_else(error)).write(&mut writer);
        if writer.is_over_limit() {
            self.refusals.txn += 1;
            self.overlay.take_back();
            writer = Writer::new();
            entry(at, from, error(ErrorCode::BadArguments)).write(&mut writer);
        }
        Some(writer.into_bytes())
    }

    /// Whether what was prepared must be applied before anything else can be: the end of a session with many nodes. To
    /// enter each of them would take longer than to delete it.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.overlay.is_waiting()
    }

    /// Whether everything that was prepared has been applied.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.overlay.is_empty()
    }

    /// Everything up to this transaction has been applied to the tree.
    pub fn applied(&mut self, zxid: i64) {
        self.overlay.applied(zxid);
    }

    /// What was prepared will not be applied, or not by us.
    pub fn clear(&mut self) {
        self.overlay = Overlay::default();
    }

    /// How many requests exceeded a limit.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        self.refusals
    }
}

fn entry(at: Position, from: From, txn: Txn) -> TxnEntry {
    let header =
        TxnHeader { client_id: from.session, cxid: from.cxid, zxid: at.zxid, time: at.wall_ms, op: txn.op().number() };
    TxnEntry { header, txn, digest: None }
}

fn decide(desk: &mut Desk, what: What) -> Result<Txn, ErrorCode> {
    match what {
        What::Attach { timeout_ms, resume } => op::session::prepare_attach(desk, timeout_ms, resume),
        What::CloseSession => op::session::prepare_close(desk),
        What::DeleteContainer(path) => op::delete::prepare_container(desk, path),
        What::Request(request) => {
            // The admin path has no session.
            if desk.open_session(desk.session).is_none() && !desk.caller().is_admin() {
                return Err(ErrorCode::SessionExpired);
            }
            op::prepare(desk, request)
        }
    }
}

/// The header, versions, and the ACL that a create may have gained.
const TXN_ROOM_BYTES: usize = 96;
