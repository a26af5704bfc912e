//! setACL. Its reply is the same as that of setData.

use pole_jute::{ErrorCode, Perms, SetAclRequest, SetAclTxn, Txn};

use super::Outcome;
use crate::acls::AclHandle;
use crate::overlay::NodeView;
use crate::tree::read_only_acl;
use crate::validation::{Validation, next_version};
use crate::{Tree, path};

pub(crate) fn prepare(validation: &mut Validation, request: SetAclRequest) -> Result<Txn, ErrorCode> {
    if !path::is_valid(&request.path) {
        return Err(ErrorCode::BadArguments);
    }
    let acl = match path::is_settings(&request.path) {
        true => read_only_acl().to_vec(),
        false => validation.resolve_acl(&request.acl)?,
    };
    let node = validation.get(&request.path)?;
    validation.check_write(&request.path, &node.acl, Perms::ADMIN)?;
    let version = next_version(node.aversion, request.version)?;
    validation.put(NodeView { aversion: version, acl: AclHandle::unnumbered(acl.clone()), ..node });
    Ok(Txn::SetAcl(SetAclTxn { path: request.path, acl, version }))
}

/// There are no watches on ACLs, so no change is recorded.
pub(crate) fn apply(tree: &mut Tree, txn: &SetAclTxn) -> Result<Outcome, ErrorCode> {
    let id = tree.nodes.find(&txn.path).ok_or(ErrorCode::NoNode)?;
    // Interned before the old one is released, so that an unchanged list stays in the table.
    let acl = tree.acls.intern(&txn.acl);
    let before = tree.nodes.change(id, |node| {
        node.stat.aversion = txn.version;
        core::mem::replace(&mut node.acl, acl)
    });
    tree.acls.release(&before);
    Ok(Outcome::AclSet(id))
}
