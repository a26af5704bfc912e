//! check, as part of a multi: fails unless the node has the expected version.

use pole_jute::{CheckVersionRequest, CheckVersionTxn, ErrorCode, Perms, Txn};

use crate::path;
use crate::validation::{Validation, next_version};

/// As in Apache, the transaction contains the version after the compared one; it is never used.
pub(crate) fn prepare(validation: &Validation, request: CheckVersionRequest) -> Result<Txn, ErrorCode> {
    if !path::is_valid(&request.path) {
        return Err(ErrorCode::BadArguments);
    }
    let node = validation.get(&request.path)?;
    validation.check(&node.acl, Perms::READ)?;
    let version = next_version(node.version, request.version)?;
    Ok(Txn::Check(CheckVersionTxn { path: request.path, version }))
}
