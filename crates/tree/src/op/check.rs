//! check, as part of a multi: a version must be the one that the client has seen.

use pole_jute::{CheckVersionRequest, CheckVersionTxn, ErrorCode, Perms, Txn};

use crate::desk::{Desk, next_version};
use crate::path;

/// The transaction holds the version after the one that was compared, as Apache's does; nobody reads it.
pub(crate) fn prepare(desk: &Desk, request: CheckVersionRequest) -> Result<Txn, ErrorCode> {
    if !path::is_valid(&request.path) {
        return Err(ErrorCode::BadArguments);
    }
    let node = desk.get(&request.path)?;
    desk.check(&node.acl, Perms::READ)?;
    let version = next_version(node.version, request.version)?;
    Ok(Txn::Check(CheckVersionTxn { path: request.path, version }))
}
