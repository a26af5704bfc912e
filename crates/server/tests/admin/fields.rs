//! Every field that Apache ZooKeeper 3.9 shows in four-letter words and on the pages of its admin server is there, or
//! has a reason in a document.
//!
//! Apache's fields are recorded in `compat/fields`, one line for each: the role of the server, the word or command, and
//! the field. The test `recorded` starts Apache to record them again; it needs Java. Reasons are in the table "Fields" of
//! `docs/compat.md`, and those of metrics in `docs/admin.md`.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pole_client::blocking::Session;
use pole_client::{create, get_data};
use pole_jute::CreateMode;
use serde_json::Value;

use crate::names::documented;
use crate::test_server::{TEST_TIMEOUT, TestServer, free_port, word_at};

#[test]
fn every_field_of_apache_is_there_or_has_a_reason() {
    let recording = fs::read_to_string(recording()).expect("the recording of Apache's fields");
    let expected: BTreeSet<String> =
        recording.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    assert_missing_have_reasons(&expected, &fields_of_pole());
}

/// Only what is missing on Pole may have a row in the table, so that it does not outlive its causes. Metrics may be listed
/// that Apache shows only under load.
fn assert_missing_have_reasons(expected: &BTreeSet<String>, ours: &BTreeSet<String>) {
    let missing: Vec<&String> = expected.difference(ours).collect();
    let reasons = reasons();
    let unexplained: Vec<_> = missing.iter().filter(|line| !reasons.iter().any(|reason| reason.covers(line))).collect();
    assert!(unexplained.is_empty(), "missing on Pole, and without a reason: {unexplained:#?}");
    let is_needed = |reason: &&Reason| reason.is_metric || missing.iter().any(|line| reason.covers(line));
    let unneeded: Vec<_> = reasons.iter().filter(|reason| !is_needed(reason)).map(|reason| &reason.field).collect();
    assert!(unneeded.is_empty(), "has a reason and is not missing: {unneeded:?}");
}

/// Records Apache's fields again, with the class path in `ZOOKEEPER_CLASSPATH`, which needs Jetty for the admin server.
#[test]
#[ignore = "needs java and the jars of Apache ZooKeeper 3.9"]
fn recorded() {
    let fields = fields_of_apache();
    let mut text = String::from("# The fields of Apache ZooKeeper 3.9.2: role, word or command, field.\n");
    fields.iter().for_each(|line| text.push_str(&format!("{line}\n")));
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        fs::write(recording(), &text).expect("it is written");
    }
    assert_missing_have_reasons(&fields, &fields_of_pole());
    assert_eq!(fs::read_to_string(recording()).unwrap_or_default(), text);
}

