//! Limits on the cost of a request, which are checked when it is prepared, never when it is applied.

use pole_jute::{
    CreateMode, CreateRequest, ErrorCode, ExistsRequest, MultiOp, MultiRequest, Perms, Request, SetWatches, Txn,
};
use pole_tree::{AuthSettings, Rules, authenticate};

use crate::server::{ALICE, Server, acl, new_node};

fn create(path: &str, mode: CreateMode) -> Request {
    Request::Create(new_node(path, b"", mode))
}

#[test]
fn a_path_over_the_limit_is_refused_and_one_that_exists_is_served() {
    let long = format!("/{}", "x".repeat(Rules::DEFAULT.path_bytes_max - 1));
    let longer = format!("{long}x");
    let mut server = Server::new();
    server.create(&long, CreateMode::Persistent);
    assert_eq!(server.write(&create(&longer, CreateMode::Persistent)), Err(ErrorCode::BadArguments));
    // The suffix of a sequential node counts too.
    let almost = &long[..long.len() - 9];
    assert_eq!(server.write(&create(almost, CreateMode::PersistentSequential)), Err(ErrorCode::BadArguments));

    let mut before = Server::with(Rules { path_bytes_max: usize::MAX, ..Rules::default() });
    before.create(&longer, CreateMode::Persistent);
    let tree = pole_tree::Tree::restore(Rules::default(), &before.snapshot()).expect("a snapshot");
    assert!(tree.stat(&longer).is_some(), "what the history holds is kept");
}

#[test]
fn a_path_that_is_too_deep_is_refused_and_one_that_exists_is_served() {
    let rules = Rules { depth_max: 3, ..Rules::default() };
    let mut server = Server::with(rules);
    for path in ["/a", "/a/b", "/a/b/c"] {
        server.create(path, CreateMode::Persistent);
    }
    assert_eq!(server.write(&create("/a/b/c/d", CreateMode::Persistent)), Err(ErrorCode::BadArguments));

    let mut before = Server::new();
    for path in ["/a", "/a/b", "/a/b/c", "/a/b/c/d"] {
        before.create(path, CreateMode::Persistent);
    }
    let tree = pole_tree::Tree::restore(rules, &before.snapshot()).expect("a snapshot");
    assert!(tree.stat("/a/b/c/d").is_some(), "what the history holds is kept");
}

#[test]
fn the_number_of_ephemeral_nodes_of_a_session_is_limited() {
    let mut server = Server::with(Rules { ephemerals_max: 3, ..Rules::default() });
    for number in 0..3 {
        server.create(&format!("/e{number}"), CreateMode::Ephemeral);
    }
    assert_eq!(server.write(&create("/more", CreateMode::Ephemeral)), Err(ErrorCode::QuotaExceeded));
    server.create("/other", CreateMode::Persistent);
}

#[test]
fn a_long_path_counts_as_several_watches() {
    let mut server = Server::with(Rules { watches_max: 10, ..Rules::default() });
    let watch = |path: &str| Request::Exists(ExistsRequest { path: path.into(), watch: true });
    let long = format!("/{}", "x".repeat(1_500));
    assert_eq!(server.read(&watch(&long)), Err(ErrorCode::NoNode), "the watch is set");
    for path in ["/1", "/2", "/3", "/4"] {
        assert_eq!(server.read(&watch(path)), Err(ErrorCode::NoNode), "{path}");
    }
    assert_eq!(server.read(&watch("/5")), Err(ErrorCode::QuotaExceeded));
    server.create(&long, CreateMode::Persistent);
    for path in ["/5", "/6", "/7", "/8", "/9", "/10"] {
        assert_eq!(server.read(&watch(path)), Err(ErrorCode::NoNode), "{path}: the long one has fired");
    }
    assert_eq!(server.read(&watch("/11")), Err(ErrorCode::QuotaExceeded));
}

#[test]
fn a_connection_watches_so_many_paths_and_no_more() {
    let exists = |path: &str| Request::Exists(ExistsRequest { path: path.into(), watch: true });
    let set_watches = |paths: &[&str]| {
        Request::SetWatches(SetWatches {
            relative_zxid: 0,
            data_watches: Vec::new(),
            exist_watches: paths.iter().map(|path| (*path).to_owned()).collect(),
            child_watches: Vec::new(),
        })
    };
    let mut server = Server::with(Rules { watches_max: 3, ..Rules::default() });
    assert_eq!(server.read(&set_watches(&["/1", "/2", "/3", "/4"])), Err(ErrorCode::QuotaExceeded));
    assert!(server.read(&set_watches(&["/1", "/2"])).is_ok());
    assert_eq!(server.read(&exists("/3")), Err(ErrorCode::NoNode), "its watch is set");
    assert_eq!(server.read(&exists("/4")), Err(ErrorCode::QuotaExceeded));
    assert_eq!(server.read(&exists("/3")), Err(ErrorCode::NoNode), "it is watched already");
    assert_eq!(server.watches.borrow().count(), 3);
    server.create("/3", CreateMode::Persistent);
    assert_eq!(server.read(&exists("/4")), Err(ErrorCode::NoNode), "one has fired");
}

