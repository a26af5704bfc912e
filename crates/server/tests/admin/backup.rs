//! Backups over the admin port: what a snapshot contains, what a restore makes of it, and who may do either.

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::Bytes;
use pole_client::blocking::Session;
use pole_jute::{Acl, CreateMode, CreateRequest, GetDataRequest, Id, Perms, Reply, Request, SetAclRequest};
use serde_json::Value;

use crate::test_server::TestServer;

const IP: &str = "Authorization: ip\r\n";
/// No limit on how often, for tests.
const ALWAYS: &str = "admin.rateLimiterIntervalInMS=0\n";

/// An answer with its headers, whose body need not be text.
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.head))
    }
}

fn send(server: &TestServer, line: &str, headers: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(server.admin.expect("an admin server")).expect("the port is open");
    let length = body.len();
    let head =
        format!("{line} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("a request is taken");
    // A refusal may come before the whole body was read.
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer, then the end");
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head and a body");
    let head = String::from_utf8(answer[..end].to_vec()).expect("text");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    let mut body = answer[end + 4..].to_vec();
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        body = joined(&body);
    }
    Answer { status, head, body }
}

/// The content of a chunked body.
fn joined(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = chunks.windows(2).position(|window| window == b"\r\n").expect("the size of a chunk");
        let size = usize::from_str_radix(std::str::from_utf8(&chunks[..end]).unwrap(), 16).expect("a size");
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&chunks[end + 2..end + 2 + size]);
        chunks = &chunks[end + 2 + size + 2..];
    }
}

fn snapshot(server: &TestServer) -> Answer {
    let answer = send(server, "GET /commands/snapshot?streaming=true", IP, b"");
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    answer
}

