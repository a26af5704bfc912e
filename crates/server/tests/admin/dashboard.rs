//! The dashboard: its files, its events, the node browser, and who may use them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pole_client::{add_auth, create, set_data};
use pole_jute::{Acl, CreateMode, CreateRequest, Id, Perms, Request};
use pole_server::dashboard;
use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;

use crate::test_server::{TEST_TIMEOUT, TestServer};

fn serving(more: &str) -> TestServer {
    let server = TestServer::standalone(more);
    server.wait_until_serving();
    server
}

/// Sends a request and returns the whole answer, head and body.
fn raw(server: &TestServer, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(server.admin.expect("an admin server")).expect("the port is open");
    let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).expect("a request is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, then the end");
    answer
}

/// A reader of `/v1/events`.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(server: &TestServer) -> Self {
        let mut stream = TcpStream::connect(server.admin.expect("an admin server")).expect("the port is open");
        stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        stream.write_all(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("a request is taken");
        Self(BufReader::new(stream))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        assert!(!line.is_empty(), "the stream has ended");
        line.trim_end().to_owned()
    }

    /// Reads up to the next event of this name, and returns its data.
    fn next(&mut self, name: &str) -> Value {
        while self.line() != format!("event: {name}") {}
        let line = self.line();
        serde_json::from_str(line.strip_prefix("data: ").expect("data follows")).expect("JSON")
    }
}

#[test]
fn every_file_is_served_with_its_type_a_tag_and_a_strict_policy() {
    let server = serving("");
    for file in dashboard::files() {
        let answer = raw(&server, file.path, "Host: localhost\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 200"), "{}: {head}", file.path);
        assert!(head.contains(&format!("content-type: {}", file.content_type)), "{head}");
        assert!(head.contains("default-src 'none'") && !head.contains("unsafe"), "{head}");
        assert!(head.contains("x-content-type-options: nosniff"), "{head}");
        assert_eq!(body, file.body);
        let again = raw(&server, file.path, &format!("Host: localhost\r\nIf-None-Match: {}\r\n", file.etag));
        assert!(again.starts_with("HTTP/1.1 304"), "{}: {again}", file.path);
    }
    // What a browser loads at first, without compression. docs/dashboard.md says about 90 KB.
    let bytes: usize = dashboard::files().iter().map(|file| file.body.len()).sum();
    assert!(bytes < 100_000, "{bytes}");
    assert!(raw(&server, "/dashboard/nosuch.js", "Host: localhost\r\n").starts_with("HTTP/1.1 404"));
}

#[test]
fn every_page_of_the_description_answers() {
    let server = serving("");
    let description = server.get("/v1/openapi.json");
    let paths = description["paths"].as_object().expect("paths");
    assert!(paths.len() > 10, "{description}");
    // The stream does not end, and has a test of its own. Other pages are those of `pole up`.
    let own = paths.iter().filter(|(path, _)| *path != "/v1/events" && !path.starts_with("/v1/up/"));
    for (path, operations) in own {
        for (method, operation) in operations.as_object().expect("operations") {
            let body = if operation["requestBody"].is_null() { "" } else { "{\"no such field\":1}" };
            let (status, answer) = server.http(&method.to_uppercase(), path, "", body);
            assert_eq!(status, if body.is_empty() { 200 } else { 400 }, "{method} {path}: {answer}");
        }
    }
}

#[test]
fn probes_tell_a_running_server_from_one_that_serves() {
    let server = serving("");
    assert_eq!(server.http("GET", "/live", "", ""), (200, "live\n".to_owned()));
    assert_eq!(server.http("GET", "/ready", "", ""), (200, "ready\n".to_owned()));
    // One of three servers never has a quorum.
    let servers = TestServer::three("");
    let mut servers = servers.into_iter();
    let alone = servers.next().expect("three servers");
    drop(servers);
    alone.wait_until("no quorum", |server| server.health().0 == 503);
    assert_eq!(alone.http("GET", "/live", "", "").0, 200);
    let (status, text) = alone.http("GET", "/ready", "", "");
    assert_eq!(status, 503);
    assert!(text.starts_with("not ready: "), "{text}");
}

