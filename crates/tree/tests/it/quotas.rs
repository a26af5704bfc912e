//! Quotas.

use pole_jute::{CreateMode, ErrorCode, Request};
use pole_tree::{Rules, Tree};

use crate::server::{ALICE, Server, delete, new_node, set_data};

const LIMITS: &str = "/zookeeper/quota/q/zookeeper_limits";
const STATS: &str = "/zookeeper/quota/q/zookeeper_stats";

fn create(path: &str, data: &[u8]) -> Request {
    Request::Create(new_node(path, data, CreateMode::Persistent))
}

/// A server with the nodes `/q` of 5 bytes and `/q/old` of 3, and a quota on `/q`.
fn limited(limits: &str) -> Server {
    let mut server = Server::new();
    for (path, data) in [("/q", "12345"), ("/q/old", "123"), ("/zookeeper/quota/q", ""), (LIMITS, limits), (STATS, "")]
    {
        server.write(&create(path, data.as_bytes())).unwrap();
    }
    server
}

fn stats(tree: &Tree) -> &str {
    std::str::from_utf8(tree.data(STATS).unwrap().unwrap()).unwrap()
}

#[test]
fn the_stats_match_the_actual_usage() {
    let mut server = limited("count=9,bytes=99");
    assert_eq!(stats(&server.tree), "count=2,bytes=8");
    server.write(&create("/q/new", b"1234")).unwrap();
    assert_eq!(stats(&server.tree), "count=3,bytes=12");
    server.set("/q/new", b"1").unwrap();
    assert_eq!(stats(&server.tree), "count=3,bytes=9");
    server.delete("/q/old").unwrap();
    assert_eq!(stats(&server.tree), "count=2,bytes=6");
    server.write(&create("/qq", b"1234")).unwrap();
    assert_eq!(stats(&server.tree), "count=2,bytes=6", "a name that only begins so is elsewhere");
}

#[test]
fn a_soft_limit_refuses_nothing() {
    let mut server = limited("count=1,bytes=1");
    server.write(&create("/q/new", b"1234")).unwrap();
}

#[test]
fn a_hard_limit_counts_what_is_in_flight() {
    let mut server = limited("count=-1,bytes=-1=;byteHardLimit=20;countHardLimit=4");
    server.send(ALICE, &create("/q/a", b"12"));
    server.send(ALICE, &create("/q/b", b""));
    assert_eq!(server.write(&create("/q/c", b"")), Err(ErrorCode::QuotaExceeded));
    assert_eq!(server.write(&set_data("/q/a", &[0; 13], -1)), Err(ErrorCode::QuotaExceeded));
    server.send(ALICE, &delete("/q/b", -1));
    server.send(ALICE, &create("/q/c", &[0; 10]));
    server.settle();
    assert_eq!(stats(&server.tree), "count=4,bytes=20");
    assert!(server.set("/q/c", b"").is_ok(), "less is always possible");
}

#[test]
fn a_hard_limit_is_only_counted_unless_enforced() {
    let server = limited("countHardLimit=2");
    let tree = Tree::restore(Rules::default(), &server.snapshot()).unwrap();
    let mut server = Server::over(tree);
    server.write(&create("/q/a", b"")).unwrap();
    assert_eq!(stats(&server.tree), "count=3,bytes=8");
}

#[test]
fn a_client_cannot_falsify_the_stats() {
    let mut server = limited("count=9,bytes=99");
    server.set(STATS, b"count=0,bytes=0").unwrap();
    assert_eq!(stats(&server.tree), "count=2,bytes=8");
    assert_eq!(server.tree.stat(STATS).unwrap().version, 1);
}

#[test]
fn without_limits_nothing_is_kept() {
    let mut server = limited("count=9,bytes=99");
    server.delete(LIMITS).unwrap();
    server.write(&create("/q/new", b"1234")).unwrap();
    assert_eq!(stats(&server.tree), "count=2,bytes=8");
}

#[test]
fn a_failed_multi_uses_no_quota() {
    let mut server = limited("countHardLimit=3");
    let op = |path: &str| pole_jute::MultiOp::Create(new_node(path, b"", CreateMode::Persistent));
    server.multi(vec![op("/q/a"), op("/none/x")]);
    server.write(&create("/q/b", b"")).unwrap();
    assert_eq!(server.write(&create("/q/c", b"")), Err(ErrorCode::QuotaExceeded));
}
