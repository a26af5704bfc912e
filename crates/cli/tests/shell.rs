//! `pole shell` on a real server: what it prints, and how it fails.
//!
//! The sessions of Apache's command line that `compat/cli` records are typed into it too, and must be answered with
//! the same lines.

mod common;

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Output, Stdio};

use common::terminal::{Terminal, hang_up_after};
use common::{Running, Scratch, free_port, pole, run};
use serde_json::Value;

/// A standalone server that serves.
struct TestServer {
    address: String,
    _running: Running,
    _scratch: Scratch,
}

impl TestServer {
    fn start(name: &str) -> Self {
        let scratch = Scratch::new(&format!("shell-{name}"));
        let port = free_port();
        let data = scratch.0.join("data");
        let text = format!(
            "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\npreAllocSize=64\n\
             extendedTypesEnabled=true\nenforceQuota=true\n\
             DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=\n",
            data.display()
        );
        let running = Running::reading_stderr(&["server", "--config", &scratch.file("zoo.cfg", &text)]);
        running.until(" serving ");
        Self { address: format!("127.0.0.1:{port}"), _running: running, _scratch: scratch }
    }

    /// Runs one command: exit code, standard output, standard error.
    fn shell(&self, words: &[&str]) -> (i32, String, String) {
        run(&[&["shell", "--server", &self.address, "--"], words].concat())
    }

    fn json(&self, words: &[&str]) -> Value {
        let (code, out, err) = run(&[&["shell", "--json", "--server", &self.address, "--"], words].concat());
        assert_eq!(code, 0, "{words:?}: {err}");
        serde_json::from_str(&out).unwrap_or_else(|why| panic!("{words:?}: {why}: {out}"))
    }

    /// Types lines into a shell.
    fn type_lines(&self, lines: &str) -> (i32, String, String) {
        let mut command = pole(&["shell", "--server", &self.address]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code().unwrap(), text(stdout), text(stderr))
    }
}

#[test]
fn one_command_is_run_and_its_result_printed() {
    let server = TestServer::start("one");
    assert_eq!(server.shell(&["ls", "/"]), (0, "[zookeeper]\n".into(), String::new()));
    assert_eq!(server.shell(&["create", "/a", "some data"]), (0, "Created /a\n".into(), String::new()));
    assert_eq!(server.shell(&["get", "/a"]), (0, "some data\n".into(), String::new()));
    let (code, out, _) = server.shell(&["get", "-s", "/a"]);
    assert_eq!((code, out.lines().count()), (0, 12), "{out}");
    assert!(out.starts_with("some data\ncZxid = 0x"), "{out}");
    assert!(out.ends_with("dataLength = 9\nnumChildren = 0\n"), "{out}");
    assert_eq!(server.shell(&["set", "/a", "--", "-5"]).0, 0);
    assert_eq!(server.shell(&["get", "/a"]).1, "-5\n");
}

#[test]
fn a_command_can_be_given_as_a_line() {
    let server = TestServer::start("line");
    let line = ["shell", "--server", &server.address, "-c", "create /l 'two words'", "-c", "get /l"];
    assert_eq!(run(&line), (0, "Created /l\ntwo words\n".into(), String::new()));
}

#[test]
fn json_has_one_object_for_each_result() {
    let server = TestServer::start("json");
    assert_eq!(server.json(&["create", "/j", "x"])["created"], "/j");
    let node = server.json(&["get", "-s", "/j"]);
    assert_eq!((&node["data"], &node["stat"]["version"]), (&Value::from("x"), &Value::from(0)));
    assert!(node["stat"]["czxid"].as_str().unwrap().starts_with("0x"), "{node}");
    assert_eq!(server.json(&["ls", "/"])["children"], serde_json::json!(["j", "zookeeper"]));
    assert_eq!(server.json(&["getAcl", "/j"])["acl"][0]["perms"], "cdrwa");
    assert_eq!(server.json(&["deleteall", "/j"])["nodes"], 1);
}

#[test]
fn a_refusal_is_1_and_says_why() {
    let server = TestServer::start("refusal");
    for (words, expected) in [
        (&["get", "/nowhere"][..], "Node does not exist: /nowhere"),
        (&["create", "/zookeeper"], "Node already exists: /zookeeper"),
        (&["delete", "/zookeeper"], "Arguments are not valid : /zookeeper"),
        (&["setquota", "-n", "5", "/nowhere"], "/nowhere does not exist."),
        (&["removewatches", "/nowhere"], "KeeperErrorCode = No such watcher for /nowhere"),
        (&["addauth", "unknown", "x"], "Authentication failed"),
    ] {
        let (code, out, err) = server.shell(words);
        assert_eq!((code, out.as_str()), (1, ""), "{words:?}: {err}");
        assert!(err.contains(&format!("pole: {expected}")), "{words:?}: {err}");
    }
}