#[test]
fn events_tell_what_the_page_may_do_and_then_how_the_server_is() {
    let server = serving("");
    let mut events = Events::open(&server);
    let capabilities = events.next("capabilities");
    assert_eq!((&capabilities["server"], &capabilities["actions"]), (&1.into(), &Value::Array(Vec::new())));
    assert_eq!(capabilities["nodes"], true);
    let elections = events.next("elections");
    assert_eq!(elections[0]["headline"], "Server 1 was elected for epoch 1");
    assert!(elections[0]["explanation"].as_str().expect("text").contains("no other stood for election"), "{elections}");
    let first = events.next("snapshot");
    assert_eq!((&first["interval_ms"], &first["health"]["leader"]), (&0.into(), &1.into()));
    let mut session = server.session();
    session.ask(create("/a", b"", CreateMode::Persistent)).expect("a node");
    // The snapshot of one of the next seconds counts the write.
    let written = std::iter::repeat_with(|| events.next("snapshot")).find(|snapshot| snapshot["writes"]["rate"] != 0.0);
    let written = written.expect("an endless iterator");
    assert!(written["writes"]["mean_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{written}");
    assert!(written["writes"]["p99_ms"].is_number() && written["fsync"]["rate"] != 0.0, "{written}");
    assert_eq!((&written["clients"]["connections"], &written["clients"]["sessions"]), (&1.into(), &1.into()));
}

#[test]
fn streams_are_limited_and_free_again_when_their_readers_are_gone() {
    let server = serving("");
    let mut streams: Vec<Events> = (0..16).map(|_| Events::open(&server)).collect();
    streams.iter_mut().for_each(|stream| drop(stream.next("capabilities")));
    let refused = raw(&server, "/v1/events", "Host: localhost\r\n");
    assert!(refused.starts_with("HTTP/1.1 409") && refused.contains("close one"), "{refused}");
    streams.truncate(1);
    server.wait_until("room for a stream", |server| Events::open(server).line() == "HTTP/1.1 200 OK");
    streams[0].next("snapshot");
}

#[test]
fn pages_of_other_sites_see_and_change_nothing() {
    let server = serving("pole.admin.actions=true\n");
    let own = "Host: localhost:1\r\nOrigin: http://localhost:1\r\nSec-Fetch-Site: same-origin\r\n";
    assert!(raw(&server, "/v1/nodes", own).starts_with("HTTP/1.1 200"));
    for foreign in [
        "Host: localhost:1\r\nOrigin: http://evil.example\r\n",
        "Host: localhost:1\r\nSec-Fetch-Site: cross-site\r\n",
        "Host: evil.example\r\n",
        "Host: evil.example\r\nOrigin: http://evil.example\r\n",
        "",
    ] {
        for path in ["/v1/nodes", "/v1/events", "/"] {
            let answer = raw(&server, path, foreign);
            assert!(answer.starts_with("HTTP/1.1 40"), "{path} {foreign:?}: {answer}");
        }
    }
    let put = |headers: &str| {
        let mut stream = TcpStream::connect(server.admin.expect("an admin server")).expect("the port is open");
        let body = r#"{"value":1}"#;
        let head =
            format!("PUT /v1/score HTTP/1.1\r\nConnection: close\r\n{headers}Content-Length: {}\r\n", body.len());
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).expect("a request is taken");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer, then the end");
        answer
    };
    assert!(put(own).starts_with("HTTP/1.1 204"));
    assert!(put("Host: localhost:1\r\nOrigin: http://evil.example\r\n").starts_with("HTTP/1.1 401"));
    assert!(put("Host: evil.example\r\n").starts_with("HTTP/1.1 401"));
}

#[test]
fn nodes_are_shown_with_the_permissions_of_the_visitor() {
    let server = serving("");
    let mut session = server.session();
    session.ask(create("/open", "grüße".as_bytes(), CreateMode::Persistent)).expect("a node");
    session.ask(create("/open/binary", &[0, 255], CreateMode::Ephemeral)).expect("a node");
    session.ask(add_auth("digest", b"alice:secret")).expect("an identity");
    let acl = vec![Acl { perms: Perms::ALL, id: Id { scheme: "auth".into(), id: String::new() } }];
    let data = Some(b"hidden".to_vec().into());
    session.ask(Request::Create(CreateRequest { path: "/private".into(), data, acl, flags: 0 })).expect("a node");

    let node = server.get("/v1/nodes?path=/open");
    assert_eq!(
        (&node["text"], &node["hex"], &node["children"]),
        (&"grüße".into(), &Value::Null, &vec!["binary"].into())
    );
    assert_eq!((&node["acl"][0]["id"], &node["acl"][0]["perms"]), (&"anyone".into(), &"cdrwa".into()));
    let binary = server.get("/v1/nodes?path=/open/binary");
    assert_eq!((&binary["text"], &binary["hex"]), (&Value::Null, &"00ff".into()));
    assert!(binary["stat"]["ephemeral_owner"].as_str().is_some_and(|owner| owner.starts_with("0x")), "{binary}");

    let (status, refused) = server.http("GET", "/v1/nodes?path=/private", "", "");
    assert_eq!(status, 401, "{refused}");
    assert!(!refused.contains("hidden"), "{refused}");
    let with = |credentials: &str| {
        let header = format!("Authorization: ZooKeeper {}\r\n", STANDARD.encode(credentials));
        server.http("GET", "/v1/nodes?path=/private", &header, "")
    };
    let (status, shown) = with("digest:alice:secret");
    assert_eq!(status, 200, "{shown}");
    assert!(shown.contains("\"text\":\"hidden\"") && shown.contains("\"id\":\"alice\""), "{shown}");
    for wrong in ["digest:alice:other", "world:anyone", "super:", "nonsense"] {
        assert_eq!(with(wrong).0, 401, "{wrong}");
    }
    assert_eq!(server.http("GET", "/v1/nodes?path=/nosuch", "", "").0, 404);
    assert_eq!(server.http("GET", "/v1/nodes?path=/open&limit=0", "", "").0, 400);
}

