//! ZooKeeper clients in scripts: parses their requests and prints trees.

use bytes::Bytes;
use pole_jute::{
    Acl, AddWatchMode, AddWatchRequest, CreateMode, CreateRequest, DeleteRequest, ExistsRequest, GetChildren2Request,
    GetDataRequest, Id, MultiOp, MultiRequest, Perms, Request, SetAclRequest, SetDataRequest,
};

use super::names::Names;
use crate::World;

/// Parses a request; none: a sync.
pub(crate) fn request(words: &[String]) -> Result<Option<Request>, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let has = |flag: &str| words.contains(&flag);
    let at = |place: usize| words.get(place).map(|word| (*word).to_owned()).ok_or("say more".to_owned());
    Ok(Some(match at(0)?.as_str() {
        "sync" => return Ok(None),
        "close" => Request::CloseSession,
        "create" | "set" | "delete" => match part(&words)? {
            MultiOp::Create(request) => Request::Create(request),
            MultiOp::SetData(request) => Request::SetData(request),
            MultiOp::Delete(request) => Request::Delete(request),
            MultiOp::Create2(_) | MultiOp::CreateContainer(_) | MultiOp::CreateTtl(_) | MultiOp::Check(_) => {
                return Err("no such request".to_owned());
            }
        },
        "multi" => Request::Multi(MultiRequest {
            ops: words[1..].split(|word| *word == "and").map(part).collect::<Result<_, _>>()?,
        }),
        "acl" => Request::SetAcl(SetAclRequest { path: at(1)?, acl: acl(Some(at(2)?)), version: -1 }),
        "get" => Request::GetData(GetDataRequest { path: at(1)?, watch: has("watch") }),
        "exists" => Request::Exists(ExistsRequest { path: at(1)?, watch: has("watch") }),
        "children" => Request::GetChildren2(GetChildren2Request { path: at(1)?, watch: has("watch") }),
        "watch" => {
            let mode = if has("recursive") { AddWatchMode::PersistentRecursive } else { AddWatchMode::Persistent };
            Request::AddWatch(AddWatchRequest { path: at(1)?, mode })
        }
        other => return Err(format!("nobody can ask `{other}`")),
    }))
}

fn part(words: &[&str]) -> Result<MultiOp, String> {
    let data = || words.get(2).map(|word| Bytes::copy_from_slice(word.as_bytes()));
    let (Some(what), Some(path)) = (words.first(), words.get(1)) else { return Err("say what and where".to_owned()) };
    let path = (*path).to_owned();
    let mode = match (words.contains(&"ephemeral"), words.contains(&"sequential")) {
        (false, false) => CreateMode::Persistent,
        (false, true) => CreateMode::PersistentSequential,
        (true, false) => CreateMode::Ephemeral,
        (true, true) => CreateMode::EphemeralSequential,
    };
    Ok(match *what {
        "create" => MultiOp::Create(CreateRequest { path, data: data(), acl: acl(None), flags: mode.number() }),
        "set" => MultiOp::SetData(SetDataRequest { path, data: data(), version: -1 }),
        "delete" => MultiOp::Delete(DeleteRequest { path, version: -1 }),
        other => return Err(format!("nobody can `{other}` in a multi")),
    })
}

/// An ACL that grants everything to everyone, with an entry for an address if one is given.
fn acl(address: Option<String>) -> Vec<Acl> {
    let of = |scheme: &str, id: String| Acl { perms: Perms::ALL, id: Id { scheme: scheme.into(), id } };
    [of("world", "anyone".to_owned())].into_iter().chain(address.map(|ip| of("ip", ip))).collect()
}

/// The number of nodes of a server's tree, and its sessions with their ephemerals.
pub(crate) fn tree(world: &World, server: usize, names: &Names) -> Result<Vec<String>, String> {
    let node = world.hosts[server].node.as_ref().ok_or("it is down")?;
    let tree = node.machine().sim_tree().ok_or("begin with `ensemble tree=yes`")?.nodes();
    let count = format!("{}: {} nodes, {} ephemeral", server + 1, tree.node_count(), tree.ephemerals_count());
    let session = |(id, ms): (i64, i32)| {
        let nodes: Vec<_> = tree.ephemerals(id).iter().map(ToString::to_string).collect();
        let name = names.name_of_sim_client((id >> 32).unsigned_abs() as usize - 1);
        format!("  session {} of {name}, {ms} ms, has [{}]", id & 0xffff_ffff, nodes.join(" "))
    };
    Ok([count].into_iter().chain(tree.sessions().map(session)).collect())
}
