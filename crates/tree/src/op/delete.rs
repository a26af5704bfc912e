//! delete, and deleteContainer, which the leader asks itself.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use pole_jute::{DeleteRequest, DeleteTxn, ErrorCode, EventType, Perms, Txn};

use super::Done;
use crate::desk::{Desk, next_version};
use crate::node::NodeId;
use crate::overlay::Shape;
use crate::tree::is_due;
use crate::{Changes, Tree, path};

pub(crate) fn prepare(desk: &mut Desk, request: DeleteRequest) -> Result<Txn, ErrorCode> {
    let parent = parent_of(desk, &request.path)?;
    desk.check_write(&request.path, &parent.acl, Perms::DELETE)?;
    let node = desk.get(&request.path)?;
    next_version(node.version, request.version)?;
    if node.children > 0 {
        return Err(ErrorCode::NotEmpty);
    }
    desk.erase(node, parent);
    Ok(Txn::Delete(DeleteTxn { path: request.path }))
}

/// Looks again whether the node is due: it may have changed since the leader asked.
pub(crate) fn prepare_container(desk: &mut Desk, path: String) -> Result<Txn, ErrorCode> {
    let parent = parent_of(desk, &path)?;
    let node = desk.get(&path)?;
    if node.children > 0 {
        return Err(ErrorCode::NotEmpty);
    }
    if !is_due(node.owner, node.cversion, node.mtime, desk.at.wall_ms) {
        return Err(ErrorCode::BadVersion);
    }
    desk.erase(node, parent);
    Ok(Txn::DeleteContainer(DeleteTxn { path }))
}

/// The parent of a node that may be deleted at all.
fn parent_of(desk: &Desk, path: &str) -> Result<Shape, ErrorCode> {
    let (parent, _) = path::split(path).ok_or(ErrorCode::BadArguments)?;
    if path.contains('\0') || path::is_reserved(path) {
        return Err(ErrorCode::BadArguments);
    }
    desk.get(parent)
}

pub(crate) fn apply(tree: &mut Tree, zxid: i64, path: &str, changes: &mut Changes) -> Result<Done, ErrorCode> {
    let parent = path::split(path).and_then(|(parent, _)| tree.nodes.find(parent)).ok_or(ErrorCode::NoNode)?;
    // Also if the node is gone already; but never back.
    let parent_path = tree.nodes.change(parent, |node| {
        node.stat.pzxid = node.stat.pzxid.max(zxid);
        Arc::clone(&node.path)
    });
    // The service's own nodes stay, whatever a log says.
    let node = tree.nodes.find(path).filter(|_| !path::is_reserved(path)).ok_or(ErrorCode::NoNode)?;
    let mut below: Vec<NodeId> = tree.nodes.below(node).collect();
    // Children first. There are none but in the logs of Apache, see `apply`.
    while let Some(id) = below.pop() {
        let gone = tree.prune(id);
        changes.push(EventType::NodeDeleted, &gone.path, &gone.acl);
    }
    changes.push_children(&parent_path);
    Ok(Done::Deleted)
}
