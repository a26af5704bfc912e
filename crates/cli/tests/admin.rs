//! Requests to the admin port of a scripted server, and the handling of its answers.

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use common::{LIMIT, pole, run};

/// A server that gives the scripted answer for each path, and records the requests.
struct ScriptedServer {
    url: String,
    requests: Receiver<Received>,
}

#[derive(Debug)]
struct Received {
    /// Method and path.
    line: String,
    token: Option<String>,
    body: String,
}

impl ScriptedServer {
    fn answering(answers: &'static [(&'static str, u16, &'static str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, requests) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let received = read(&stream);
                let (_, status, body) = answers.iter().find(|(start, ..)| received.line.starts_with(start)).unwrap();
                let head = format!("HTTP/1.0 {status} X\r\ncontent-length: {}\r\n\r\n", body.len());
                stream.write_all((head + body).as_bytes()).unwrap();
                if sender.send(received).is_err() {
                    return;
                }
            }
        });
        Self { url, requests }
    }

    fn next_request(&self) -> Received {
        self.requests.recv_timeout(LIMIT).unwrap()
    }
}

fn read(stream: &std::net::TcpStream) -> Received {
    let mut reader = BufReader::new(stream);
    let mut next = || {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let line = next().trim_end_matches(" HTTP/1.1").to_owned();
    let headers: Vec<String> = std::iter::from_fn(|| Some(next()).filter(|line| !line.is_empty())).collect();
    // The case of a name has no meaning.
    let is_named =
        |header: &str, name: &str| header.get(..name.len()).is_some_and(|own| own.eq_ignore_ascii_case(name));
    let header = |name: &str| headers.iter().find(|header| is_named(header, name)).map(|h| h[name.len()..].to_owned());
    let mut body = vec![0; header("Content-Length: ").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    Received { line, token: header("Authorization: "), body: String::from_utf8(body).unwrap() }
}

const ENSEMBLE: &str = r#"{"leader":1, "epoch":3,"oracle":{"name":"latency","version":"0x300000001","params":{}},
"servers":[{"id":1,"site":"D1","mode":"leader","zxid":"0x300000007","rtt_ms":{},"write_rate":166.0,"alive":true}],"new":1}"#;
const NO_QUORUM: &str = r#"{"error":"server 1 has no quorum; start more servers","code":"no-quorum"}"#;

#[test]
fn json_is_printed_unchanged() {
    let server = ScriptedServer::answering(&[("GET /v1/ensemble", 200, ENSEMBLE)]);
    let (code, said, _) = run(&["status", "--json", "--admin", &server.url]);
    assert_eq!((code, said), (0, format!("{ENSEMBLE}\n")));
}

#[test]
fn unknown_fields_are_ignored() {
    let server = ScriptedServer::answering(&[("GET /v1/ensemble", 200, ENSEMBLE)]);
    let (code, said, _) = run(&["status", "--admin", &server.url]);
    assert_eq!(code, 0);
    assert!(said.starts_with("Server 1 leads in epoch 3; the oracle is latency.\n"), "{said}");
}

#[test]
fn the_number_of_elections_is_passed_on() {
    let server = ScriptedServer::answering(&[("GET /v1/election", 200, "[]")]);
    let (code, said, _) = run(&["explain", "--last", "7", "--admin", &server.url]);
    assert_eq!((code, said.as_str()), (0, "There has been no election yet.\n"));
    assert_eq!(server.next_request().line, "GET /v1/election?last=7");
}

#[test]
fn a_server_that_is_down_or_without_quorum_is_skipped() {
    let alone = ScriptedServer::answering(&[("", 503, NO_QUORUM)]);
    let server = ScriptedServer::answering(&[("GET /v1/ensemble", 200, ENSEMBLE)]);
    let urls = format!("http://127.0.0.1:1,{},{}", alone.url, server.url);
    assert_eq!(run(&["status", "--admin", &urls]).0, 0);
}

#[test]
fn no_quorum_is_4() {
    let server = ScriptedServer::answering(&[("", 503, NO_QUORUM)]);
    let (code, _, said) = run(&["status", "--admin", &server.url]);
    assert_eq!(code, 4);
    assert!(said.contains("start more servers"), "{said}");
}

#[test]
fn without_a_quorum_the_missing_servers_are_named() {
    const SERVERS: &str =
        r#"{"leader":null,"servers":[{"id":1,"alive":true},{"id":2,"alive":true},{"id":3},{"id":4},{"id":5}]}"#;
    let server = ScriptedServer::answering(&[("GET /v1/ensemble", 200, SERVERS), ("", 503, NO_QUORUM)]);
    let (code, _, said) = run(&["transfer", "--admin", &server.url]);
    assert_eq!(code, 4);
    assert!(said.contains("start more servers. 2 of 5 servers answer; 3, 4, 5 do not"), "{said}");
}

#[test]
fn the_message_of_a_rejection_is_printed() {
    for (code, text) in [(2, "bad-value"), (1, "conflict"), (1, "denied"), (1, "timeout")] {
        let body = format!(r#"{{"error":"no such thing; ask for another","code":"{text}"}}"#);
        let answers = Box::leak(Box::new([("", 400, &*body.leak())]));
        let server = ScriptedServer::answering(answers);
        let (got, _, said) = run(&["oracle", "set", "latency", "--admin", &server.url]);
        assert_eq!(got, code, "{text}: {said}");
        assert!(said.contains("no such thing; ask for another"), "{said}");
    }
}

#[test]
fn an_answer_from_another_program_is_reported() {
    let server = ScriptedServer::answering(&[("", 404, "<html>not here</html>")]);
    let (code, _, said) = run(&["status", "--admin", &server.url]);
    assert_eq!(code, 1);
    assert!(said.contains("no server of Pole"), "{said}");
}

#[test]
fn an_oracle_is_set_by_name_short_form_and_parameters() {
    let server = ScriptedServer::answering(&[("PUT /v1/oracle", 200, r#"{"version":"0x300000009"}"#)]);
    for (args, body) in [
        (&["latency"][..], r#"{"name":"latency","params":{}}"#),
        (&["latency/10ms"], r#"{"name":"latency","params":{"class":"10ms"}}"#),
        (&["preference=3,1,2"], r#"{"name":"preference","params":{"preference":"3,1,2"}}"#),
        (&["latency", "--param", "class=5ms"], r#"{"name":"latency","params":{"class":"5ms"}}"#),
    ] {
        let (code, said, _) = run(&[&["oracle", "set"], args, &["--admin", &server.url]].concat());
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("0x300000009"), "{said}");
        assert_eq!(server.next_request().body, body);
    }
}

#[test]
fn a_score_goes_with_its_time_to_live_and_the_token_of_the_environment() {
    let server = ScriptedServer::answering(&[("PUT /v1/score", 204, "")]);
    let mut command = pole(&["score", "set", "-12.5", "--ttl", "2m", "--admin", &server.url]);
    assert!(command.env("POLE_ADMIN_TOKEN", "secret").output().unwrap().status.success());
    let received = server.next_request();
    assert_eq!(received.body, r#"{"value":-12.5,"ttl_ms":120000}"#);
    assert_eq!(received.token.as_deref(), Some("Bearer secret"));
}

#[test]
fn a_score_needs_a_single_server() {
    let (code, _, said) = run(&["score", "set", "1", "--admin", "http://127.0.0.1:1,http://127.0.0.1:2"]);
    assert_eq!(code, 2, "{said}");
}

#[test]
fn a_hand_over_to_another_server_than_requested_has_failed() {
    let server = ScriptedServer::answering(&[("POST /v1/transfer", 200, r#"{"leader":2,"pause_ms":69.2}"#)]);
    let (code, _, said) = run(&["transfer", "--to", "3", "--admin", &server.url]);
    assert_eq!(code, 1);
    assert!(said.contains("server 3 was to lead, and 2 does"), "{said}");
}

#[test]
fn a_server_that_does_not_lead_hands_nothing_over_if_told_so() {
    const HEALTH: &str = r#"{"id":2,"mode":"follower","leader":1,"quorum":true}"#;
    let server = ScriptedServer::answering(&[("GET /v1/health", 200, HEALTH)]);
    let (code, said, _) = run(&["transfer", "--if-leading", "--admin", &server.url]);
    assert_eq!((code, said.as_str()), (0, "This server leads no others; nothing to do.\n"));
    let alone = ScriptedServer::answering(&[("GET /v1/ensemble", 200, ENSEMBLE), ("", 503, NO_QUORUM)]);
    assert_eq!(run(&["transfer", "--if-leading", "--admin", &alone.url]).0, 0, "it can stop as it is");
    const LEADS: &str = r#"{"id":1,"mode":"leader","leader":1,"quorum":true}"#;
    let leader = ScriptedServer::answering(&[
        ("GET /v1/health", 200, LEADS),
        ("POST /v1/transfer", 200, r#"{"leader":3,"pause_ms":4.1}"#),
    ]);
    let (code, said, _) = run(&["transfer", "--if-leading", "--admin", &leader.url]);
    assert_eq!((code, said.as_str()), (0, "Server 3 leads. No write was answered for 4.1 ms.\n"));
}

#[test]
fn any_server_is_asked_to_hand_over_and_its_refusal_is_printed() {
    let server = ScriptedServer::answering(&[("POST /v1/transfer", 200, r#"{"leader":3,"pause_ms":4.1}"#)]);
    let (code, said, _) = run(&["transfer", "--to", "3", "--timeout", "2s", "--admin", &server.url]);
    assert_eq!((code, said.as_str()), (0, "Server 3 leads. No write was answered for 4.1 ms.\n"));
    assert_eq!(server.next_request().body, r#"{"to":3,"timeout_ms":2000}"#);
    let server = ScriptedServer::answering(&[(
        "POST /v1/transfer",
        409,
        r#"{"error":"server 3 does not follow: it is not caught up","code":"conflict"}"#,
    )]);
    let (code, _, complaint) = run(&["transfer", "--to", "3", "--admin", &server.url]);
    assert_eq!(code, 1);
    assert!(complaint.contains("does not follow"), "{complaint}");
}
