//! Commands about nodes and their data.

use std::collections::VecDeque;

use bytes::Bytes;
use pole_client::{delete as delete_request, get_data, open_acl, set_data_at};
use pole_jute::{
    Create2Response, CreateMode, CreateRequest, CreateResponse, CreateTtlRequest, DeleteRequest, ErrorCode,
    ExistsRequest, GetAllChildrenNumberRequest, GetChildren2Request, GetChildrenRequest, GetEphemeralsRequest, Reply,
    Request, Stat, SyncRequest,
};
use serde_json::json;

use super::commands::Given;
use super::output::{data_json, data_text, list_text, stat_json, stat_text};
use super::{Next, Shell, access, check_path, refused, unexpected};
use crate::failure::Failure;

pub(super) fn ls(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let path = given.path(0)?;
    if given.has('R') {
        return ls_recursive(shell, path, given.has('w'));
    }
    let request = Request::GetChildren2(GetChildren2Request { path: path.to_owned(), watch: given.has('w') });
    let reply = shell.ask(path, request)?;
    let Reply::GetChildren2(mut reply) = reply else { return Err(unexpected(&reply)) };
    reply.children.sort();
    let stat = given.has('s').then_some(&reply.stat);
    let text = || with_stat(list_text(&reply.children), stat);
    shell.out.result(text, || json!({"path": path, "children": reply.children, "stat": stat.map(stat_json)}))?;
    Ok(Next::Line)
}

/// Prints a node, then the children of each node, then what is below each of them.
fn ls_recursive(shell: &Shell, path: &str, watch: bool) -> Result<Next, Failure> {
    let print = |path: &str| shell.out.result(|| path.to_owned(), || json!({ "path": path }));
    // A node that does not exist is an error; one below it that is gone meanwhile is not.
    shell.ask(path, get_data(path, watch))?;
    print(path)?;
    let mut stack = vec![path.to_owned()];
    while let Some(parent) = stack.pop() {
        let request = Request::GetChildren(GetChildrenRequest { path: parent.clone(), watch });
        let children = children_of(&parent, shell.ask_all(vec![request])?)?;
        children.iter().try_for_each(|child| print(child))?;
        stack.extend(children.into_iter().rev());
    }
    Ok(Next::Line)
}

/// The paths of the children, sorted; none if the node does not exist.
fn children_of(parent: &str, replies: Vec<Result<Reply, ErrorCode>>) -> Result<Vec<String>, Failure> {
    match replies.into_iter().next() {
        Some(Ok(Reply::GetChildren(mut reply))) => {
            reply.children.sort();
            Ok(reply.children.iter().map(|name| child(parent, name)).collect())
        }
        Some(Ok(other)) => Err(unexpected(&other)),
        Some(Err(ErrorCode::NoNode)) | None => Ok(Vec::new()),
        Some(Err(code)) => Err(refused(code, parent)),
    }
}

fn child(parent: &str, name: &str) -> String {
    if parent == "/" { format!("/{name}") } else { format!("{parent}/{name}") }
}

fn with_stat(text: String, stat: Option<&Stat>) -> String {
    stat.map_or(text.clone(), |stat| format!("{text}\n{}", stat_text(stat)))
}

pub(super) fn get(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let path = given.path(0)?;
    let reply = shell.ask(path, get_data(path, given.has('w')))?;
    let Reply::GetData(reply) = reply else { return Err(unexpected(&reply)) };
    let (data, stat) = (reply.data.as_ref(), given.has('s').then_some(&reply.stat));
    let text = || with_stat(data_text(data), stat);
    shell.out.result(text, || json!({"path": path, "data": data_json(data), "stat": stat.map(stat_json)}))?;
    Ok(Next::Line)
}

pub(super) fn set(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let path = given.path(0)?;
    let data = given.word(1).unwrap_or_default();
    let reply = shell.ask(path, set_data_at(path, data.as_bytes(), given.version()?))?;
    let Reply::SetData(reply) = reply else { return Err(unexpected(&reply)) };
    print_stat(shell, path, &reply.stat, given.has('s'))
}

/// Prints the new metadata if they were asked for; in JSON always.
pub(super) fn print_stat(shell: &Shell, path: &str, stat: &Stat, is_wanted: bool) -> Result<Next, Failure> {
    if is_wanted || shell.out.is_json() {
        shell.out.result(|| stat_text(stat), || json!({"path": path, "stat": stat_json(stat)}))?;
    }
    Ok(Next::Line)
}

