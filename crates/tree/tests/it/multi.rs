//! multi.

use pole_jute::{
    CheckVersionRequest, CreateMode, DeleteRequest, ErrorCode, MultiOp, MultiRequest, MultiResult, Request,
    SetDataRequest, Txn,
};

use crate::server::{ALICE, Server, new_node};

fn create(path: &str) -> MultiOp {
    MultiOp::Create(new_node(path, b"", CreateMode::Persistent))
}

fn sequential(path: &str) -> MultiOp {
    MultiOp::Create2(new_node(path, b"", CreateMode::PersistentSequential))
}

fn delete(path: &str) -> MultiOp {
    MultiOp::Delete(DeleteRequest { path: path.into(), version: -1 })
}

fn set(path: &str, version: i32) -> MultiOp {
    MultiOp::SetData(SetDataRequest { path: path.into(), data: None, version })
}

fn check(path: &str, version: i32) -> MultiOp {
    MultiOp::Check(CheckVersionRequest { path: path.into(), version })
}

fn errors(codes: &[ErrorCode]) -> Vec<MultiResult> {
    codes.iter().map(|code| MultiResult::Error(*code)).collect()
}

#[test]
fn parts_see_those_before_them_and_share_one_zxid() {
    let mut server = Server::new();
    let results = server.multi(vec![create("/a"), create("/a/b"), check("/a", 0), set("/a", 0), delete("/a/b")]);
    let zxid = server.tree.last_zxid();
    assert!(matches!(&results[..], [
        MultiResult::Create(a), MultiResult::Create(b), MultiResult::Check, MultiResult::SetData(set), MultiResult::Delete
    ] if a.path == "/a" && b.path == "/a/b" && set.stat.num_children == 1 && set.stat.mzxid == zxid));
    let stat = server.tree.stat("/a").unwrap();
    assert_eq!((stat.czxid, stat.mzxid, stat.pzxid, stat.version, stat.num_children), (zxid, zxid, zxid, 1, 0));
}

#[test]
fn create2_in_a_multi_returns_a_stat() {
    let mut server = Server::new();
    let results = server.multi(vec![sequential("/s"), sequential("/s")]);
    assert!(matches!(&results[..], [MultiResult::Create2(first), MultiResult::Create2(second)]
        if first.path == "/s0000000000" && second.path == "/s0000000001" && second.stat.czxid == server.tree.last_zxid()));
}

#[test]
fn a_failed_multi_names_the_failed_part_and_changes_nothing() {
    let mut server = Server::new();
    let digest = server.tree.digest();
    let results = server.multi(vec![create("/a"), create("/a/b"), delete("/none"), create("/c")]);
    let codes = [ErrorCode::Ok, ErrorCode::Ok, ErrorCode::NoNode, ErrorCode::RuntimeInconsistency];
    assert_eq!(results, errors(&codes));
    assert_eq!(server.tree.digest(), digest);
}

#[test]
fn a_failed_multi_is_logged_as_by_apache() {
    let mut server = Server::new();
    let txn =
        server.send(ALICE, &Request::Multi(MultiRequest { ops: vec![create("/a"), check("/a", 9), delete("/a")] }));
    let Txn::Multi(multi) = txn else { panic!("{txn:?}") };
    assert!(matches!(&multi.txns[..], [Txn::Create(_), Txn::Error(culprit), Txn::Error(after)]
        if culprit.code() == Some(ErrorCode::BadVersion) && after.code() == Some(ErrorCode::RuntimeInconsistency)));
}

#[test]
fn nothing_of_a_failed_multi_stays_in_flight() {
    let mut server = Server::new();
    server.create("/p", CreateMode::Persistent);
    server.send(ALICE, &Request::Create(new_node("/p/s", b"", CreateMode::PersistentSequential)));
    server.send(ALICE, &Request::Multi(MultiRequest { ops: vec![sequential("/p/s"), create("/x"), delete("/none")] }));
    // The counter continues where the earlier create left it, and the nodes of the multi do not exist.
    let Txn::Create(next) =
        server.send(ALICE, &Request::Create(new_node("/p/s", b"", CreateMode::PersistentSequential)))
    else {
        panic!("a create that works")
    };
    assert_eq!(next.path, "/p/s0000000001");
    assert!(matches!(
        server.send(ALICE, &Request::Create(new_node("/x", b"", CreateMode::Persistent))),
        Txn::Create(_)
    ));
    server.settle();
    assert_eq!(server.tree.stat("/p").unwrap().num_children, 2);
}

#[test]
fn an_empty_multi_is_legal() {
    let mut server = Server::new();
    assert_eq!(server.multi(vec![]), []);
}
