//! The opening, the attachment and the end of a session. Their replies are the server's own (a connect response) or a
//! header.
//!
//! An attachment is a createSession once more: Apache's log has no other transaction that could say it, and its servers
//! make nothing of a second one.

use alloc::string::ToString;

use pole_jute::{CloseSessionTxn, CreateSessionTxn, ErrorCode, Txn, TxnHeader};

use super::{Done, delete};
use crate::desk::Desk;
use crate::tree::Session;
use crate::{Changes, SessionChange, Tree, path};

pub(crate) fn prepare_attach(desk: &mut Desk, timeout_ms: i32, resume: bool) -> Result<Txn, ErrorCode> {
    let open = desk.open_session(desk.session);
    let timeout = match (resume, open) {
        (false, _) => timeout_ms,
        (true, Some(session)) => session.timeout_ms,
        (true, None) => return Err(ErrorCode::SessionExpired),
    };
    desk.put_session(desk.session, Some(Session { timeout_ms: timeout, attached: desk.at.zxid }));
    Ok(Txn::CreateSession(CreateSessionTxn { timeout }))
}

/// Lists the ephemeral nodes, those in flight included, so that every server deletes the same.
pub(crate) fn prepare_close(desk: &mut Desk) -> Result<Txn, ErrorCode> {
    if desk.tree.ephemerals_of(desk.session) > LISTED_MAX {
        desk.overlay.wait_for(desk.at.zxid);
        desk.put_session(desk.session, None);
        return Ok(Txn::CloseSession(None));
    }
    let paths = desk.ephemerals(desk.session);
    // A session that is no more but left nodes behind can be closed too: see `Tree::dead_sessions`.
    if desk.open_session(desk.session).is_none() && paths.is_empty() {
        return Err(ErrorCode::SessionExpired);
    }
    for path in &paths {
        let parent = path::split(path).and_then(|(parent, _)| desk.find(parent));
        if let (Some(node), Some(parent)) = (desk.find(path), parent) {
            desk.erase(node, parent);
        }
    }
    desk.put_session(desk.session, None);
    // A long list is left out: whoever applies the transaction deletes what the session has, and so does Apache.
    let bytes: usize = paths.iter().map(|path| 4 + path.len()).sum();
    let is_listed = bytes <= LIST_BYTES_MAX.min(desk.tree.rules.txn_bytes_max / 2);
    Ok(Txn::CloseSession(
        is_listed.then(|| CloseSessionTxn { paths_to_delete: paths.iter().map(ToString::to_string).collect() }),
    ))
}

/// The nodes of a closing session that are looked at one by one before its transaction is made.
const LISTED_MAX: usize = 1000;

/// What the list of a closing session may take in its transaction.
const LIST_BYTES_MAX: usize = 256 << 10;

pub(crate) fn apply_create(tree: &mut Tree, header: &TxnHeader, txn: CreateSessionTxn) -> Done {
    let id = header.client_id;
    tree.open_session(id, Session { timeout_ms: txn.timeout, attached: header.zxid });
    Done::Session(SessionChange::Attached { id, timeout_ms: txn.timeout })
}

/// Deletes what the transaction lists, and what the session still has after that: nothing, unless the log is Apache's.
pub(crate) fn apply_close(
    tree: &mut Tree,
    header: &TxnHeader,
    txn: Option<&CloseSessionTxn>,
    changes: &mut Changes,
) -> Done {
    let id = header.client_id;
    tree.end_session(id);
    for path in txn.into_iter().flat_map(|txn| &txn.paths_to_delete) {
        // One that is gone already is no loss.
        let _ = delete::apply(tree, header.zxid, path, changes);
    }
    for path in tree.ephemerals(id) {
        let _ = delete::apply(tree, header.zxid, &path, changes);
    }
    Done::Session(SessionChange::Closed { id })
}