pub(super) fn stat(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let path = given.path(0)?;
    let reply = shell.ask(path, Request::Exists(ExistsRequest { path: path.to_owned(), watch: given.has('w') }))?;
    let Reply::Exists(reply) = reply else { return Err(unexpected(&reply)) };
    print_stat(shell, path, &reply.stat, true)
}

pub(super) fn create(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let path = given.word(0).unwrap_or_default();
    let is_sequential = given.has('s');
    // The path of a sequential node may end with a slash: its name is the number alone.
    check_path(if is_sequential && path.len() > 1 { path.trim_end_matches('/') } else { path })?;
    let data = given.word(1).map(|data| Bytes::copy_from_slice(data.as_bytes()));
    let acl = given.word(2).map_or_else(|| Ok(open_acl()), access::parse_acl)?;
    let ttl: Option<i64> = given.number('t')?;
    let mode = mode(is_sequential, given.has('e'), given.has('c'), ttl)?;
    let (path, flags) = (path.to_owned(), mode.number());
    let request = match (mode, ttl) {
        (CreateMode::Container, _) => Request::CreateContainer(CreateRequest { path: path.clone(), data, acl, flags }),
        (_, Some(ttl)) => Request::CreateTtl(CreateTtlRequest { path: path.clone(), data, acl, flags, ttl }),
        (_, None) => Request::Create(CreateRequest { path: path.clone(), data, acl, flags }),
    };
    let reply = shell.ask(&path, request)?;
    let (Reply::Create(CreateResponse { path: created })
    | Reply::CreateContainer(Create2Response { path: created, .. })
    | Reply::CreateTtl(Create2Response { path: created, .. })) = &reply
    else {
        return Err(unexpected(&reply));
    };
    shell.out.result(|| format!("Created {created}"), || json!({ "created": created }))?;
    Ok(Next::Line)
}

fn mode(sequential: bool, ephemeral: bool, container: bool, ttl: Option<i64>) -> Result<CreateMode, Failure> {
    if container && (sequential || ephemeral) {
        let text = "-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential.";
        return Err(Failure::bad_input(text));
    }
    if let Some(ttl) = ttl {
        if ephemeral {
            return Err(Failure::bad_input("TTLs cannot be used with Ephemeral znodes"));
        }
        if container {
            return Err(Failure::bad_input("TTLs cannot be used with Container znodes"));
        }
        if !(1..=TTL_MS_MAX).contains(&ttl) {
            return Err(Failure::bad_input(format!("ttl must be positive and cannot be larger than: {TTL_MS_MAX}")));
        }
    }
    Ok(match (container, ttl.is_some(), ephemeral, sequential) {
        (true, ..) => CreateMode::Container,
        (_, true, _, false) => CreateMode::PersistentWithTtl,
        (_, true, _, true) => CreateMode::PersistentSequentialWithTtl,
        (_, _, true, true) => CreateMode::EphemeralSequential,
        (_, _, true, false) => CreateMode::Ephemeral,
        (_, _, false, true) => CreateMode::PersistentSequential,
        (_, _, false, false) => CreateMode::Persistent,
    })
}

pub(super) fn delete(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let path = given.path(0)?;
    let request = Request::Delete(DeleteRequest { path: path.to_owned(), version: given.version()? });
    shell.ask(path, request)?;
    print_done(shell, || json!({ "deleted": path }))
}

/// Prints a result in JSON only: the text says nothing about success.
pub(super) fn print_done(shell: &Shell, json: impl FnOnce() -> serde_json::Value) -> Result<Next, Failure> {
    if shell.out.is_json() {
        shell.out.result(String::new, json)?;
    }
    Ok(Next::Line)
}

pub(super) fn delete_all(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let path = given.path(0)?;
    if path == "/" {
        return Err(Failure::bad_input("the root cannot be deleted; name a node below it"));
    }
    let batch = given.number::<usize>('b')?.unwrap_or(DELETE_BATCH).clamp(1, DELETE_BATCH);
    shell.ask(path, Request::Exists(ExistsRequest { path: path.to_owned(), watch: false }))?;
    let all = subtree(shell, path)?;
    let mut failed = None;
    // Children before their parents.
    for paths in all.rchunks(batch) {
        let requests = paths.iter().rev().map(|path| delete_request(path)).collect();
        let replies = shell.ask_all(requests)?;
        for (path, reply) in paths.iter().rev().zip(replies) {
            match reply {
                Ok(_) | Err(ErrorCode::NoNode) => {}
                Err(code) => failed = failed.or(Some(refused(code, path))),
            }
        }
    }
    match failed {
        Some(why) => Err(Failure::failed(format!("Failed to delete some node(s) in the subtree! First: {why}"))),
        None => print_done(shell, || json!({"deleted": path, "nodes": all.len()})),
    }
}

