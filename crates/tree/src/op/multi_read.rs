//! multiRead: several reads of one state of the tree, each with its own result. It sets no watches, as in Apache's
//! clients.

use bytes::Bytes;
use pole_jute::{
    ErrorCode, GetChildrenResponse, GetDataResponse, MultiReadOp, MultiReadRequest, MultiReadResponse, MultiReadResult,
    Writer,
};

use crate::read::ReadContext;

pub(crate) fn read(context: &ReadContext, request: &MultiReadRequest, reply: &mut Writer) -> Result<(), ErrorCode> {
    let results = request.ops.iter().map(|op| read_part(context, op).unwrap_or_else(MultiReadResult::Error));
    MultiReadResponse::write_all(results, reply);
    Ok(())
}

fn read_part(context: &ReadContext, op: &MultiReadOp) -> Result<MultiReadResult, ErrorCode> {
    Ok(match op {
        MultiReadOp::GetData(request) => {
            let node = context.readable(&request.path)?;
            let data = node.data.as_deref().map(Bytes::copy_from_slice);
            MultiReadResult::GetData(GetDataResponse { data, stat: node.client_stat() })
        }
        MultiReadOp::GetChildren(request) => {
            let children = context.readable(&request.path)?.children.iter();
            let children = children.map(|id| context.tree.nodes.get(*id).name().into()).collect();
            MultiReadResult::GetChildren(GetChildrenResponse { children })
        }
    })
}
