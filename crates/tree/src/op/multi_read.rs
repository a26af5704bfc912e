//! multiRead: several reads, each with its own result, of one state of the tree. No watches, as in Apache's clients.

use bytes::Bytes;
use pole_jute::{
    ErrorCode, GetChildrenResponse, GetDataResponse, MultiReadOp, MultiReadRequest, MultiReadResponse, MultiReadResult,
    Writer,
};

use crate::read::Reading;

pub(crate) fn read(desk: &Reading, request: &MultiReadRequest, reply: &mut Writer) -> Result<(), ErrorCode> {
    let results = request.ops.iter().map(|op| read_part(desk, op).unwrap_or_else(MultiReadResult::Error));
    MultiReadResponse::write_all(results, reply);
    Ok(())
}

fn read_part(desk: &Reading, op: &MultiReadOp) -> Result<MultiReadResult, ErrorCode> {
    Ok(match op {
        MultiReadOp::GetData(request) => {
            let node = desk.readable(&request.path)?;
            let data = node.data.as_deref().map(Bytes::copy_from_slice);
            MultiReadResult::GetData(GetDataResponse { data, stat: node.shown() })
        }
        MultiReadOp::GetChildren(request) => {
            let children = desk.readable(&request.path)?.children.iter();
            let children = children.map(|id| desk.tree.nodes.get(*id).name().into()).collect();
            MultiReadResult::GetChildren(GetChildrenResponse { children })
        }
    })
}
