//! getChildren, getChildren2, getAllChildrenNumber.

use core::ops::DerefMut;

use pole_jute::{
    ErrorCode, GetAllChildrenNumberRequest, GetAllChildrenNumberResponse, GetChildren2Request, GetChildrenRequest,
    Record, Writer,
};

use crate::node::Node;
use crate::read::ReadContext;
use crate::watches::Modes;
use crate::{Tree, Watches};

pub(crate) fn read<W: DerefMut<Target = Watches>>(
    context: &ReadContext,
    watches: impl FnOnce() -> W,
    request: &GetChildrenRequest,
    reply: &mut Writer,
) -> Result<(), ErrorCode> {
    let node = context.readable(&request.path)?;
    context.watch(watches, request.watch, &request.path, Modes::CHILD)?;
    write_names(context.tree, node, reply);
    Ok(())
}

pub(crate) fn read_with_stat<W: DerefMut<Target = Watches>>(
    context: &ReadContext,
    watches: impl FnOnce() -> W,
    request: &GetChildren2Request,
    reply: &mut Writer,
) -> Result<(), ErrorCode> {
    let node = context.readable(&request.path)?;
    context.watch(watches, request.watch, &request.path, Modes::CHILD)?;
    write_names(context.tree, node, reply);
    node.client_stat().write(reply);
    Ok(())
}

/// The number of descendants, at any depth.
pub(crate) fn count_all(
    context: &ReadContext,
    request: &GetAllChildrenNumberRequest,
    reply: &mut Writer,
) -> Result<(), ErrorCode> {
    context.readable(&request.path)?;
    let nodes = &context.tree.nodes;
    let all = nodes.find(&request.path).map_or(0, |top| nodes.descendants(top));
    GetAllChildrenNumberResponse { total_number: i32::try_from(all).unwrap_or(i32::MAX) }.write(reply);
    Ok(())
}

/// Encodes the names like a vector of strings, without copying them first.
pub(crate) fn write_names(tree: &Tree, node: &Node, reply: &mut Writer) {
    node.children.write_names(reply, |child| tree.nodes.get(child).name());
}
