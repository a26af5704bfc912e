//! Three servers: their view of each other, a change of the leader, and the loss of the quorum.

use serde_json::{Value, json};

use crate::test_server::TestServer;

/// The index of the leader, from 0.
fn leader(servers: &[TestServer]) -> usize {
    servers.iter().for_each(TestServer::wait_until_serving);
    let leader = servers[0].health().1["leader"].as_u64().expect("a leader");
    usize::try_from(leader - 1).expect("a small number")
}

/// Three servers that have measured each other.
fn three() -> (Vec<TestServer>, usize) {
    let servers = TestServer::three(
        "4lw.commands.whitelist=*,rqld,ydld\npole.oracle=latency\npole.heartbeatMs=100\npole.resign=off\n",
    );
    let leader = leader(&servers);
    for server in &servers {
        server.wait_until("scores of all three", |server| {
            let scores = &server.get("/v1/scores")["oracles"]["latency"]["servers"];
            ["1", "2", "3"].iter().all(|id| scores[id]["known"] == json!(true))
        });
    }
    (servers, leader)
}

#[test]
fn each_server_reports_the_leader_and_all_servers() {
    let (servers, leader) = three();
    for (index, server) in servers.iter().enumerate() {
        let mode = if index == leader { "leader" } else { "follower" };
        assert!(server.word("srvr").contains(&format!("\nMode: {mode}\n")));
        assert!(server.word("mntr").contains(&format!("zk_server_state\t{mode}\nzk_peer_state\t")));
        let ensemble = server.get("/v1/ensemble");
        assert_eq!(ensemble["leader"], leader as u64 + 1, "{ensemble}");
        let servers = ensemble["servers"].as_array().expect("a list");
        assert_eq!(servers.len(), 3);
        for (other, server) in servers.iter().enumerate() {
            assert_eq!(server["alive"], true, "{server}");
            assert_eq!(server["mode"], if other == leader { "leader" } else { "follower" }, "{server}");
            assert_eq!(server["rtt_ms"].as_object().map(serde_json::Map::len), Some(2), "{server}");
        }
        assert_eq!(server.get("/commands/leader")["leader_id"], leader as u64 + 1);
        assert_eq!(
            server.get("/commands/voting_view")["current_config"].as_object().map(serde_json::Map::len),
            Some(3)
        );
    }
    let mntr = servers[leader].word("mntr");
    assert!(mntr.contains("zk_synced_followers\t2\n") && mntr.contains("zk_learners\t2\n"), "{mntr}");
    assert!(mntr.contains("zk_leader_uptime\t") && !mntr.contains("zk_leader_uptime\t0\n"), "{mntr}");
}

#[test]
fn scores_are_there_for_every_oracle_and_both_moments() {
    let (servers, leader) = three();
    for server in &servers {
        let scores = server.get("/v1/scores?kind=after-crash");
        assert_eq!((&scores["active"], &scores["kind"]), (&json!("latency"), &json!("after-crash")));
        let latency = &scores["oracles"]["latency"];
        assert_eq!((&latency["better"], &latency["unit"]), (&json!("lower"), &json!("ms")));
        assert!(latency["servers"].get((leader + 1).to_string()).is_none(), "the leader would be gone: {latency}");
        assert_ne!(latency["winner"], leader as u64 + 1, "{latency}");
        let scores = server.get("/v1/scores");
        for name in ["history", "request", "consensus", "latency", "worst-case", "rotating", "recovery", "custom"] {
            let servers = scores["oracles"][name]["servers"].as_object().unwrap_or_else(|| panic!("{name}: {scores}"));
            assert_eq!(servers.len(), 3, "{name}");
        }
        let inputs = &scores["oracles"]["latency"]["servers"]["1"]["inputs"];
        assert!(inputs["consensus_ms"].is_number() && inputs["hop_ms"].is_number(), "{scores}");
    }
}

