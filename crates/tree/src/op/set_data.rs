//! setData.

use alloc::sync::Arc;

use bytes::{Bytes, BytesMut};
use pole_jute::{
    ErrorCode, EventType, MultiResult, Perms, Record, SetDataRequest, SetDataResponse, SetDataTxn, Stat, Txn,
    TxnHeader, Writer,
};

use super::Outcome;
use crate::node::NodeId;
use crate::overlay::NodeView;
use crate::quota::Usage;
use crate::validation::{Validation, bytes, next_version};
use crate::{Changes, Tree, path};

pub(crate) fn prepare(validation: &mut Validation, request: SetDataRequest) -> Result<Txn, ErrorCode> {
    if !path::is_valid(&request.path) {
        return Err(ErrorCode::BadArguments);
    }
    let node = validation.get(&request.path)?;
    validation.check_write(&request.path, &node.acl, Perms::WRITE)?;
    let data_length = request.data.as_ref().map_or(0, Bytes::len);
    let usage = Usage { nodes: 0, bytes: bytes(data_length) - bytes(node.data_length) };
    validation.check_quota(&request.path, usage)?;
    let version = next_version(node.version, request.version)?;

    validation.charge(&request.path, usage);
    validation.put(NodeView { version, mtime: validation.at.wall_ms, data_length, ..node });
    Ok(Txn::SetData(SetDataTxn { path: request.path, data: request.data, version }))
}

pub(crate) fn apply(
    tree: &mut Tree,
    header: &TxnHeader,
    txn: &SetDataTxn,
    changes: &mut Changes,
) -> Result<Outcome, ErrorCode> {
    write(tree, header, txn, changes).map(Outcome::DataSet)
}

/// Replaces the data of a node.
pub(crate) fn write(
    tree: &mut Tree,
    header: &TxnHeader,
    txn: &SetDataTxn,
    changes: &mut Changes,
) -> Result<NodeId, ErrorCode> {
    let id = tree.nodes.find(&txn.path).ok_or(ErrorCode::NoNode)?;
    // Copied, because the slice would keep a larger buffer in memory.
    tree.write(id, txn.data.as_ref().map(|data| Arc::from(&data[..])), |stat| {
        stat.version = txn.version;
        stat.mzxid = header.zxid;
        stat.mtime = header.time;
    });
    let node = tree.nodes.get(id);
    changes.push(EventType::NodeDataChanged, &node.path, &node.acl);
    Ok(id)
}

/// The reply of setData and setACL: a stat.
pub(crate) fn reply(tree: &Tree, id: NodeId) -> Bytes {
    let mut writer = Writer::with_buffer(BytesMut::with_capacity(Stat::BYTES_MIN));
    tree.nodes.get(id).client_stat().write(&mut writer);
    writer.into_bytes()
}

pub(crate) fn result(tree: &Tree, id: NodeId) -> MultiResult {
    MultiResult::SetData(SetDataResponse { stat: tree.nodes.get(id).client_stat() })
}