fn restore(server: &TestServer, backup: &[u8]) -> Value {
    let headers = format!("{IP}Content-Type: application/octet-stream\r\n");
    let answer = send(server, "POST /commands/restore", &headers, backup);
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

fn standalone(more: &str) -> TestServer {
    let server = TestServer::standalone(more);
    server.wait_until_serving();
    server
}

fn create(session: &mut Session, path: &str, data: &[u8]) {
    create_as(session, path, data, CreateMode::Persistent);
}

fn create_as(session: &mut Session, path: &str, data: &[u8], mode: CreateMode) {
    let anyone = Acl { perms: Perms::ALL, id: Id { scheme: "world".into(), id: "anyone".into() } };
    let data = Some(Bytes::copy_from_slice(data));
    let request = CreateRequest { path: path.into(), data, acl: vec![anyone], flags: mode.number() };
    session.ask(Request::Create(request)).unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// The data of a node, if it exists.
fn get(session: &mut Session, path: &str) -> Option<Bytes> {
    match session.ask(Request::GetData(GetDataRequest { path: path.into(), watch: false })) {
        Ok(Reply::GetData(reply)) => Some(reply.data.unwrap_or_default()),
        Ok(other) => panic!("{other:?}"),
        Err(_) => None,
    }
}

#[test]
fn a_snapshot_has_apaches_headers_and_is_restored_on_another_server() {
    let (source, target) = (standalone(ALWAYS), standalone(ALWAYS));
    let mut session = source.session();
    create(&mut session, "/app", b"one");
    create(&mut session, "/app/large", &vec![7; 300_000]);
    let answer = snapshot(&source);
    let zxid = source.get("/v1/health")["zxid"].as_str().expect("a zxid").to_owned();
    assert_eq!(answer.header("last_zxid"), Some(zxid.as_str()));
    assert_eq!(answer.header("snapshot_size"), Some(answer.body.len().to_string().as_str()));
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"));

    let mut other = target.session();
    create(&mut other, "/old", b"");
    let restored = restore(&target, &answer.body);
    assert_eq!(restored["error"], Value::Null, "{restored}");
    assert_eq!((&restored["created"], &restored["deleted"]), (&2.into(), &1.into()), "{restored}");
    assert_eq!(restored["snapshot_zxid"], zxid.as_str());
    assert_eq!(get(&mut other, "/app/large").map(|data| data.len()), Some(300_000));
    assert_eq!(get(&mut other, "/old"), None);
    // Once more there is nothing to do.
    let again = restore(&target, &answer.body);
    assert_eq!((&again["created"], &again["changed"], &again["deleted"]), (&0.into(), &0.into(), &0.into()));
}

#[test]
fn a_restore_on_any_server_of_an_ensemble_is_agreed_by_all() {
    let source = standalone(ALWAYS);
    let mut session = source.session();
    for number in 0..1_500 {
        create(&mut session, &format!("/n{number}"), b"x");
    }
    let backup = snapshot(&source).body;
    let servers = TestServer::three(ALWAYS);
    servers.iter().for_each(TestServer::wait_until_serving);
    let follower = servers.iter().find(|server| server.health().1["mode"] == "follower").expect("a follower");
    let restored = restore(follower, &backup);
    assert_eq!((&restored["error"], &restored["created"]), (&Value::Null, &1_500.into()), "{restored}");
    for server in &servers {
        let nodes = |server: &TestServer| server.get("/commands/monitor")["znode_count"].as_u64();
        server.wait_until("all nodes", |server| nodes(server) == Some(1_504));
    }
    let zxid = |server: &TestServer| server.get("/v1/health")["zxid"].clone();
    servers[0].wait_until("one history", |_| servers.iter().all(|server| zxid(server) == zxid(&servers[0])));
    let digests: Vec<Value> = servers.iter().map(|server| server.get("/commands/hash")["digests"].clone()).collect();
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
}

#[test]
fn a_backup_that_is_cut_short_or_damaged_changes_nothing() {
    let server = standalone(ALWAYS);
    let mut session = server.session();
    create(&mut session, "/a", b"1");
    let backup = snapshot(&server).body;
    create(&mut session, "/b", b"2");
    let mut damaged = backup.clone();
    damaged[40] ^= 1;
    for bad in [&backup[..backup.len() - 1], &damaged, b"", b"{}"] {
        let answer = send(&server, "POST /commands/restore", IP, bad);
        assert_eq!((answer.status, &answer.json()["command"]), (400, &"restore".into()));
        assert!(answer.json()["error"].as_str().is_some_and(|error| error.contains("snapshot")), "{}", answer.json());
    }
    assert!(get(&mut session, "/b").is_some());
    assert_eq!(server.get("/commands/monitor")["restore_error_count"], 4);
}

#[test]
fn each_command_is_limited_and_can_be_disabled() {
    let server = standalone("");
    snapshot(&server);
    let answer = send(&server, "GET /commands/snapshot", IP, b"");
    assert_eq!(answer.status, 429);
    assert!(
        answer.json()["error"].as_str().is_some_and(|e| e.contains("admin.rateLimiterIntervalInMS")),
        "{}",
        answer.json()
    );
    assert_eq!(server.get("/commands/monitor")["snapshot_rate_limited_count"], 1);
    let server = standalone("admin.snapshot.enabled=false\nadmin.restore.enabled=false\n");
    for line in ["GET /commands/snapshot", "POST /commands/restore"] {
        let answer = send(&server, line, IP, b"");
        assert_eq!(answer.status, 503);
        assert!(answer.json()["error"].as_str().is_some_and(|error| error.contains(".enabled")));
    }
}

#[test]
fn the_caller_has_to_prove_that_it_may_see_everything() {
    let server = standalone(&format!("{ALWAYS}pole.admin.token=secret\n"));
    let ask = |headers: &str| send(&server, "GET /commands/snapshot", headers, b"").status;
    assert_eq!((ask(""), ask(IP), ask("Authorization: sasl x\r\n")), (401, 200, 401));
    assert_eq!(ask(&format!("{IP}Origin: http://page.example\r\n")), 403);
    let mut session = server.session();
    let root = Id { scheme: "digest".into(), id: pole_tree::digest_id("root:root_passwd") };
    let acl = vec![Acl { perms: Perms::ALL, id: root }];
    session.ask(Request::SetAcl(SetAclRequest { path: "/".into(), acl, version: -1 })).expect("the root is closed");
    assert_eq!((ask(IP), ask("Authorization: digest root:wrong\r\n")), (403, 403));
    assert_eq!(ask("Authorization: digest root:root_passwd\r\n"), 200);
    assert_eq!((ask("Authorization: Bearer secret\r\n"), ask("Authorization: Bearer secrets\r\n")), (200, 401));
}

#[test]
fn wrong_methods_are_answered_in_apaches_form() {
    let server = standalone("");
    let answer = send(&server, "GET /commands/restore", IP, b"");
    assert_eq!((answer.status, &answer.json()["command"]), (405, &"restore".into()));
    assert_eq!(send(&server, "POST /commands/ruok", IP, b"").status, 405);
    assert_eq!(send(&server, "GET /commands/snapshot?streaming=false", IP, b"").status, 501);
}

#[test]
fn ephemeral_nodes_of_live_sessions_survive_a_restore() {
    let server = standalone(ALWAYS);
    let mut session = server.session();
    create(&mut session, "/locks", b"");
    let backup = snapshot(&server).body;
    create_as(&mut session, "/locks/mine", b"", CreateMode::Ephemeral);
    create(&mut session, "/more", b"");
    let restored = restore(&server, &backup);
    assert_eq!((&restored["deleted"], &restored["ephemerals"]), (&1.into(), &1.into()), "{restored}");
    assert!(get(&mut session, "/locks/mine").is_some() && get(&mut session, "/more").is_none());
}