#[test]
fn a_transfer_changes_the_leader_and_reports_how_long_it_took() {
    let (servers, first) = three();
    let next = (first + 1) % 3;
    for server in [&servers[first], &servers[next]] {
        let same = server.change("POST", "/v1/transfer", &json!({"to": first + 1}).to_string());
        assert_eq!((same.0, &same.1["leader"]), (200, &json!(first + 1)));
    }

    let (status, answer) =
        servers[first].change("POST", "/v1/transfer", &json!({"to": next + 1, "timeout_ms": 30_000}).to_string());
    assert_eq!((status, &answer["leader"]), (200, &json!(next + 1)), "{answer}");
    assert!(answer["pause_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{answer}");
    assert_eq!(servers[first].health().1["leader"], json!(next + 1));
    let elections = servers[first].get("/v1/election?last=1");
    assert_eq!(
        (&elections[0]["winner"], &elections[0]["ended"]),
        (&json!(next + 1), &json!("established")),
        "{elections}"
    );
    assert_eq!(
        servers[first].http("GET", "/metrics", "", "").1.lines().find(|l| l.starts_with("pole_hand_overs_total")),
        Some("pole_hand_overs_total 1")
    );
    servers[next].wait_until_serving();
    servers[next].wait_until("the new leader", |server| server.health().1["mode"] == "leader");
    servers[next].wait_until("scores of the others", |server| server.word("ydld").starts_with("Handing over"));
    servers[next].wait_until("a third leader", |server| server.health().1["leader"] != json!(next + 1));
    servers[next]
        .wait_until("it serves again", |server| server.word("rqld").contains("was asked for less than 10 s ago"));
}

#[test]
fn a_follower_forwards_a_transfer() {
    let (servers, first) = three();
    let (next, last) = ((first + 1) % 3, (first + 2) % 3);
    let (status, answer) =
        servers[last].change("POST", "/v1/transfer", &json!({"to": next + 1, "timeout_ms": 30_000}).to_string());
    assert_eq!((status, &answer["leader"]), (200, &json!(next + 1)), "{answer}");
    servers[last].wait_until("the leader that it asks next", |server| server.word("rqld").starts_with("Server"));
    servers[last].wait_until("it leads", |server| server.health().1["mode"] == "leader");
    assert_eq!(servers[last].word("rqld"), format!("Server {} leads already.\n", last + 1));
}

#[test]
fn nothing_is_handed_over_to_a_server_that_does_not_follow() {
    let (mut servers, leader) = three();
    let (gone, follower) = ((leader + 1) % 3, (leader + 2) % 3);
    servers[gone].stop();
    let (leader, follower) = (&servers[leader], &servers[follower]);
    leader.wait_until("its absence", |server| server.get("/v1/ensemble")["servers"][gone]["alive"] == json!(false));
    let refused = |server: &TestServer| server.change("POST", "/v1/transfer", &json!({"to": gone + 1}).to_string());
    leader.wait_until("a refusal", |server| refused(server).0 == 409);
    // A follower passes the refusal on.
    for server in [leader, follower] {
        let (status, answer) = refused(server);
        assert_eq!((status, &answer["code"]), (409, &json!("conflict")), "{answer}");
        let error = answer["error"].as_str().expect("a sentence");
        assert!(error.contains(&format!("server {} does not follow", gone + 1)), "{error}");
    }
    assert_eq!(leader.health().1["mode"], "leader");
}

#[test]
fn an_oracle_chosen_on_any_server_is_chosen_on_all() {
    let (servers, leader) = three();
    let follower = &servers[(leader + 1) % 3];
    let (status, answer) = follower.change("PUT", "/v1/oracle", r#"{"name":"request","params":{}}"#);
    assert_eq!(status, 200, "{answer}");
    for server in &servers {
        server.wait_until("the choice", |server| server.get("/v1/ensemble")["oracle"]["name"] == "request");
        assert_eq!(server.get("/v1/ensemble")["oracle"]["version"], answer["version"]);
    }
}

#[test]
fn without_a_quorum_a_server_reports_it() {
    let (mut servers, _) = three();
    servers[1].stop();
    servers[2].stop();
    let server = &servers[0];
    server.wait_until("the loss", |server| server.health().0 == 503);
    let (_, health) = server.health();
    assert_eq!(
        (&health["mode"], &health["leader"], &health["quorum"]),
        (&json!("looking"), &Value::Null, &json!(false)),
        "{health}"
    );
    for (method, path, body) in [("PUT", "/v1/oracle", r#"{"name":"latency"}"#), ("POST", "/v1/transfer", "{}")] {
        let (status, answer) = server.change(method, path, body);
        assert_eq!((status, &answer["code"]), (503, &json!("no-quorum")), "{path}: {answer}");
    }
    assert_eq!(server.word("srvr"), "This ZooKeeper instance is not currently serving requests\n");
    assert_eq!(server.word("isro"), "null");
    assert_eq!(server.word("ruok"), "imok");
    let error = server.get("/commands/monitor")["error"].clone();
    assert_eq!(error, "This ZooKeeper instance is not currently serving requests");
    let alive = server.get("/v1/ensemble");
    assert_eq!((&alive["servers"][1]["alive"], &alive["servers"][1]["mode"]), (&json!(false), &Value::Null), "{alive}");
}

#[test]
fn without_a_quorum_a_server_may_be_read_only_and_reports_it() {
    let mut servers = TestServer::three("4lw.commands.whitelist=*\nreadonlymode.enabled=true\n");
    leader(&servers);
    servers[1].stop();
    servers[2].stop();
    let server = &servers[0];
    server.wait_until("read-only mode", |server| server.word("isro") == "ro");
    assert!(server.word("srvr").contains("\nMode: read-only\n"));
    let (status, health) = server.health();
    assert_eq!((status, &health["mode"], &health["quorum"]), (503, &json!("read-only"), &json!(false)), "{health}");
    assert_eq!(server.get("/commands/is_read_only")["read_only"], true);
}

#[test]
fn what_would_make_another_server_the_best_is_computed_from_the_measurements() {
    let servers = TestServer::three("pole.oracle=request\npole.heartbeatMs=50\n");
    servers.iter().for_each(TestServer::wait_until_serving);
    let mut session = servers[0].session();
    session.ask(pole_client::create("/a", b"", pole_jute::CreateMode::Persistent)).expect("a node");
    // The server whose clients write is the best by request, so another one needs more requests than it has.
    let answer = |server: &TestServer| server.get("/v1/whatif");
    let is_known = |server: &TestServer| {
        let answer = answer(server);
        answer["best"] == 1 && answer["changes"].as_array().is_some_and(|changes| !changes.is_empty())
    };
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !is_known(&servers[0]) {
        assert!(std::time::Instant::now() < limit, "{}", answer(&servers[0]));
        session.ask(pole_client::set_data("/a", b"1")).expect("a write");
    }
    let answer = answer(&servers[0]);
    assert_eq!(answer["oracle"], "request");
    for change in answer["changes"].as_array().unwrap().iter().filter(|change| change["kind"] == "rate") {
        let number = |name: &str| change[name].as_f64().unwrap();
        assert!(change["winner"] != 1 && number("from") != number("to"), "{change}");
    }
}
