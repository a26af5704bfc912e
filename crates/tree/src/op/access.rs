//! getACL. Who may not change the ACL does not see the hashes of passwords in it.

use alloc::vec::Vec;

use pole_jute::{Acl, ErrorCode, GetAclRequest, GetAclResponse, Id, Perms, Record, Writer};

use crate::access::{masked, may};
use crate::acls::AclHandle;
use crate::read::Reading;

pub(crate) fn read(desk: &Reading, request: &GetAclRequest, reply: &mut Writer) -> Result<(), ErrorCode> {
    let node = desk.permitted(&request.path, Perms::READ | Perms::ADMIN)?;
    let list = shown(&node.acl);
    let in_full = may(desk.tree.rules, &node.acl, Perms::ADMIN, desk.caller);
    let acl = if in_full { list } else { list.iter().map(masked).collect() };
    GetAclResponse { acl, stat: node.shown() }.write(reply);
    Ok(())
}

/// No list is shown as one that lets everyone do everything.
fn shown(acl: &AclHandle) -> Vec<Acl> {
    let open = || Vec::from([Acl { perms: Perms::ALL, id: Id { scheme: "world".into(), id: "anyone".into() } }]);
    acl.list().map_or_else(open, <[Acl]>::to_vec)
}
