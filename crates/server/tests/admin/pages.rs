//! Pages of the admin server of a standalone server.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::test_server::{TestServer, free_port};

fn standalone(more: &str) -> TestServer {
    let server = TestServer::standalone(more);
    server.wait_until_serving();
    server
}

#[test]
fn every_command_of_apache_answers_with_its_name_and_no_error() {
    let server = standalone("");
    let (status, list) = server.http("GET", "/commands", "", "");
    assert_eq!(status, 200);
    let names: Vec<&str> = list.lines().filter_map(|line| line.strip_prefix("<a href=\"/commands/")).collect();
    assert_eq!(names.len(), 28, "{list}");
    let names = names.iter().filter_map(|rest| rest.split('"').next());
    // These two have no JSON, and tests of their own.
    for name in names.filter(|name| !["snapshot", "restore"].contains(name)) {
        let answer = server.get(&format!("/commands/{name}"));
        assert_eq!(answer["command"], *name, "{answer}");
        assert_eq!(answer["error"].is_null(), name != "set_trace_mask", "{answer}");
    }
    assert_eq!(server.get("/commands/srvr")["command"], "server_stats");
    assert_eq!(server.get("/commands/nosuch")["error"], "Unknown command: nosuch");
    assert_eq!(server.get("/commands/monitor")["znode_count"], 4);
}

#[test]
fn metrics_have_the_names_of_both_kinds_of_exporters_and_our_own() {
    let server = standalone("");
    let (status, page) = server.http("GET", "/metrics", "", "");
    assert_eq!(status, 200);
    for name in [
        "zk_znode_count 4",
        "znode_count 4",
        "pole_elections_total 1",
        "pole_leading 1",
        "pole_hand_overs_total 0",
        "pole_fsync_ms{quantile=\"0.99\"} ",
        "pole_queue_depth{queue=\"unproposed\"} 0",
        "pole_installs_total 0",
        "pole_score{oracle=\"history\",server=\"1\"} ",
    ] {
        assert!(page.lines().any(|line| line.starts_with(name)), "{name}: {page}");
    }
}

#[test]
fn the_port_for_metrics_serves_nothing_else() {
    let server = standalone(&format!("metricsProvider.httpPort={}\nmetricsProvider.httpHost=127.0.0.1\n", free_port()));
    let at = server.metrics.expect("a port for metrics");
    assert!(TestServer::http_at(at, "GET", "/metrics", "", "").1.contains("\nzk_znode_count 4\n"));
    assert_eq!(TestServer::http_at(at, "GET", "/v1/health", "", "").0, 404);
}

#[test]
fn health_says_where_the_server_stands() {
    let server = standalone("");
    let health = server.get("/v1/health");
    let known =
        json!({"id": 1, "mode": "standalone", "leader": 1, "quorum": true, "version": env!("CARGO_PKG_VERSION")});
    for (name, value) in known.as_object().expect("an object") {
        assert_eq!(health[name], *value, "{health}");
    }
    assert!(health["zxid"].as_str().is_some_and(|zxid| zxid.starts_with("0x")), "{health}");
    assert_eq!(health["epoch"], 1, "{health}");
}

#[test]
fn another_oracle_is_in_force_when_the_answer_comes() {
    let server = standalone("");
    assert_eq!(server.get("/v1/ensemble")["oracle"], json!({"name": "history", "version": "0x0", "params": {}}));
    let choices = [
        (json!({"name": "latency", "params": {}}), json!({})),
        (json!({"name": "latency", "params": {"class": "5ms"}}), json!({"class": "5ms"})),
        (json!({"name": "preference", "params": {"preference": "1"}}), json!({"preference": "1"})),
        (json!({"name": "latency/1ms"}), json!({"class": "1ms"})),
    ];
    let mut versions = vec![0];
    for (choice, params) in choices {
        let (status, answer) = server.change("PUT", "/v1/oracle", &choice.to_string());
        assert_eq!(status, 200, "{answer}");
        let oracle = server.get("/v1/ensemble")["oracle"].clone();
        assert_eq!((&oracle["version"], &oracle["params"]), (&answer["version"], &params), "{oracle}");
        let version = answer["version"].as_str().and_then(|text| text.strip_prefix("0x")).expect("a zxid");
        versions.push(u64::from_str_radix(version, 16).expect("hexadecimal"));
    }
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:x?}");
    assert_eq!(server.get("/commands/monitor")["global_sessions"], 0, "no session is left behind");
    assert_eq!(server.get("/v1/scores")["active"], "latency");
}