#[test]
fn a_wrong_command_is_2_and_is_not_sent() {
    let server = TestServer::start("wrong");
    for (words, expected) in [
        (&["nonsense"][..], "Command not found: nonsense"),
        (&["getacl", "/"], "try `getAcl`"),
        (&["ls"], "ls [-s] [-w] [-R] path"),
        (&["ls", "-x", "/"], "Unrecognized option: -x"),
        (&["get", "relative"], "Path must start with / character"),
        (&["get", "/a//b"], "cannot be the name of a node"),
        (&["deleteall", "/"], "the root cannot be deleted"),
        (&["create", "-t", "soon", "/a", "x"], "-t takes a number, got \"soon\""),
        (&["setAcl", "/", "world:anyone:q"], "Unknown perm type: q"),
    ] {
        let (code, out, err) = server.shell(words);
        assert_eq!((code, out.as_str()), (2, ""), "{words:?}: {err}");
        assert!(err.contains(expected), "{words:?}: {err}");
    }
}

#[test]
fn a_server_that_nobody_runs_is_3_and_is_named() {
    let address = format!("127.0.0.1:{}", free_port());
    let (code, _, err) = run(&["shell", "--server", &address, "--", "ls", "/"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains(&address) && err.contains("--server"), "{err}");
}

#[test]
fn servers_that_cannot_be_parsed_are_2() {
    for wrong in ["localhost", "127.0.0.1:x", "127.0.0.1:2181/chroot", "a:1,,b:2"] {
        let (code, _, err) = run(&["shell", "--server", wrong, "--", "ls", "/"]);
        assert_eq!(code, 2, "{wrong}: {err}");
    }
}

#[test]
fn a_server_without_a_quorum_is_4() {
    let scratch = Scratch::new("shell-no-quorum");
    let ports: Vec<u16> = (0..7).map(|_| free_port()).collect();
    let text = format!(
        "dataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\npreAllocSize=64\n\
         server.1=127.0.0.1:{}:{}\nserver.2=127.0.0.1:{}:{}\nserver.3=127.0.0.1:{}:{}\n",
        scratch.0.join("data").display(),
        ports[0],
        ports[1],
        ports[2],
        ports[3],
        ports[4],
        ports[5],
        ports[6],
    );
    scratch.file("data/myid", "1");
    let server = Running::reading_stderr(&["server", "--config", &scratch.file("zoo.cfg", &text)]);
    server.until(" electing ");
    let address = format!("127.0.0.1:{}", ports[0]);
    let (code, _, err) = run(&["shell", "--server", &address, "--timeout", "2s", "--", "ls", "/"]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("quorum") && err.contains(&address), "{err}");
}

#[test]
fn lines_of_standard_input_go_on_after_a_failure_and_the_exit_code_tells() {
    let server = TestServer::start("lines");
    let (code, out, err) = server.type_lines("create /t one\n\nget /nowhere\nget /t\nquit\nget /t\n");
    assert_eq!((code, out.as_str()), (1, "Created /t\none\n"), "{err}");
    assert_eq!(err, "Node does not exist: /nowhere\npole: 1 of 4 commands failed\n");
    let (code, out, _) = server.type_lines("set /t two\nget /t\n");
    assert_eq!((code, out.as_str()), (0, "two\n"));
}

#[test]
fn a_session_ends_with_its_shell() {
    let server = TestServer::start("ephemeral");
    assert_eq!(server.type_lines("create -e /e x\ngetEphemerals\n").1, "Created /e\n[/e]\n");
    assert_eq!(server.shell(&["get", "/e"]).2, "pole: Node does not exist: /e\n");
}

#[test]
fn every_command_of_the_list_has_help() {
    let server = TestServer::start("help");
    let (code, out, _) = server.shell(&["help"]);
    assert_eq!(code, 0);
    for name in ["ls", "addWatch", "setquota", "whoami", "redo"] {
        assert!(out.lines().any(|line| line.split(' ').next() == Some(name)), "{name}: {out}");
    }
}

#[test]
fn a_terminal_has_a_prompt_completion_and_events_above_the_line() {
    let server = TestServer::start("terminal");
    let mut terminal = Terminal::start(&["shell", "--server", &server.address]);
    terminal.until(&format!("[{} 0] ", server.address));
    terminal.type_keys("cre\t/first one\r");
    terminal.until("Created /first");
    terminal.type_keys("get -w /fi\t\r");
    terminal.until("\none\r\n");
    assert_eq!(server.shell(&["set", "/first", "two"]).0, 0);
    terminal.until("WatchedEvent state:SyncConnected type:NodeDataChanged path:/first");
    terminal.type_keys("get /nowhere\r");
    terminal.until("Node does not exist: /nowhere");
    terminal.until("3] ");
    terminal.type_keys("\x04");
    terminal.assert_restored();
}

#[test]
fn a_terminal_that_goes_away_ends_the_shell() {
    let server = TestServer::start("hangup");
    assert_eq!(hang_up_after(&["shell", "--server", &server.address], "0] "), Some(1));
}

/// What Apache's command line printed on Apache's server, `pole shell` prints on ours.
#[test]
fn the_recorded_sessions_of_apache_are_answered_with_the_same_lines() {
    for script in ["nodes", "data", "acl", "quota", "watches"] {
        let server = TestServer::start(script);
        let address: SocketAddr = server.address.parse().unwrap();
        let shell = |at: SocketAddr| pole(&["shell", "--server", &at.to_string()]);
        let differences = pole_harness::compat::replay_cli(script, address, &shell).unwrap();
        assert!(differences.is_empty(), "{script}:\n{}", differences.join("\n"));
    }
}