fn recording() -> PathBuf {
    root().join("compat/fields/apache-3.9.2.txt")
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Why a field is missing.
struct Reason {
    /// The words and commands that it concerns; empty for all.
    pages: Vec<String>,
    /// The field; a star stands for any text.
    field: String,
    is_metric: bool,
}

impl Reason {
    fn covers(&self, line: &str) -> bool {
        let mut parts = line.splitn(3, ' ');
        let (_, page, field) = (parts.next(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let is_here = self.pages.is_empty() || self.pages.iter().any(|known| known == page);
        is_here
            && match self.field.split_once('*') {
                None => field == self.field,
                Some((start, end)) => {
                    field.len() >= start.len() + end.len() && field.starts_with(start) && field.ends_with(end)
                }
            }
    }
}

fn reasons() -> Vec<Reason> {
    let page = fs::read_to_string(root().join("docs/compat.md")).expect("a page");
    let (_, after) = page.split_once("\n| where | field | why it is missing |").expect("the table of fields");
    let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let rows = after.lines().skip(2).take_while(|line| line.starts_with('|'));
    let of_row = |row: &str| {
        let cells: Vec<&str> = row.split('|').collect();
        let pages = names(cells[1]);
        names(cells[2])
            .into_iter()
            .map(move |field| Reason { pages: pages.clone(), field, is_metric: false })
            .collect::<Vec<_>>()
    };
    let metrics = documented().into_iter().filter(|(_, kind)| kind == "absent");
    let of_metric = |(name, _): (String, String)| Reason {
        pages: vec!["mntr".into(), "monitor".into()],
        field: format!("*{name}"),
        is_metric: true,
    };
    rows.flat_map(of_row).chain(metrics.map(of_metric)).collect()
}

/// The fields of a server on its own, of a leader and of a follower.
fn fields_of_pole() -> BTreeSet<String> {
    let settings = "4lw.commands.whitelist=*\npole.resign=off\npole.livenessTimeoutMs=20000\n";
    let alone = TestServer::standalone(settings);
    alone.wait_until_serving();
    let mut fields = observe("standalone", alone.client, alone.admin.expect("an admin server"));
    let three = TestServer::three(settings);
    three.iter().for_each(TestServer::wait_until_serving);
    let leader = three[0].health().1["leader"].as_u64().expect("a leader");
    for (id, server) in (1..).zip(&three) {
        let role = if id == leader { "leader" } else { "follower" };
        fields.extend(observe(role, server.client, server.admin.expect("an admin server")));
    }
    fields
}

fn fields_of_apache() -> BTreeSet<String> {
    let alone = Apache::start(0, "");
    let mut fields = observe("standalone", alone.client, alone.admin);
    drop(alone);
    let lines: String = (1..=3).map(|id| format!("server.{id}=127.0.0.1:{}:{}\n", free_port(), free_port())).collect();
    let three: Vec<Apache> = (1..=3).map(|id| Apache::start(id, &lines)).collect();
    for server in &three {
        server.wait();
        let role = if word_at(server.client, "srvr").contains("Mode: leader") { "leader" } else { "follower" };
        fields.extend(observe(role, server.client, server.admin));
    }
    fields
}

/// A server of Apache's, which ends with this value.
struct Apache {
    process: Child,
    dir: PathBuf,
    client: SocketAddr,
    admin: SocketAddr,
}

impl Apache {
    fn start(id: u64, lines: &str) -> Self {
        let (client, admin) = (free_port(), free_port());
        let dir = std::env::temp_dir().join(format!("pole-fields-{}-{id}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        fs::write(dir.join("myid"), id.to_string()).expect("a file");
        let text = format!(
            "dataDir={}\ntickTime=500\ninitLimit=40\nsyncLimit=40\nclientPort={client}\nadmin.serverPort={admin}\n\
             4lw.commands.whitelist=*\n{lines}",
            dir.display()
        );
        let file = dir.join("zoo.cfg");
        fs::write(&file, text).expect("a file");
        let class_path = std::env::var("ZOOKEEPER_CLASSPATH").expect("ZOOKEEPER_CLASSPATH names the jars");
        let mut command = Command::new("java");
        command.args(["-Xmx128m", "-cp", &class_path, "org.apache.zookeeper.server.quorum.QuorumPeerMain"]).arg(file);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("java");
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let server = Self { process, dir, client: at(client), admin: at(admin) };
        if lines.is_empty() {
            server.wait();
        }
        server
    }

    /// Waits until it serves.
    fn wait(&self) {
        let limit = std::time::Instant::now() + TEST_TIMEOUT;
        let serves = || Session::connect(self.client, TEST_TIMEOUT).is_ok();
        while !serves() {
            assert!(std::time::Instant::now() < limit, "Apache's server does not start: {}", self.dir.display());
            // There is no event to wait for.
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Reads all words and commands of a server that has a client with a node, a watch and a read.
fn observe(role: &str, client: SocketAddr, admin: SocketAddr) -> BTreeSet<String> {
    let mut session = Session::connect(client, TEST_TIMEOUT).expect("a session");
    session.ask(create(&format!("/fields-{role}"), b"x", CreateMode::Ephemeral)).ok();
    session.ask(get_data("/zookeeper", true)).expect("it is read");
    let mut fields = BTreeSet::new();
    let mut add = |page: &str, names: BTreeSet<String>| {
        fields.extend(names.into_iter().map(|name| format!("{role} {page} {name}")));
    };
    for word in ["conf", "cons", "dump", "envi", "mntr", "srvr", "stat", "wchs", "dirs"] {
        add(word, of_text(word, &word_at(client, word)));
    }
    for command in COMMANDS {
        let (status, body) = TestServer::http_at(admin, "GET", &format!("/commands/{command}"), "", "");
        let page: Value =
            serde_json::from_str(&body).unwrap_or_else(|error| panic!("{command}: {status} {error} {body}"));
        let mut names = BTreeSet::new();
        of_json(&page, "", &mut names);
        add(command, names);
    }
    fields
}

/// The names in an answer to a four-letter word.
fn of_text(word: &str, text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let before = |separator| line.split(separator).next().unwrap_or_default();
        let mut one = |name: String| _ = names.insert(name);
        match word {
            "mntr" => one(without_numbers(before('\t').trim_start_matches("zk_"))),
            "conf" | "envi" if line.contains('=') => one(before('=').to_owned()),
            // Client lines of `cons` and `stat`: `/address[1](queued=0,recved=1,…)`.
            _ if line.starts_with(" /") => {
                let inner = line.split_once('(').map_or("", |(_, inner)| inner);
                names.extend(inner.split(',').filter_map(|pair| pair.split_once('=')).map(|(name, _)| name.to_owned()));
            }
            // Lines of a list: `\tip: /address sessionId: 0x1`.
            _ if line.starts_with('\t') => {
                names.extend(line.split_whitespace().filter(|word| word.ends_with(':')).map(str::to_owned));
            }
            _ if line.contains(" expire at ") => one("expire at".to_owned()),
            _ if line.starts_with("0x") => {}
            _ => one(line.split([':', '(']).next().unwrap_or_default().trim().to_owned()),
        }
    }
    names
}

/// The names in a JSON document, with the path to each.
fn of_json(value: &Value, prefix: &str, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                // Sessions and times as names.
                let name = if name.parse::<i64>().is_ok() { "N".to_owned() } else { without_numbers(name) };
                let path = format!("{prefix}{name}");
                of_json(value, &format!("{path}."), names);
                names.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| of_json(item, &format!("{prefix}[]."), names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// `avg_2_ack_latency` becomes `avg_N_ack_latency`.
fn without_numbers(name: &str) -> String {
    let part = |part: &str| if part.parse::<u64>().is_ok() { "N".to_owned() } else { part.to_owned() };
    name.split('_').map(part).collect::<Vec<_>>().join("_")
}

/// Apache's commands, except those that change something.
const COMMANDS: [&str; 21] = [
    "configuration",
    "connections",
    "dirs",
    "dump",
    "environment",
    "get_trace_mask",
    "hash",
    "initial_configuration",
    "is_read_only",
    "last_snapshot",
    "leader",
    "monitor",
    "observers",
    "ruok",
    "server_stats",
    "stats",
    "system_properties",
    "voting_view",
    "watch_summary",
    "watches",
    "zabstate",
];
