//! Turns requests into transactions, on the leader.
//!
//! Requests arrive in the order in which they will be applied. Each yields exactly one transaction, encoded as in
//! Apache's log. A rejected request yields an error transaction, so that it keeps its place in the history.
//!
//! Hundreds of transactions are in flight at a time, and each must be validated against all earlier ones. The overlay
//! holds their effects.
//!
//! Invariants: applying a prepared transaction finds the tree as validation expected it. Validating against the tree
//! plus the overlay gives the same result as validating against the tree once everything is applied.
//!
//! The caller supplies zxids and wall-clock times.

use core::cell::OnceCell;

use bytes::{Bytes, BytesMut};
use pole_jute::{ErrorCode, ErrorTxn, Record, Txn, TxnEntry, TxnHeader, Writer};
use pole_types::Membership;

use crate::overlay::Overlay;
use crate::validation::Validation;
use crate::write_request::Identity;
use crate::{Operation, Tree, WriteRequest, op};

/// The transactions that the leader has prepared and not yet applied.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    overlay: Overlay,
    refusals: Refusals,
}

/// The number of requests rejected because they exceeded a limit of [`crate::Rules`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Exceeded `path_bytes_max`.
    pub path: u64,
    /// Exceeded `depth_max`.
    pub depth: u64,
    /// Exceeded `ephemerals_max`.
    pub ephemerals: u64,
    /// Exceeded `txn_bytes_max`.
    pub txn: u64,
}

/// Zxid and time of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub zxid: i64,
    /// The leader's wall clock, in milliseconds since 1970.
    pub wall_ms: i64,
}

/// Decides whether the ensemble can go on with these members: a quorum of the voters is there and up to date.
pub type MayChange<'a> = &'a dyn Fn(&Membership) -> bool;

/// The session and connection that sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestOrigin {
    pub session: i64,
    pub cxid: i32,
    /// The zxid at which the session was attached to the sending connection; 0 for attachments and for requests of
    /// the leader itself.
    pub floor: i64,
}

impl Prepared {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Turns a request into the transaction at this position. Returns none if the session has moved to another
    /// connection since the request was sent; the request is then dropped.
    ///
    /// Must not be called while [`Self::is_waiting`], nor after a change of the members that is not applied yet.
    pub fn prepare(
        &mut self,
        tree: &Tree,
        at: Position,
        origin: RequestOrigin,
        request: &Bytes,
        may_change: MayChange<'_>,
    ) -> Option<Bytes> {
        debug_assert!(!self.is_waiting(), "a transaction that was prepared must be applied first");
        self.overlay.begin();
        let (identity, operation) = match WriteRequest::decode_lazily(request) {
            Ok((identity, operation)) => (identity, Ok(operation)),
            Err(_) => (Identity::default(), Err(ErrorCode::MarshallingError)),
        };
        let Self { overlay, refusals } = self;
        let session = origin.session;
        let mut validation = Validation {
            tree,
            overlay,
            refusals,
            at,
            session,
            identity: &identity,
            permissions: OnceCell::new(),
            may_change,
            acl_bytes_left: tree.rules.txn_bytes_max,
        };
        if origin.floor != 0
            && validation.open_session(origin.session).is_some_and(|session| origin.floor < session.attached)
        {
            return None;
        }
        let decided = operation.and_then(|operation| validate(&mut validation, operation));
        let error = |code| Txn::Error(ErrorTxn::from(code));
        // Most of the transaction is a copy of the request.
        let room = BytesMut::with_capacity(request.len() + TXN_ROOM_BYTES);
        let mut writer = Writer::with_buffer(room).limited(tree.rules.txn_bytes_max);
        entry(at, origin, decided.unwrap_or_else(error)).write(&mut writer);
        if writer.is_over_limit() {
            self.refusals.txn += 1;
            self.overlay.roll_back();
            writer = Writer::new();
            entry(at, origin, error(ErrorCode::BadArguments)).write(&mut writer);
        }
        Some(fitted(writer.into_inner()))
    }

    /// Whether a prepared transaction must be applied before the next request can be prepared. This happens when a
    /// session with many ephemeral nodes is closed, because recording each of them would take longer than deleting
    /// it.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.overlay.is_waiting()
    }

    /// Whether everything that was prepared has been applied.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.overlay.is_empty()
    }

    /// Reports that all transactions up to this one have been applied to the tree.
    pub fn applied(&mut self, zxid: i64) {
        self.overlay.applied(zxid);
    }

    /// Discards all prepared transactions, for example when this server stops leading.
    pub fn clear(&mut self) {
        self.overlay = Overlay::default();
    }

    #[must_use]
    pub fn refusals(&self) -> Refusals {
        self.refusals
    }
}

fn entry(at: Position, origin: RequestOrigin, txn: Txn) -> TxnEntry {
    let header = TxnHeader {
        client_id: origin.session,
        cxid: origin.cxid,
        zxid: at.zxid,
        time: at.wall_ms,
        op: txn.op().number(),
    };
    TxnEntry { header, txn, digest: None }
}

fn validate(validation: &mut Validation, operation: Operation) -> Result<Txn, ErrorCode> {
    match operation {
        Operation::Attach { timeout_ms, resume } => op::session::prepare_attach(validation, timeout_ms, resume),
        Operation::CloseSession => op::session::prepare_close(validation),
        Operation::DeleteContainer(path) => op::delete::prepare_container(validation, path),
        Operation::Request(request) => {
            // The admin path has no session.
            if validation.open_session(validation.session).is_none() && !validation.caller().is_admin() {
                return Err(ErrorCode::SessionExpired);
            }
            op::prepare(validation, request)
        }
    }
}

/// The bytes without much unused room behind them. The log in memory counts only the bytes, and the transaction of a large
/// request that fails is tiny.
fn fitted(bytes: BytesMut) -> Bytes {
    if bytes.capacity() <= 2 * bytes.len() + TXN_ROOM_BYTES { bytes.freeze() } else { Bytes::copy_from_slice(&bytes) }
}

/// Room for the header, the versions, and the ACL entries that a create may gain.
const TXN_ROOM_BYTES: usize = 96;
