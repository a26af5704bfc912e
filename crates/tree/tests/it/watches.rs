//! Watches: which connections get which events, how often, and what `wchs` counts.

use pole_jute::{
    AddWatchMode, AddWatchRequest, CheckWatchesRequest, CreateMode, CreateRequest, ErrorCode, EventType, ExistsRequest,
    GetChildrenRequest, GetDataRequest, MultiOp, Perms, RemoveWatchesRequest, Request, SetWatches, SetWatches2,
    WatcherType,
};
use std::sync::Arc;

use pole_tree::{Watcher, WatchesSummary};

use crate::server::{HERE, Server, acl, id, new_node};

use EventType::{NodeChildrenChanged, NodeCreated, NodeDataChanged, NodeDeleted};

fn get_data(path: &str) -> Request {
    Request::GetData(GetDataRequest { path: path.into(), watch: true })
}

fn exists(path: &str) -> Request {
    Request::Exists(ExistsRequest { path: path.into(), watch: true })
}

fn get_children(path: &str) -> Request {
    Request::GetChildren(GetChildrenRequest { path: path.into(), watch: true })
}

fn add(path: &str, mode: AddWatchMode) -> Request {
    Request::AddWatch(AddWatchRequest { path: path.into(), mode })
}

fn check(path: &str, kind: WatcherType) -> Request {
    Request::CheckWatches(CheckWatchesRequest { path: path.into(), kind })
}

fn remove(path: &str, kind: WatcherType) -> Request {
    Request::RemoveWatches(RemoveWatchesRequest { path: path.into(), kind })
}

/// A server with a node `/p` and no pending events.
fn server() -> Server {
    let mut server = Server::new();
    server.create("/p", CreateMode::Persistent);
    server
}

fn drain_events(server: &mut Server) -> Vec<(EventType, String)> {
    server.events().into_iter().map(|(_, kind, path)| (kind, path)).collect()
}

fn event(kind: EventType, path: &str) -> (EventType, String) {
    (kind, path.into())
}

#[test]
fn a_data_watch_fires_once() {
    let mut server = server();
    server.read(&get_data("/p")).unwrap();
    server.set("/p", b"1").unwrap();
    server.set("/p", b"2").unwrap();
    assert_eq!(drain_events(&mut server), [event(NodeDataChanged, "/p")]);
    assert_eq!(server.watches.borrow().count(), 0);
}

#[test]
fn a_watch_on_a_missing_node_fires_when_it_is_created() {
    let mut server = server();
    assert_eq!(server.read(&exists("/p/x")), Err(ErrorCode::NoNode));
    assert_eq!(server.read(&get_data("/p/y")), Err(ErrorCode::NoNode));
    server.create("/p/x", CreateMode::Persistent);
    server.create("/p/y", CreateMode::Persistent);
    assert_eq!(drain_events(&mut server), [event(NodeCreated, "/p/x")]);
}

#[test]
fn a_child_watch_sees_children_come_and_go_and_not_their_data() {
    let mut server = server();
    server.read(&get_children("/p")).unwrap();
    server.create("/p/a", CreateMode::Persistent);
    assert_eq!(drain_events(&mut server), [event(NodeChildrenChanged, "/p")]);
    server.read(&get_children("/p")).unwrap();
    server.set("/p/a", b"").unwrap();
    server.set("/p", b"").unwrap();
    assert_eq!(drain_events(&mut server), []);
    server.delete("/p/a").unwrap();
    assert_eq!(drain_events(&mut server), [event(NodeChildrenChanged, "/p")]);
}

#[test]
fn a_deletion_is_reported_once_for_a_data_and_a_child_watch() {
    let mut server = server();
    server.read(&get_data("/p")).unwrap();
    server.read(&get_children("/p")).unwrap();
    server.delete("/p").unwrap();
    assert_eq!(drain_events(&mut server), [event(NodeDeleted, "/p")]);
    assert_eq!(server.watches.borrow().summary(), WatchesSummary::default());
}

#[test]
fn the_event_of_the_parent_follows_that_of_the_child() {
    let mut server = server();
    server.read(&get_children("/")).unwrap();
    server.read(&get_data("/p")).unwrap();
    server.delete("/p").unwrap();
    assert_eq!(drain_events(&mut server), [event(NodeDeleted, "/p"), event(NodeChildrenChanged, "/")]);
}

#[test]
fn a_persistent_watch_stays_and_sees_node_and_children() {
    let mut server = server();
    server.read(&add("/p", AddWatchMode::Persistent)).unwrap();
    server.set("/p", b"").unwrap();
    server.create("/p/a", CreateMode::Persistent);
    server.set("/p/a", b"").unwrap();
    server.delete("/p/a").unwrap();
    server.delete("/p").unwrap();
    server.create("/p", CreateMode::Persistent);
    let expected = [
        event(NodeDataChanged, "/p"),
        event(NodeChildrenChanged, "/p"),
        event(NodeChildrenChanged, "/p"),
        event(NodeDeleted, "/p"),
        event(NodeCreated, "/p"),
    ];
    assert_eq!(drain_events(&mut server), expected);
}

