//! create, create2, createContainer, createTTL.

use pole_jute::{CreateMode, CreateRequest, ErrorCode, Reply, Request, Txn};
use pole_tree::{RequestOrigin, Rules, WriteRequest};

use crate::server::{ALICE, Server, delete, new_node, new_ttl};

fn create(path: &str, mode: CreateMode) -> Request {
    Request::Create(new_node(path, b"", mode))
}

#[test]
fn a_new_node_has_the_stat_that_apache_gives_it() {
    let mut server = Server::new();
    server.wall_ms = 77;
    let Ok(Reply::Create2(created)) = server.write(&Request::Create2(new_node("/a", b"data", CreateMode::Ephemeral)))
    else {
        panic!("a create that works")
    };
    let zxid = server.tree.last_zxid();
    assert_eq!(created.path, "/a");
    assert_eq!((created.stat.czxid, created.stat.mzxid, created.stat.pzxid), (zxid, zxid, zxid));
    assert_eq!((created.stat.ctime, created.stat.mtime), (77, 77));
    assert_eq!((created.stat.version, created.stat.cversion, created.stat.aversion), (0, 0, 0));
    assert_eq!((created.stat.ephemeral_owner, created.stat.data_length), (ALICE, 4));
}

#[test]
fn the_parent_counts_creates_and_deletes() {
    let mut server = Server::new();
    server.create("/p", CreateMode::Persistent);
    server.create("/p/a", CreateMode::Persistent);
    server.create("/p/b", CreateMode::Persistent);
    server.delete("/p/a").unwrap();
    let stat = server.tree.stat("/p").unwrap();
    assert_eq!((stat.cversion, stat.num_children, stat.pzxid), (3, 1, server.tree.last_zxid()));
}

#[test]
fn the_suffix_counts_creates_only() {
    let mut server = Server::new();
    server.create("/p", CreateMode::Persistent);
    for at in 0..3 {
        let path = server.create("/p/s-", CreateMode::PersistentSequential);
        assert_eq!(path, format!("/p/s-{at:010}"));
        server.delete(&path).unwrap();
    }
    assert_eq!(server.tree.stat("/p").unwrap().cversion, 6);
    assert_eq!(server.create("/p/", CreateMode::EphemeralSequential), "/p/0000000003");
}

#[test]
fn sequential_nodes_in_flight_get_different_names() {
    let mut server = Server::new();
    server.create("/p", CreateMode::Persistent);
    let mut name = || {
        let txn = server.send(ALICE, &create("/p/s", CreateMode::PersistentSequential));
        let Txn::Create(txn) = txn else { panic!("{txn:?}") };
        txn.path
    };
    assert_eq!((name(), name()), ("/p/s0000000000".into(), "/p/s0000000001".into()));
}

#[test]
fn an_invalid_create_fails_with_apaches_code() {
    let mut server = Server::new();
    server.create("/p", CreateMode::Persistent);
    server.create("/e", CreateMode::Ephemeral);
    let refused = [
        (create("/p", CreateMode::Persistent), ErrorCode::NodeExists),
        (create("/", CreateMode::Persistent), ErrorCode::NodeExists),
        (create("/none/x", CreateMode::Persistent), ErrorCode::NoNode),
        (create("/e/x", CreateMode::Persistent), ErrorCode::NoChildrenForEphemerals),
        (create("x", CreateMode::Persistent), ErrorCode::BadArguments),
        (create("/p/", CreateMode::Persistent), ErrorCode::BadArguments),
        (create("/p/../q", CreateMode::Persistent), ErrorCode::NoNode),
        (create("/p/..", CreateMode::Persistent), ErrorCode::BadArguments),
        (create("/p/\u{fffd}", CreateMode::Persistent), ErrorCode::BadArguments),
        (create("/p/\0", CreateMode::Persistent), ErrorCode::BadArguments),
        (create("/p/c", CreateMode::Container), ErrorCode::BadArguments),
        (create("/p/t", CreateMode::PersistentWithTtl), ErrorCode::BadArguments),
        (
            Request::Create(CreateRequest { flags: 9, ..new_node("/p/f", b"", CreateMode::Persistent) }),
            ErrorCode::BadArguments,
        ),
        (
            Request::Create(CreateRequest { acl: vec![], ..new_node("/p/f", b"", CreateMode::Persistent) }),
            ErrorCode::InvalidAcl,
        ),
    ];
    for (request, code) in refused {
        assert_eq!(server.write(&request), Err(code), "{request:?}");
    }
}

#[test]
fn null_data_is_not_empty_data() {
    let mut server = Server::new();
    server
        .write(&Request::Create(CreateRequest { data: None, ..new_node("/n", b"", CreateMode::Persistent) }))
        .unwrap();
    server.create("/e", CreateMode::Persistent);
    assert_eq!(server.tree.data("/n"), Some(None));
    assert_eq!(server.tree.data("/e"), Some(Some(&b""[..])));
    assert_eq!(server.tree.stat("/n").unwrap().data_length, 0);
}

#[test]
fn a_container_is_deleted_after_its_last_child_and_not_before() {
    let mut server = Server::new();
    server.write(&Request::CreateContainer(new_node("/c", b"", CreateMode::Container))).unwrap();
    assert_eq!(server.tree.stat("/c").unwrap().ephemeral_owner, 0);
    assert_eq!(server.tree.due(i64::MAX), [""; 0]);
    server.create("/c/x", CreateMode::Persistent);
    assert_eq!(server.tree.due(i64::MAX), [""; 0]);
    server.delete("/c/x").unwrap();
    assert_eq!(server.tree.due(0), ["/c"]);
    let leader_request = RequestOrigin { session: 0, cxid: 0, floor: 0 };
    assert!(matches!(
        server.propose(leader_request, &WriteRequest::delete_container("/c")),
        Some(Txn::DeleteContainer(_))
    ));
    server.settle();
    assert_eq!(server.tree.stat("/c"), None);
}

