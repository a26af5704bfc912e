//! Limits of requests and connections with Apache's keys, over real sockets.

use std::cell::RefCell;
use std::time::Duration;

use pole_client::blocking::Session;
use pole_client::{create, get_data, set_data};
use pole_jute::CreateMode;

use crate::test_server::{TEST_TIMEOUT, TestServer};

#[test]
fn only_as_many_clients_as_there_are_tokens_get_a_session() {
    let tokens = "connectionMaxTokens=2\nconnectionTokenFillTime=3600000\n4lw.commands.whitelist=*\n";
    let server = TestServer::standalone(tokens);
    server.wait_until_serving();
    let sessions: Vec<_> = (0..5).map(|_| Session::connect(server.client, TEST_TIMEOUT).is_ok()).collect();
    assert_eq!(sessions, [true, true, false, false, false]);
    let figures = server.word("mntr");
    for line in
        ["zk_connection_rejected\t3", "zk_cnt_connection_token_deficit\t2", "zk_sum_connection_token_deficit\t3"]
    {
        assert!(figures.contains(line), "{line} is not in {figures}");
    }
    let (_, page) = server.http("GET", "/metrics", "", "");
    assert!(page.contains("pole_limit_hits_total{limit=\"connectionMaxTokens\"} 3"), "{page}");
    // The operator is not throttled.
    let (status, answer) = server.change("PUT", "/v1/oracle", r#"{"name":"latency"}"#);
    assert_eq!(status, 200, "{answer}");
}

#[test]
fn a_large_request_that_exceeds_the_limit_ends_its_connection() {
    let limits = "largeRequestThreshold=1000\nlargeRequestMaxBytes=5000\n4lw.commands.whitelist=*\n";
    let server = TestServer::standalone(limits);
    server.wait_until_serving();
    let mut session = server.session();
    session.ask(create("/a", b"", CreateMode::Persistent)).expect("it is created");
    session.ask(set_data("/a", &[1; 4_000])).expect("there is room for it");
    session.ask(set_data("/a", &[1; 4_000])).expect("the one before is no longer under way");
    assert!(session.ask(set_data("/a", &[1; 6_000])).is_err());
    assert!(server.word("mntr").contains("zk_large_requests_rejected\t1\n"));
}

#[test]
fn the_leader_leaves_clients_to_its_followers() {
    let servers = TestServer::three("leaderServes=no\npole.resign=off\npole.livenessTimeoutMs=20000\n");
    servers.iter().for_each(TestServer::wait_until_serving);
    let leader = || servers[0].health().1["leader"].as_u64().expect("a leader");
    let first = leader();
    let serves = |server: &TestServer| Session::connect(server.client, Duration::from_secs(5)).is_ok();
    for (id, server) in (1..).zip(&servers) {
        assert_eq!(serves(server), id != first, "server {id}, and {first} leads");
    }
    // A follower that begins to lead disconnects its clients.
    let next = usize::try_from(first % 3).expect("a small number");
    let session = RefCell::new(servers[next].session());
    let is_served = || session.borrow_mut().ask(get_data("/", false)).is_ok();
    assert!(is_served(), "a follower serves");
    let (status, answer) = servers[next].change("POST", "/v1/transfer", &format!(r#"{{"to":{}}}"#, next + 1));
    assert_eq!(status, 200, "{answer}");
    servers[next].wait_until("its clients are gone", |_| !is_served());
    assert!(serves(&servers[usize::try_from(first).expect("a small number") - 1]), "the old leader serves now");
}