#[test]
fn a_recursive_watch_sees_every_descendant_and_never_children_changed() {
    let mut server = server();
    server.read(&add("/", AddWatchMode::PersistentRecursive)).unwrap();
    server.create("/p/a", CreateMode::Persistent);
    server.create("/p/a/b", CreateMode::Persistent);
    server.set("/p/a/b", b"").unwrap();
    server.delete("/p/a/b").unwrap();
    let expected = [
        event(NodeCreated, "/p/a"),
        event(NodeCreated, "/p/a/b"),
        event(NodeDataChanged, "/p/a/b"),
        event(NodeDeleted, "/p/a/b"),
    ];
    assert_eq!(drain_events(&mut server), expected);
}

#[test]
fn a_recursive_watch_tells_of_no_node_that_the_caller_may_not_read() {
    let mut server = server();
    server.read(&add("/", AddWatchMode::PersistentRecursive)).unwrap();
    let secret = CreateRequest {
        acl: vec![acl(Perms::ALL, "digest", "u:h")],
        ..new_node("/secret", b"", CreateMode::Persistent)
    };
    server.write(&Request::Create(secret)).unwrap();
    assert_eq!(drain_events(&mut server), []);
    server.caller.ids.push(id("digest", "u:h"));
    server.watches.get_mut().identify(HERE, &server.caller);
    server.set("/secret", b"").unwrap();
    assert_eq!(drain_events(&mut server), [event(NodeDataChanged, "/secret")]);
}

#[test]
fn modes_combine_and_a_connection_gets_one_event_per_change() {
    let mut server = server();
    server.read(&add("/p", AddWatchMode::Persistent)).unwrap();
    server.read(&add("/p", AddWatchMode::PersistentRecursive)).unwrap();
    server.read(&add("/", AddWatchMode::PersistentRecursive)).unwrap();
    server.read(&get_data("/p")).unwrap();
    server.read(&get_children("/p")).unwrap();
    server.set("/p", b"").unwrap();
    assert_eq!(drain_events(&mut server), [event(NodeDataChanged, "/p")]);
    server.create("/p/a", CreateMode::Persistent);
    assert_eq!(drain_events(&mut server), [event(NodeCreated, "/p/a"), event(NodeChildrenChanged, "/p")]);
    server.read(&remove("/p", WatcherType::Persistent)).unwrap();
    server.create("/p/b", CreateMode::Persistent);
    assert_eq!(drain_events(&mut server), [event(NodeCreated, "/p/b")]);
}

#[test]
fn every_part_of_a_multi_fires_watches() {
    let mut server = server();
    server.read(&get_children("/p")).unwrap();
    server.read(&exists("/p/a")).unwrap_err();
    let op = |path: &str| MultiOp::Create(new_node(path, b"", CreateMode::Persistent));
    server.multi(vec![op("/p/a"), op("/p/b")]);
    assert_eq!(drain_events(&mut server), [event(NodeCreated, "/p/a"), event(NodeChildrenChanged, "/p")]);
}

#[test]
fn a_failed_request_fires_no_watch() {
    let mut server = server();
    server.read(&add("/", AddWatchMode::PersistentRecursive)).unwrap();
    server.delete("/none").unwrap_err();
    let op = |path: &str| MultiOp::Create(new_node(path, b"", CreateMode::Persistent));
    server.multi(vec![op("/p/a"), op("/p")]);
    assert_eq!(drain_events(&mut server), []);
}

#[test]
fn closing_a_session_fires_the_watches_on_its_nodes() {
    let mut server = server();
    server.create("/p/e", CreateMode::Ephemeral);
    server.read(&get_children("/p")).unwrap();
    server.read(&get_data("/p/e")).unwrap();
    server.write(&Request::CloseSession).unwrap();
    assert_eq!(drain_events(&mut server), [event(NodeDeleted, "/p/e"), event(NodeChildrenChanged, "/p")]);
}

#[test]
fn a_closed_connection_gets_no_more_events() {
    let mut server = server();
    server.read_at(Watcher(1), &get_data("/p")).unwrap();
    server.read_at(Watcher(2), &get_data("/p")).unwrap();
    server.read_at(Watcher(1), &add("/", AddWatchMode::PersistentRecursive)).unwrap();
    server.watches.get_mut().forget(Watcher(1));
    server.set("/p", b"").unwrap();
    assert_eq!(server.events(), [(2, NodeDataChanged, "/p".into())]);
    assert_eq!(server.watches.borrow().summary(), WatchesSummary::default());
}

#[test]
fn the_watches_of_a_connection_that_ended_are_removed_in_steps() {
    let mut server = server();
    for number in 0..5_000 {
        server.read_at(Watcher(1), &exists(&format!("/{number}"))).unwrap_err();
    }
    server.read_at(Watcher(1), &get_data("/p")).unwrap();
    server.read_at(Watcher(2), &exists("/4999")).unwrap_err();
    server.watches.get_mut().forget(Watcher(1));
    assert!(server.watches.borrow().count() > 4_000, "one call removes a few");
    server.set("/p", b"").unwrap();
    server.create("/4999", CreateMode::Persistent);
    assert_eq!(server.events(), [(2, NodeCreated, "/4999".into())], "an ended connection gets no events");
    let mut steps = 0;
    while server.watches.get_mut().sweep(500) {
        steps += 1;
        assert!(steps < 11, "each step removes what it may");
    }
    assert_eq!(server.watches.borrow().summary(), WatchesSummary::default());
    assert_eq!(server.watches.borrow().count(), 0);
}

