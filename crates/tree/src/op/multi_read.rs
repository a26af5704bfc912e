//! multiRead: several reads of one state of the tree, each with its own result. It sets no watches, as in Apache's
//! clients.

use pole_jute::{ErrorCode, MultiReadOp, MultiReadRequest, MultiReadResponse, OpCode, Record, Writer};

use super::get_children::write_names;
use crate::read::ReadContext;

pub(crate) fn read(context: &ReadContext, request: &MultiReadRequest, reply: &mut Writer) -> Result<(), ErrorCode> {
    let results = request.ops.iter().map(|part| {
        let (op, path) = match part {
            MultiReadOp::GetData(request) => (OpCode::GetData, &request.path),
            MultiReadOp::GetChildren(request) => (OpCode::GetChildren, &request.path),
        };
        let node = context.readable(path)?;
        let write = move |reply: &mut Writer| match part {
            MultiReadOp::GetData(_) => {
                reply.buffer(node.data.as_deref());
                node.client_stat().write(reply);
            }
            MultiReadOp::GetChildren(_) => write_names(context.tree, node, reply),
        };
        Ok((op, write))
    });
    MultiReadResponse::write_all(results, reply);
    Ok(())
}