#[test]
fn a_closing_session_with_many_nodes_does_not_list_them_and_they_are_deleted_all_the_same() {
    let mut server = Server::new();
    let name = "n".repeat(1_000);
    for number in 0..400 {
        server.create(&format!("/{name}{number}"), CreateMode::Ephemeral);
    }
    let txn = server.send(ALICE, &Request::CloseSession);
    assert!(matches!(txn, Txn::CloseSession(None)), "{} bytes of paths", 400 * 1_000);
    // Requests in flight know that the nodes will be gone.
    server.settle();
    assert_eq!((server.tree.ephemerals_count(), server.tree.sessions().count()), (0, 0));

    let mut server = Server::new();
    server.create("/one", CreateMode::Ephemeral);
    assert!(matches!(server.send(ALICE, &Request::CloseSession), Txn::CloseSession(Some(_))));
}

#[test]
fn requests_wait_until_a_session_with_many_nodes_is_closed() {
    let mut server = Server::new();
    server.create("/parent", CreateMode::Persistent);
    for number in 0..1_500 {
        server.create(&format!("/parent/{number}"), CreateMode::Ephemeral);
    }
    // A node in flight is deleted too.
    server.send(ALICE, &create("/parent/late", CreateMode::Ephemeral));
    assert!(!server.prepared.is_waiting());
    assert!(matches!(server.send(ALICE, &Request::CloseSession), Txn::CloseSession(None)));
    assert!(server.prepared.is_waiting() && !server.prepared.is_empty());
    server.settle();
    assert!(!server.prepared.is_waiting() && server.prepared.is_empty());
    assert_eq!((server.tree.ephemerals_count(), server.tree.sessions().count()), (0, 0));
    assert_eq!(server.tree.stat("/parent").unwrap().num_children, 0);
}

#[test]
fn a_request_that_would_become_too_large_a_transaction_is_refused_and_leaves_nothing() {
    let mut server = Server::new();
    for user in 0..100 {
        let credentials = format!("user{user}:password");
        server
            .caller
            .ids
            .extend(authenticate("digest", credentials.as_bytes(), &AuthSettings::default()).expect("a digest"));
    }
    let node = |number: usize| {
        let list = vec![acl(Perms::ALL, "auth", "")];
        MultiOp::Create(CreateRequest { acl: list, ..new_node(&format!("/n{number}"), b"", CreateMode::Persistent) })
    };
    let before = server.tree.digest();
    let txn = server.send(ALICE, &Request::Multi(MultiRequest { ops: (0..5_000).map(node).collect() }));
    assert!(matches!(txn, Txn::Error(_)), "refused as a whole");
    server.settle();
    assert_eq!(server.tree.digest(), before);
    // What was rolled back can be created again.
    server.create("/n0", CreateMode::Persistent);

    let mut server = Server::with(Rules { txn_bytes_max: 10_000, ..Rules::default() });
    let data = vec![0; 20_000];
    let create = Request::Create(new_node("/large", &data, CreateMode::Persistent));
    assert_eq!(server.write(&create), Err(ErrorCode::BadArguments));
    server.create("/large", CreateMode::Persistent);
}

#[test]
fn requests_in_flight_do_not_see_one_that_was_refused_for_its_size() {
    let mut server = Server::with(Rules { txn_bytes_max: 10_000, ..Rules::default() });
    let large = Request::Create(new_node("/a", &[0; 20_000], CreateMode::Persistent));
    assert_eq!(server.send(ALICE, &large), Txn::Error(ErrorCode::BadArguments.into()));
    // The rejection is not applied yet, so only the overlay shows whether the node will exist.
    assert!(matches!(server.send(ALICE, &create("/a", CreateMode::Persistent)), Txn::Create(_)));
}

#[test]
fn the_transaction_of_a_large_request_that_fails_takes_little_memory() {
    let mut server = Server::new();
    let create = Request::Create(new_node("/none/below", &[0; 500_000], CreateMode::Persistent));
    let multi = MultiOp::Create(new_node("/none/below", &[0; 500_000], CreateMode::Persistent));
    for request in [create, Request::Multi(MultiRequest { ops: vec![multi] })] {
        drop(server.send(ALICE, &request));
        // A leader keeps it in its log, which counts only the bytes in use.
        let kept = server.in_flight.pop_back().expect("an error is a transaction too").try_into_mut();
        let room = kept.expect("nobody else has it").capacity();
        assert!(room < 1_000, "{room} bytes for an error");
    }
}