#[test]
fn missed_events_are_reported_before_the_other_watches_are_set_again() {
    let mut server = server();
    server.create("/same", CreateMode::Persistent);
    let seen = server.tree.last_zxid();
    server.set("/p", b"").unwrap();
    server.create("/new", CreateMode::Persistent);
    server.create("/p/child", CreateMode::Persistent);
    let paths = |list: &[&str]| list.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
    let request = SetWatches {
        relative_zxid: seen,
        data_watches: paths(&["/p", "/gone", "/same"]),
        exist_watches: paths(&["/new", "/later"]),
        child_watches: paths(&["/p", "/gone", "/same"]),
    };
    server.read(&Request::SetWatches(request)).unwrap();
    let missed = [
        event(NodeDataChanged, "/p"),
        event(NodeDeleted, "/gone"),
        event(NodeCreated, "/new"),
        event(NodeChildrenChanged, "/p"),
        event(NodeDeleted, "/gone"),
    ];
    assert_eq!(drain_events(&mut server), missed);
    server.create("/later", CreateMode::Persistent);
    server.set("/same", b"").unwrap();
    server.create("/same/x", CreateMode::Persistent);
    let now = [event(NodeCreated, "/later"), event(NodeDataChanged, "/same"), event(NodeChildrenChanged, "/same")];
    assert_eq!(drain_events(&mut server), now);
}

#[test]
fn persistent_watches_are_set_again_without_an_event() {
    let mut server = server();
    let request = SetWatches2 {
        relative_zxid: 0,
        data_watches: vec![],
        exist_watches: vec![],
        child_watches: vec![],
        persistent_watches: vec!["/p".into()],
        persistent_recursive_watches: vec!["/".into()],
    };
    server.read(&Request::SetWatches2(request)).unwrap();
    assert_eq!(drain_events(&mut server), []);
    server.create("/p/a", CreateMode::Persistent);
    assert_eq!(drain_events(&mut server), [event(NodeCreated, "/p/a"), event(NodeChildrenChanged, "/p")]);
}

#[test]
fn watches_are_checked_and_removed_by_kind() {
    let mut server = server();
    server.read(&get_data("/p")).unwrap();
    assert!(server.read(&check("/p", WatcherType::Data)).is_ok());
    assert_eq!(server.read(&check("/p", WatcherType::Children)), Err(ErrorCode::NoWatcher));
    assert_eq!(server.read_at(Watcher(9), &check("/p", WatcherType::Any)), Err(ErrorCode::NoWatcher));
    assert_eq!(server.read(&remove("/p", WatcherType::Children)), Err(ErrorCode::NoWatcher));
    assert!(server.read(&remove("/p", WatcherType::Any)).is_ok());
    assert_eq!(server.read(&remove("/p", WatcherType::Any)), Err(ErrorCode::NoWatcher));
    server.set("/p", b"").unwrap();
    assert_eq!(drain_events(&mut server), []);
}

#[test]
fn wchs_counts_a_data_and_a_child_watch_of_one_connection_as_one() {
    let mut server = server();
    server.read(&get_data("/p")).unwrap();
    server.read(&get_children("/p")).unwrap();
    server.read_at(Watcher(9), &get_data("/p")).unwrap();
    let watches = server.watches.borrow();
    assert_eq!(watches.summary(), WatchesSummary { connections: 2, paths: 1, watches: 2 });
    assert_eq!(watches.count(), 3);
    assert_eq!(watches.after(None, 10), [(HERE, "/p".into()), (Watcher(9), "/p".into())]);
}

#[test]
fn a_list_of_watches_is_read_in_parts() {
    let mut server = server();
    for (watcher, paths) in [(Watcher(3), vec!["/p"]), (Watcher(5), vec!["/a", "/b", "/p"]), (Watcher(9), vec!["/b"])] {
        paths.iter().for_each(|path| drop(server.read_at(watcher, &exists(path))));
    }
    for most in 1..6 {
        let (mut all, mut last) = (Vec::new(), None);
        loop {
            let part = server
                .watches
                .borrow()
                .after(last.as_ref().map(|(watcher, path): &(_, Arc<str>)| (*watcher, &**path)), most);
            assert!(part.len() <= most);
            let Some(end) = part.last() else { break };
            last = Some(end.clone());
            all.extend(part.into_iter().map(|(Watcher(watcher), path)| format!("{watcher}{path}")));
        }
        assert_eq!(all, ["3/p", "5/a", "5/b", "5/p", "9/b"], "{most} at a time");
    }
}

#[test]
fn a_read_that_fails_sets_no_watch() {
    let mut server = server();
    server.read(&get_children("/none")).unwrap_err();
    server.read(&get_data("/none")).unwrap_err();
    assert_eq!(server.watches.borrow().count(), 0);
}