#[test]
fn a_probe_scores_this_server() {
    let server = standalone("pole.oracle=custom\n");
    let custom_scores = || server.get("/v1/scores")["oracles"]["custom"].clone();
    assert_eq!(custom_scores()["servers"]["1"]["known"], false);
    assert_eq!(server.change("PUT", "/v1/score", r#"{"value":12.5,"ttl_ms":60000}"#), (204, Value::Null));
    let custom = custom_scores();
    assert_eq!((&custom["better"], &custom["winner"]), (&json!("higher"), &json!(1)), "{custom}");
    assert_eq!(custom["servers"]["1"], json!({"score": 12.5, "known": true, "inputs": {"probe": 12.5}}));
}

#[test]
fn bad_input_is_refused_with_what_would_be_right() {
    let server = standalone("");
    for (method, path, body, what) in [
        ("PUT", "/v1/oracle", "", "name"),
        ("PUT", "/v1/oracle", "{", "not JSON"),
        ("PUT", "/v1/oracle", "[]", "object"),
        ("PUT", "/v1/oracle", r#"{"name":"nosuch"}"#, "latency"),
        ("PUT", "/v1/oracle", r#"{"name":"latency","params":{"class":"5 apples"}}"#, "10ms"),
        ("PUT", "/v1/oracle", r#"{"name":"latency","params":[]}"#, "params"),
        ("PUT", "/v1/oracle", r#"{"name":"latency","colour":"red"}"#, "colour"),
        ("PUT", "/v1/oracle", r#"{"name":"combined","params":{"combined":"preference","preference":"1"}}"#, "files"),
        ("PUT", "/v1/score", r#"{"value":"NaN"}"#, "value"),
        ("PUT", "/v1/score", r#"{"value":NaN}"#, "not JSON"),
        ("PUT", "/v1/score", r#"{"value":1e13}"#, "1e12"),
        ("PUT", "/v1/score", r#"{"value":1e999}"#, "not JSON"),
        ("PUT", "/v1/score", r#"{"value":1,"ttl_ms":0}"#, "ttl_ms"),
        ("POST", "/v1/transfer", r#"{"to":"three"}"#, "to"),
        ("POST", "/v1/transfer", r#"{"to":9}"#, "no server"),
        ("POST", "/v1/transfer", r#"{"timeout_ms":-1}"#, "timeout_ms"),
        ("GET", "/v1/scores?kind=odd", "", "after-crash"),
        ("GET", "/v1/election?last=0", "", "last"),
    ] {
        let (status, answer) = server.change(method, path, body);
        assert_eq!((status, &answer["code"]), (400, &json!("bad-value")), "{path} {body}: {answer}");
        let error = answer["error"].as_str().expect("a sentence");
        assert!(error.contains(what), "{path} {body}: {error}");
    }
    assert_eq!(server.change("PUT", "/v1/oracle", &"x".repeat(70_000)).0, 400);
    assert_eq!(server.change("GET", "/v1/nosuch", ""), (404, server.change("GET", "/nosuch", "").1));
    assert_eq!(server.change("POST", "/v1/health", "").0, 405);
    let refused = server.change("POST", "/v1/transfer", "{}");
    assert_eq!((refused.0, &refused.1["code"]), (409, &json!("conflict")), "{}", refused.1);
}

#[test]
fn a_page_in_a_browser_changes_nothing() {
    let server = standalone("");
    let (status, body) = server.http("PUT", "/v1/score", "Origin: http://elsewhere\r\n", r#"{"value":1}"#);
    assert_eq!(status, 401, "{body}");
    assert!(body.contains("\"code\":\"denied\""), "{body}");
}

#[test]
fn a_taken_admin_port_costs_no_more_than_the_admin_server() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port();
    let client = free_port();
    let text = format!("clientPort={client}\nadmin.serverPort={port}\n4lw.commands.whitelist=*\n");
    let server = TestServer::start(1, &text);
    assert_eq!(server.admin, None);
    assert_eq!(server.word("ruok"), "imok");
}

#[test]
fn the_only_election_of_a_standalone_server_is_reported() {
    let server = standalone("");
    let elections = server.get("/v1/election?last=5");
    let newest = &elections[0];
    for (name, value) in [("winner", json!(1)), ("cause", json!("start")), ("ended", json!("established"))] {
        assert_eq!(newest[name], value, "{newest}");
    }
    assert_eq!(newest["decided_by"], "only-candidate", "{newest}");
    assert_eq!(newest["oracle"], "history", "{newest}");
}
