//! Draws the requests of ZooKeeper clients: all clients share a few paths, so that their requests conflict.

use bytes::Bytes;
use pole_jute::{
    Acl, AddWatchMode, AddWatchRequest, CreateMode, CreateRequest, DeleteRequest, ExistsRequest, GetChildren2Request,
    GetDataRequest, Id, MultiOp, MultiRequest, Perms, Request, SetAclRequest, SetDataRequest,
};

use crate::Rng;

/// The next request; none: a sync.
pub(crate) fn next(rng: &mut Rng, sequential_nodes: &mut Vec<String>) -> Option<Request> {
    let (node, watch) = (node(rng), rng.per_mille(400));
    Some(match rng.below(1000) {
        0..120 => Request::Create(create(rng, node, CreateMode::Persistent)),
        120..300 => Request::SetData(set(rng, node)),
        300..360 => Request::Delete(DeleteRequest { path: node, version: -1 }),
        360..440 => {
            let mode = *rng.pick(&[CreateMode::Ephemeral, CreateMode::Persistent]);
            let path = child(rng, &node);
            Request::Create2(create(rng, path, mode))
        }
        440..480 => Request::Delete(DeleteRequest { path: child(rng, &node), version: -1 }),
        480..560 => {
            let path = format!("/lock{}", rng.below(3));
            Request::Create(create(rng, path, CreateMode::Ephemeral))
        }
        560..620 => {
            let mode = *rng.pick(&[CreateMode::EphemeralSequential, CreateMode::PersistentSequential]);
            Request::Create(create(rng, format!("{node}/q-"), mode))
        }
        620..680 => match sequential_nodes.pop() {
            Some(path) => Request::Delete(DeleteRequest { path, version: -1 }),
            None => Request::SetData(set(rng, node)),
        },
        680..750 => Request::Multi(multi(rng)),
        750..765 => Request::SetAcl(SetAclRequest { path: node, acl: acl(rng), version: -1 }),
        765..850 => Request::GetData(GetDataRequest { path: any(rng, node), watch }),
        850..890 => Request::Exists(ExistsRequest { path: any(rng, node), watch }),
        890..940 => Request::GetChildren2(GetChildren2Request { path: node, watch }),
        940..950 => {
            let mode = *rng.pick(&[AddWatchMode::Persistent, AddWatchMode::PersistentRecursive]);
            Request::AddWatch(AddWatchRequest { path: node, mode })
        }
        950..996 => return None,
        _ => Request::CloseSession,
    })
}

fn node(rng: &mut Rng) -> String {
    format!("/n{}", rng.below(5))
}

fn child(rng: &mut Rng, node: &str) -> String {
    format!("{node}/c{}", rng.below(3))
}

fn any(rng: &mut Rng, node: String) -> String {
    match rng.below(3) {
        0 => format!("/lock{}", rng.below(3)),
        1 => child(rng, &node),
        _ => node,
    }
}

fn create(rng: &mut Rng, path: String, mode: CreateMode) -> CreateRequest {
    CreateRequest { path, data: Some(unique(rng)), acl: acl(rng), flags: mode.number() }
}

fn set(rng: &mut Rng, path: String) -> SetDataRequest {
    let version = if rng.per_mille(200) { rng.below(12) as i32 } else { -1 };
    SetDataRequest { path, data: Some(unique(rng)), version }
}

/// Some succeed; some fail at their second part and must leave nothing of the first.
fn multi(rng: &mut Rng) -> MultiRequest {
    let (first, second) = (node(rng), node(rng));
    let path = child(rng, &first);
    let mode = *rng.pick(&[CreateMode::Ephemeral, CreateMode::Persistent]);
    let ops = match rng.below(3) {
        0 => vec![MultiOp::SetData(set(rng, first)), MultiOp::SetData(set(rng, second))],
        1 => vec![MultiOp::Create(create(rng, path, mode)), MultiOp::SetData(set(rng, second))],
        _ => vec![
            MultiOp::Delete(DeleteRequest { path: path.clone(), version: -1 }),
            MultiOp::Create(create(rng, path, mode)),
        ],
    };
    MultiRequest { ops }
}

fn unique(rng: &mut Rng) -> Bytes {
    Bytes::copy_from_slice(&rng.any().to_be_bytes())
}

/// ACLs that all grant everything to everyone, but differ, so that the tree has several lists to count references of.
fn acl(rng: &mut Rng) -> Vec<Acl> {
    let of = |scheme: &str, id: String| Acl { perms: Perms::ALL, id: Id { scheme: scheme.into(), id } };
    let mut acl = vec![of("world", "anyone".to_owned())];
    acl.extend(rng.per_mille(300).then(|| of("ip", format!("10.0.0.{}", rng.below(3)))));
    acl
}
