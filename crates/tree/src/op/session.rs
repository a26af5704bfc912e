//! Opening, attaching and closing a session.
//!
//! The reply is a connect response, which the server builds, or a header only.
//!
//! An attachment is logged as another createSession: Apache's log has no transaction for it, and its servers ignore a
//! repeated createSession.

use alloc::string::ToString;

use pole_jute::{CloseSessionTxn, CreateSessionTxn, ErrorCode, Txn, TxnHeader};

use super::{Outcome, delete};
use crate::tree::Session;
use crate::validation::Validation;
use crate::{Changes, SessionChange, Tree, path};

pub(crate) fn prepare_attach(validation: &mut Validation, timeout_ms: i32, resume: bool) -> Result<Txn, ErrorCode> {
    let open = validation.open_session(validation.session);
    let timeout = match (resume, open) {
        (false, _) => timeout_ms,
        (true, Some(session)) => session.timeout_ms,
        (true, None) => return Err(ErrorCode::SessionExpired),
    };
    validation.put_session(validation.session, Some(Session { timeout_ms: timeout, attached: validation.at.zxid }));
    Ok(Txn::CreateSession(CreateSessionTxn { timeout }))
}

/// Lists the ephemeral nodes, including those in flight, so that every server deletes the same ones.
pub(crate) fn prepare_close(validation: &mut Validation) -> Result<Txn, ErrorCode> {
    if validation.tree.ephemerals_count_of(validation.session) > LISTED_MAX {
        validation.overlay.set_barrier(validation.at.zxid);
        validation.put_session(validation.session, None);
        return Ok(Txn::CloseSession(None));
    }
    let paths = validation.ephemerals(validation.session);
    // A session that no longer exists but left nodes behind can be closed too: see `Tree::dead_sessions`.
    if validation.open_session(validation.session).is_none() && paths.is_empty() {
        return Err(ErrorCode::SessionExpired);
    }
    for path in &paths {
        let parent = path::split(path).and_then(|(parent, _)| validation.find(parent));
        if let (Some(node), Some(parent)) = (validation.find(path), parent) {
            validation.delete(node, parent);
        }
    }
    validation.put_session(validation.session, None);
    // A long list is omitted. The session's nodes are then found when the transaction is applied, also by Apache.
    let bytes: usize = paths.iter().map(|path| 4 + path.len()).sum();
    let is_listed = bytes <= LIST_BYTES_MAX.min(validation.tree.rules.txn_bytes_max / 2);
    Ok(Txn::CloseSession(
        is_listed.then(|| CloseSessionTxn { paths_to_delete: paths.iter().map(ToString::to_string).collect() }),
    ))
}

/// The maximum number of ephemeral nodes of a closing session that are recorded one by one in its transaction.
const LISTED_MAX: usize = 1000;

/// The maximum size of that list, in bytes.
const LIST_BYTES_MAX: usize = 256 << 10;

pub(crate) fn apply_create(tree: &mut Tree, header: &TxnHeader, txn: CreateSessionTxn) -> Outcome {
    let id = header.client_id;
    tree.open_session(id, Session { timeout_ms: txn.timeout, attached: header.zxid });
    Outcome::Session(SessionChange::Attached { id, timeout_ms: txn.timeout })
}

/// Deletes the listed nodes, and those that the session still has afterwards: none, unless the log is Apache's.
pub(crate) fn apply_close(
    tree: &mut Tree,
    header: &TxnHeader,
    txn: Option<&CloseSessionTxn>,
    changes: &mut Changes,
) -> Outcome {
    let id = header.client_id;
    tree.end_session(id);
    for path in txn.into_iter().flat_map(|txn| &txn.paths_to_delete) {
        // The node may be gone already.
        let _ = delete::apply(tree, header.zxid, path, changes);
    }
    for path in tree.ephemerals(id) {
        let _ = delete::apply(tree, header.zxid, &path, changes);
    }
    Outcome::Session(SessionChange::Closed { id })
}
