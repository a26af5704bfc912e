//! Many nodes in a short time: multis of a thousand operations, a few of them under way.

use std::io;

use bytes::Bytes;
use pole_jute::{Acl, CreateMode, CreateRequest, DeleteRequest, Id, MultiOp, MultiRequest, Perms, Request};

use super::raw::{Raw, done};

/// Carries out all operations, in multis. An answer that says no is an error.
pub(super) fn multis(raw: &mut Raw, ops: impl Iterator<Item = MultiOp>) -> io::Result<()> {
    let mut ops = ops.peekable();
    let mut under_way = 0;
    while ops.peek().is_some() || under_way > 0 {
        if ops.peek().is_some() && under_way < UNDER_WAY_MAX {
            let request = Request::Multi(MultiRequest { ops: ops.by_ref().take(OPS_PER_MULTI).collect() });
            let bytes = raw.numbered(&request);
            raw.send(&bytes)?;
            under_way += 1;
            continue;
        }
        done(raw.answer()?)?;
        under_way -= 1;
    }
    Ok(())
}

/// A node that everyone may do everything to.
pub(super) fn create(path: String, data: &Bytes, mode: CreateMode) -> CreateRequest {
    let acl = Acl { perms: Perms::ALL, id: Id { scheme: "world".into(), id: "anyone".into() } };
    CreateRequest { path, data: Some(data.clone()), acl: vec![acl], flags: mode.number() }
}

/// An empty node that stays.
pub(super) fn persistent(path: String) -> MultiOp {
    MultiOp::Create(create(path, &Bytes::new(), CreateMode::Persistent))
}

/// Deletes a node, whatever its version.
pub(super) fn delete(path: String) -> MultiOp {
    MultiOp::Delete(DeleteRequest { path, version: -1 })
}

/// Creates one node with this data.
pub(super) fn node(raw: &mut Raw, path: &str, data: &Bytes) -> io::Result<()> {
    raw.must(&Request::Create(create(path.to_owned(), data, CreateMode::Persistent)))
}

/// Far below the largest request that servers take, with the paths that the attacks use.
const OPS_PER_MULTI: usize = 1000;

/// Enough to keep the disk busy while the next is on its way.
const UNDER_WAY_MAX: usize = 4;
