//! Creates and deletes many nodes quickly: multis of a thousand operations, with a few in flight.

use std::io;

use bytes::Bytes;
use pole_client::open_acl;
use pole_jute::{CreateMode, CreateRequest, DeleteRequest, MultiOp, MultiRequest, Request};

use super::raw::{RawClient, check_ok};

/// Runs all operations, in multis. Fails on an error reply.
pub(super) fn run_multis(raw: &mut RawClient, ops: impl Iterator<Item = MultiOp>) -> io::Result<()> {
    let mut ops = ops.peekable();
    let mut in_flight = 0;
    while ops.peek().is_some() || in_flight > 0 {
        if ops.peek().is_some() && in_flight < IN_FLIGHT_MAX {
            let request = Request::Multi(MultiRequest { ops: ops.by_ref().take(OPS_PER_MULTI).collect() });
            let bytes = raw.encode_next(&request);
            raw.send(&bytes)?;
            in_flight += 1;
            continue;
        }
        check_ok(raw.answer()?)?;
        in_flight -= 1;
    }
    Ok(())
}

/// A create request with the open ACL (`world:anyone`, all permissions).
pub(super) fn create(path: String, data: &Bytes, mode: CreateMode) -> CreateRequest {
    CreateRequest { path, data: Some(data.clone()), acl: open_acl(), flags: mode.number() }
}

/// Creates an empty persistent node.
pub(super) fn persistent(path: String) -> MultiOp {
    MultiOp::Create(create(path, &Bytes::new(), CreateMode::Persistent))
}

/// Deletes a node of any version.
pub(super) fn delete(path: String) -> MultiOp {
    MultiOp::Delete(DeleteRequest { path, version: -1 })
}

/// Creates one persistent node with this data.
pub(super) fn create_node(raw: &mut RawClient, path: &str, data: &Bytes) -> io::Result<()> {
    raw.expect_ok(&Request::Create(create(path.to_owned(), data, CreateMode::Persistent)))
}

/// With the paths of the attacks, a multi of this size is far below the request limit of servers.
const OPS_PER_MULTI: usize = 1000;

/// Enough to keep the disk busy while the next request is on its way.
const IN_FLIGHT_MAX: usize = 4;
