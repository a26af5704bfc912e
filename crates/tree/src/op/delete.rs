//! delete, and deleteContainer, which the leader itself requests.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use pole_jute::{DeleteRequest, DeleteTxn, ErrorCode, EventType, Perms, Txn};

use super::Outcome;
use crate::node::NodeId;
use crate::overlay::NodeView;
use crate::tree::is_due;
use crate::validation::{Validation, next_version};
use crate::{Changes, Tree, path};

pub(crate) fn prepare(validation: &mut Validation, request: DeleteRequest) -> Result<Txn, ErrorCode> {
    let parent = parent_of(validation, &request.path)?;
    validation.check_write(&request.path, &parent.acl, Perms::DELETE)?;
    let node = validation.get(&request.path)?;
    next_version(node.version, request.version)?;
    if node.children > 0 {
        return Err(ErrorCode::NotEmpty);
    }
    validation.delete(node, parent);
    Ok(Txn::Delete(DeleteTxn { path: request.path }))
}

/// Checks again whether the node is due: it may have changed since the leader's request.
pub(crate) fn prepare_container(validation: &mut Validation, path: String) -> Result<Txn, ErrorCode> {
    let parent = parent_of(validation, &path)?;
    let node = validation.get(&path)?;
    if node.children > 0 {
        return Err(ErrorCode::NotEmpty);
    }
    if !is_due(node.owner, node.cversion, node.mtime, validation.at.wall_ms) {
        return Err(ErrorCode::BadVersion);
    }
    validation.delete(node, parent);
    Ok(Txn::DeleteContainer(DeleteTxn { path }))
}

/// The parent of a node; an error if the node cannot be deleted at all.
fn parent_of(validation: &Validation, path: &str) -> Result<NodeView, ErrorCode> {
    let (parent, _) = path::split(path).ok_or(ErrorCode::BadArguments)?;
    if path.contains('\0') || path::is_reserved(path) {
        return Err(ErrorCode::BadArguments);
    }
    validation.get(parent)
}

pub(crate) fn apply(tree: &mut Tree, zxid: i64, path: &str, changes: &mut Changes) -> Result<Outcome, ErrorCode> {
    let parent = path::split(path).and_then(|(parent, _)| tree.nodes.find(parent)).ok_or(ErrorCode::NoNode)?;
    // Updated even if the node is gone already, but never decreased.
    let parent_path = tree.nodes.change(parent, |node| {
        node.stat.pzxid = node.stat.pzxid.max(zxid);
        Arc::clone(&node.path)
    });
    // Reserved nodes are never deleted, whatever a log contains.
    let node = tree.nodes.find(path).filter(|_| !path::is_reserved(path)).ok_or(ErrorCode::NoNode)?;
    let mut below: Vec<NodeId> = tree.nodes.subtree(node).collect();
    // Children first. Only logs of Apache delete a node with children, see `apply`.
    while let Some(id) = below.pop() {
        let gone = tree.remove_node(id);
        changes.push(EventType::NodeDeleted, &gone.path, &gone.acl);
    }
    changes.push_children(&parent_path);
    Ok(Outcome::Deleted)
}
