//! getACL. A caller that may not change the ACL does not see the password hashes in it.

use alloc::vec::Vec;

use pole_jute::{Acl, ErrorCode, GetAclRequest, GetAclResponse, Id, Perms, Record, Writer};

use crate::access::masked;
use crate::acls::AclHandle;
use crate::read::ReadContext;

pub(crate) fn read(context: &ReadContext, request: &GetAclRequest, reply: &mut Writer) -> Result<(), ErrorCode> {
    let node = context.permitted(&request.path, Perms::READ | Perms::ADMIN)?;
    let list = entries(&node.acl);
    let in_full = context.permissions.permit(&node.acl, Perms::ADMIN);
    let acl = if in_full { list } else { list.iter().map(masked).collect() };
    GetAclResponse { acl, stat: node.client_stat() }.write(reply);
    Ok(())
}

/// An open ACL is shown as an entry that allows everyone everything.
fn entries(acl: &AclHandle) -> Vec<Acl> {
    let open = || Vec::from([Acl { perms: Perms::ALL, id: Id { scheme: "world".into(), id: "anyone".into() } }]);
    acl.list().map_or_else(open, <[Acl]>::to_vec)
}
