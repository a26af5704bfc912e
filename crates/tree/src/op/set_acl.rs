//! setACL. Its reply is that of setData.

use pole_jute::{ErrorCode, Perms, SetAclRequest, SetAclTxn, Txn};

use super::Done;
use crate::acls::AclHandle;
use crate::desk::{Desk, next_version};
use crate::overlay::Shape;
use crate::tree::read_only;
use crate::{Tree, path};

pub(crate) fn prepare(desk: &mut Desk, request: SetAclRequest) -> Result<Txn, ErrorCode> {
    if !path::is_valid(&request.path) {
        return Err(ErrorCode::BadArguments);
    }
    let acl = match path::is_settings(&request.path) {
        true => read_only().to_vec(),
        false => desk.keep_acl(&request.acl)?,
    };
    let node = desk.get(&request.path)?;
    desk.check_write(&request.path, &node.acl, Perms::ADMIN)?;
    let version = next_version(node.aversion, request.version)?;
    desk.put(Shape { aversion: version, acl: AclHandle::unnumbered(acl.clone()), ..node });
    Ok(Txn::SetAcl(SetAclTxn { path: request.path, acl, version }))
}

/// Nobody watches ACLs, so there is no change to tell.
pub(crate) fn apply(tree: &mut Tree, txn: &SetAclTxn) -> Result<Done, ErrorCode> {
    let id = tree.nodes.find(&txn.path).ok_or(ErrorCode::NoNode)?;
    // The new one first, so that a list which does not change is not forgotten in between.
    let acl = tree.acls.intern(&txn.acl);
    let before = tree.nodes.change(id, |node| {
        node.stat.aversion = txn.version;
        core::mem::replace(&mut node.acl, acl)
    });
    tree.acls.release(&before);
    Ok(Done::AclSet(id))
}