#[test]
fn a_node_with_a_ttl_is_due_after_that_time_without_changes() {
    let mut server = Server::new();
    server.wall_ms = 1000;
    server.write(&new_ttl("/t", CreateMode::PersistentWithTtl, 50)).unwrap();
    assert_eq!(server.tree.stat("/t").unwrap().ephemeral_owner, 0);
    assert_eq!(server.tree.due(1050), [""; 0]);
    assert_eq!(server.tree.due(1051), ["/t"]);
    server.wall_ms = 1040;
    server.set("/t", b"alive").unwrap();
    assert_eq!(server.tree.due(1051), [""; 0]);
}

#[test]
fn a_node_that_was_written_after_the_leader_found_it_due_stays() {
    let mut server = Server::new();
    server.wall_ms = 1000;
    server.write(&new_ttl("/t", CreateMode::PersistentWithTtl, 50)).unwrap();
    server.wall_ms = 2000;
    assert_eq!(server.tree.due(2000), ["/t"]);
    // In several calls: no node is examined twice, and the last call reports the end.
    let (first, next) = server.tree.due_from(2000, 0, 0);
    assert_eq!(first, [""; 0]);
    assert_eq!(server.tree.due_from(2000, next.expect("more"), 1), (vec!["/t".to_owned()], None));
    server.send(ALICE, &crate::server::set_data("/t", b"alive", -1));
    let leader_request = RequestOrigin { session: 0, cxid: 0, floor: 0 };
    let refused = server.propose(leader_request, &WriteRequest::delete_container("/t"));
    assert_eq!(refused, Some(Txn::Error(ErrorCode::BadVersion.into())));
}

#[test]
fn a_container_that_got_a_child_after_the_leader_found_it_due_stays() {
    let mut server = Server::new();
    server.write(&Request::CreateContainer(new_node("/c", b"", CreateMode::Container))).unwrap();
    server.create("/c/x", CreateMode::Persistent);
    server.delete("/c/x").unwrap();
    assert_eq!(server.tree.due(0), ["/c"]);
    server.send(ALICE, &Request::Create(new_node("/c/y", b"", CreateMode::Persistent)));
    let leader_request = RequestOrigin { session: 0, cxid: 0, floor: 0 };
    let refused = server.propose(leader_request, &WriteRequest::delete_container("/c"));
    assert_eq!(refused, Some(Txn::Error(ErrorCode::NotEmpty.into())));
}

#[test]
fn the_leader_deletes_only_containers_and_nodes_with_a_ttl() {
    let mut server = Server::new();
    server.create("/p", CreateMode::Persistent);
    server.create("/e", CreateMode::Ephemeral);
    let leader_request = RequestOrigin { session: 0, cxid: 0, floor: 0 };
    for path in ["/p", "/e"] {
        let refused = server.propose(leader_request, &WriteRequest::delete_container(path));
        assert_eq!(refused, Some(Txn::Error(ErrorCode::BadVersion.into())));
    }
    let refused = server.propose(leader_request, &WriteRequest::delete_container("/zookeeper"));
    assert_eq!(refused, Some(Txn::Error(ErrorCode::BadArguments.into())));
}

#[test]
fn a_ttl_must_be_in_range_and_enabled() {
    let mut server = Server::new();
    for ttl in [0, -1, 1 << 40] {
        let refused = server.write(&new_ttl("/t", CreateMode::PersistentWithTtl, ttl));
        assert_eq!(refused, Err(ErrorCode::BadArguments), "{ttl}");
    }
    assert_eq!(server.write(&new_ttl("/t", CreateMode::Persistent, 5)), Err(ErrorCode::BadArguments));
    server.write(&new_ttl("/t-", CreateMode::PersistentSequentialWithTtl, (1 << 40) - 1)).unwrap();
    let mut server = Server::with(Rules::default());
    let refused = server.write(&new_ttl("/t", CreateMode::PersistentWithTtl, 5));
    assert_eq!(refused, Err(ErrorCode::Unimplemented));
}

#[test]
fn the_counter_of_sequential_nodes_wraps_without_a_clash() {
    let mut server = Server::new();
    server.create("/p", CreateMode::Persistent);
    // A log of Apache may set the counter to any value.
    let txn = pole_jute::CreateTxn {
        path: "/p/x".into(),
        data: None,
        acl: crate::server::open(),
        ephemeral: false,
        parent_cversion: i32::MAX,
    };
    crate::replay::replay(&mut server, Txn::Create(txn));
    assert_eq!(server.create("/p/s", CreateMode::PersistentSequential), "/p/s2147483647");
    assert_eq!(server.create("/p/s", CreateMode::PersistentSequential), "/p/s-2147483648");
    assert_eq!(server.create("/p/s", CreateMode::PersistentSequential), "/p/s-2147483647");
}

#[test]
fn a_client_cannot_request_delete_container() {
    let mut server = Server::new();
    server.write(&Request::CreateContainer(new_node("/c", b"", CreateMode::Container))).unwrap();
    let request = Request::DeleteContainer(pole_jute::DeleteContainerRequest { path: "/c".into() });
    assert_eq!(server.write(&request), Err(ErrorCode::Unimplemented));
    server.write(&delete("/c", -1)).unwrap();
}