#[test]
fn many_children_and_much_data_come_in_parts() {
    let server = serving("");
    let mut session = server.session();
    session.ask(create("/many", b"", CreateMode::Persistent)).expect("a node");
    for number in 0..1_000 {
        session.ask(create(&format!("/many/{number:04}"), b"", CreateMode::Persistent)).expect("a node");
    }
    session.ask(set_data("/many", "ä".repeat(100_000).as_bytes())).expect("data");
    let first = server.get("/v1/nodes?path=/many");
    assert_eq!((first["children"].as_array().map(Vec::len), &first["has_more"]), (Some(200), &true.into()));
    assert_eq!((&first["is_cut"], first["text"].as_str().map(str::len)), (&true.into(), Some(64 << 10)));
    let mut names = Vec::new();
    loop {
        let after = names.last().cloned().unwrap_or_default();
        let page = server.get(&format!("/v1/nodes?path=/many&limit=300&after={after}"));
        let children = page["children"].as_array().expect("a list");
        names.extend(children.iter().map(|name| name.as_str().expect("a name").to_owned()));
        if page["has_more"] == false {
            break;
        }
    }
    let expected: Vec<String> = (0..1_000).map(|number| format!("{number:04}")).collect();
    assert_eq!(names, expected);
}

#[test]
fn the_port_takes_https_beside_http() {
    let key = KeyPair::generate().expect("a key");
    let certificate =
        CertificateParams::new(["localhost".to_owned()]).expect("names").self_signed(&key).expect("a certificate");
    let dir = std::env::temp_dir().join(format!("pole-admin-tls-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory for the test");
    let file = dir.join("server.pem");
    std::fs::write(&file, key.serialize_pem() + &certificate.pem()).expect("a file for the test");
    let server = serving(&format!("admin.portUnification=true\nssl.keyStore.location={}\n", file.display()));
    assert_eq!(server.http("GET", "/ready", "", "").0, 200);

    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.der().clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.expect("versions").with_root_certificates(roots).with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let client = rustls::ClientConnection::new(Arc::new(config), name).expect("a client");
    let stream = TcpStream::connect(server.admin.expect("an admin server")).expect("the port is open");
    let mut stream = rustls::StreamOwned::new(client, stream);
    let request = "GET /v1/nodes?path=/zookeeper HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("a request is taken");
    let mut answer = String::new();
    // The server ends the connection without a notice of TLS, which the client reports after the answer.
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"children\":[\"config\",\"quota\"]"), "{answer}");

    // Neither a broken handshake nor one that never ends keeps others out.
    let mut broken = TcpStream::connect(server.admin.expect("an admin server")).expect("the port is open");
    broken.write_all(&[0x16, 3, 1, 0, 5, 1, 2, 3, 4, 5]).expect("bytes are taken");
    let mut silent = TcpStream::connect(server.admin.expect("an admin server")).expect("the port is open");
    silent.write_all(&[0x16]).expect("a byte is taken");
    assert_eq!(server.http("GET", "/ready", "", "").0, 200);
    let mut rest = Vec::new();
    let _ = broken.read_to_end(&mut rest);
    assert!(!rest.starts_with(b"HTTP"), "{rest:?}");
    drop((server, silent));
    std::fs::remove_dir_all(dir).expect("the directory of the test");
}
