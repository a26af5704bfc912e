//! Reads.

use pole_jute::{
    ClientInfo, CreateMode, ErrorCode, ExistsRequest, GetAllChildrenNumberRequest, GetChildren2Request,
    GetChildrenRequest, GetDataRequest, MultiReadOp, MultiReadRequest, MultiReadResult, Reply, Request,
};

use crate::server::{Server, id};

fn small_tree() -> Server {
    let mut server = Server::new();
    for path in ["/p", "/p/a", "/p/b", "/p/b/c"] {
        server.create(path, CreateMode::Persistent);
    }
    server.set("/p", b"data").unwrap();
    server
}

#[test]
fn data_comes_with_its_stat() {
    let mut server = small_tree();
    let Ok(Reply::GetData(reply)) = server.read(&Request::GetData(GetDataRequest { path: "/p".into(), watch: false }))
    else {
        panic!("/p is there")
    };
    assert_eq!((reply.data.as_deref(), Some(reply.stat)), (Some(&b"data"[..]), server.tree.stat("/p")));
}

#[test]
fn children_are_named_without_their_parent() {
    let mut server = small_tree();
    let Ok(Reply::GetChildren2(mut reply)) =
        server.read(&Request::GetChildren2(GetChildren2Request { path: "/p".into(), watch: false }))
    else {
        panic!("/p is there")
    };
    reply.children.sort();
    assert_eq!((reply.children, Some(reply.stat)), (vec!["a".into(), "b".into()], server.tree.stat("/p")));
    let root = server.read(&Request::GetChildren(GetChildrenRequest { path: "/".into(), watch: false }));
    assert!(matches!(root, Ok(Reply::GetChildren(reply)) if reply.children.len() == 2));
}

#[test]
fn all_descendants_are_counted() {
    let mut server = small_tree();
    let mut count = |path: &str| match server
        .read(&Request::GetAllChildrenNumber(GetAllChildrenNumberRequest { path: path.into() }))
    {
        Ok(Reply::GetAllChildrenNumber(reply)) => Ok(reply.total_number),
        Ok(other) => panic!("{other:?}"),
        Err(code) => Err(code),
    };
    assert_eq!((count("/p"), count("/p/a"), count("/")), (Ok(3), Ok(0), Ok(7)));
    assert_eq!(count("/none"), Err(ErrorCode::NoNode));
}

#[test]
fn a_missing_node_is_an_error() {
    let mut server = small_tree();
    let path = "/none".to_owned();
    let requests = [
        Request::Exists(ExistsRequest { path: path.clone(), watch: false }),
        Request::GetData(GetDataRequest { path: path.clone(), watch: false }),
        Request::GetChildren(GetChildrenRequest { path, watch: false }),
    ];
    for request in requests {
        assert_eq!(server.read(&request), Err(ErrorCode::NoNode), "{request:?}");
    }
    let odd = Request::Exists(ExistsRequest { path: "/\0".into(), watch: false });
    assert_eq!(server.read(&odd), Err(ErrorCode::BadArguments));
}

#[test]
fn several_reads_have_a_result_each() {
    let mut server = small_tree();
    let data = |path: &str| MultiReadOp::GetData(GetDataRequest { path: path.into(), watch: true });
    let children = MultiReadOp::GetChildren(GetChildrenRequest { path: "/p/b".into(), watch: true });
    let request = MultiReadRequest { ops: vec![data("/p"), data("/none"), children] };
    let Ok(Reply::MultiRead(reply)) = server.read(&Request::MultiRead(request)) else { panic!("it cannot fail") };
    assert!(matches!(&reply.results[..], [
        MultiReadResult::GetData(data), MultiReadResult::Error(ErrorCode::NoNode), MultiReadResult::GetChildren(children)
    ] if data.stat.data_length == 4 && children.children == ["c"]));
    assert_eq!(server.watches.borrow().count(), 0);
}

#[test]
fn who_am_i_shows_no_secrets() {
    let mut server = small_tree();
    server.caller.ids.extend([id("digest", "user:hash"), id("super", "")]);
    let Ok(Reply::WhoAmI(reply)) = server.read(&Request::WhoAmI) else { panic!("it cannot fail") };
    let info = |scheme: &str, user: &str| ClientInfo { auth_scheme: scheme.into(), user: user.into() };
    assert_eq!(reply.client_info, [info("ip", "127.0.0.1"), info("digest", "user"), info("super", "")]);
}

#[test]
fn the_counts_for_mntr_are_kept_up_to_date() {
    let mut server = small_tree();
    server.create("/e", CreateMode::Ephemeral);
    assert_eq!((server.tree.node_count(), server.tree.ephemerals_count()), (9, 1));
    let before = server.tree.approximate_data_bytes();
    server.set("/e", b"12345").unwrap();
    assert_eq!(server.tree.approximate_data_bytes(), before + 5);
    server.delete("/e").unwrap();
    assert_eq!(server.tree.approximate_data_bytes(), before - 2);
    let size = u64::try_from(server.snapshot().len()).unwrap();
    assert!(server.tree.size_bytes().abs_diff(size) < 200, "{} is near {size}", server.tree.size_bytes());
}