/// A node and everything below it, parents first.
pub(super) fn subtree(shell: &Shell, path: &str) -> Result<Vec<String>, Failure> {
    let mut all = vec![path.to_owned()];
    let mut queue = VecDeque::from([path.to_owned()]);
    while !queue.is_empty() {
        let parents: Vec<String> = queue.drain(..queue.len().min(DELETE_BATCH)).collect();
        let requests = parents.iter().map(|path| pole_client::children(path)).collect();
        for (parent, reply) in parents.iter().zip(shell.ask_all(requests)?) {
            let children = children_of(parent, vec![reply])?;
            queue.extend(children.iter().cloned());
            all.extend(children);
        }
    }
    Ok(all)
}

pub(super) fn all_children_number(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let path = given.path(0)?;
    let request = Request::GetAllChildrenNumber(GetAllChildrenNumberRequest { path: path.to_owned() });
    let reply = shell.ask(path, request)?;
    let Reply::GetAllChildrenNumber(reply) = reply else { return Err(unexpected(&reply)) };
    let number = reply.total_number;
    shell.out.result(|| number.to_string(), || json!({"path": path, "number": number}))?;
    Ok(Next::Line)
}

pub(super) fn ephemerals(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let path = if given.word(0).is_some() { given.path(0)? } else { "/" };
    let request = Request::GetEphemerals(GetEphemeralsRequest { prefix_path: Some(path.to_owned()) });
    let reply = shell.ask(path, request)?;
    let Reply::GetEphemerals(mut reply) = reply else { return Err(unexpected(&reply)) };
    reply.ephemerals.sort();
    shell.out.result(|| list_text(&reply.ephemerals), || json!({ "ephemerals": reply.ephemerals }))?;
    Ok(Next::Line)
}

pub(super) fn sync(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let path = given.path(0)?;
    shell.ask(path, Request::Sync(SyncRequest { path: path.to_owned() }))?;
    shell.out.result(|| "Sync is OK".to_owned(), || json!({ "synced": path }))?;
    Ok(Next::Line)
}

pub(super) fn config(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let reply = shell.ask(CONFIG, get_data(CONFIG, given.has('w')))?;
    let Reply::GetData(reply) = reply else { return Err(unexpected(&reply)) };
    let (data, stat) = (reply.data.as_ref(), given.has('s').then_some(&reply.stat));
    let text = data.map_or_else(String::new, |_| data_text(data));
    let shown = if given.has('c') { client_addresses(&text) } else { text };
    let text = || with_stat(shown.clone(), stat);
    shell.out.result(text, || json!({"config": shown, "stat": stat.map(stat_json)}))?;
    Ok(Next::Line)
}

/// The version and the addresses for clients: `0 host:port,host:port`.
fn client_addresses(config: &str) -> String {
    let version = config.lines().find_map(|line| line.strip_prefix("version=")).unwrap_or_default();
    let servers = config.lines().filter(|line| line.starts_with("server."));
    let addresses: Vec<&str> = servers.map(|line| line.split_once(';').map_or("", |(_, client)| client)).collect();
    format!("{version} {}", addresses.join(","))
}

const CONFIG: &str = "/zookeeper/config";

/// As much as the owner field of a node can hold.
const TTL_MS_MAX: i64 = 0xff_ffff_ffff;

/// Requests in flight at once: many, and still little memory.
const DELETE_BATCH: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_nodes_that_exclude_each_other_are_refused() {
        assert_eq!(mode(true, true, false, None).unwrap(), CreateMode::EphemeralSequential);
        assert_eq!(mode(true, false, false, Some(5)).unwrap(), CreateMode::PersistentSequentialWithTtl);
        assert!(mode(true, false, true, None).is_err());
        assert!(mode(false, true, false, Some(5)).is_err());
        assert!(mode(false, false, true, Some(5)).is_err());
        assert!(mode(false, false, false, Some(0)).is_err());
    }

    #[test]
    fn addresses_for_clients_come_after_the_semicolon() {
        let config = "server.1=a:1:2:participant;a:3\nserver.2=b:1:2:participant\nversion=100000000";
        assert_eq!(client_addresses(config), "100000000 a:3,");
        assert_eq!(client_addresses(""), " ");
    }
}
