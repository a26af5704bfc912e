//! A script: the commands of one or more clients, and when to wait for events.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::client::Client;
use super::normalize;
use crate::Failure;

/// A file `NAME.zk`.
pub(super) struct Script {
    pub(super) name: String,
    /// The file with Apache's answers.
    pub(super) expected: PathBuf,
    steps: Vec<Step>,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// A command for a client; clients are numbered from 1.
    Type { client: usize, line: String },
    /// Waits for this many events, of any client.
    Await(usize),
}

impl Script {
    /// All scripts of a folder, sorted by name.
    pub(super) fn all(folder: &Path) -> Result<Vec<Self>, Failure> {
        let entries = fs::read_dir(folder).map_err(|why| Failure::io("read", folder, &why))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "zk"));
        paths.sort();
        let read = |path: &PathBuf| {
            let text = fs::read_to_string(path).map_err(|why| Failure::io("read", path, &why))?;
            let name = path.file_stem().expect("a script has a name").to_string_lossy().into_owned();
            Ok(Self { name, expected: path.with_extension("expected"), steps: parse(&text) })
        };
        paths.iter().map(read).collect()
    }

    /// Whether the script applies to an ensemble of this size.
    pub(super) fn runs_with(&self, size: usize) -> bool {
        match size {
            1 => !self.name.starts_with("ensemble-"),
            _ => !self.name.starts_with("standalone-"),
        }
    }

    /// Whether the configuration of the servers contains client addresses.
    pub(super) fn wants_addresses(&self) -> bool {
        self.name.starts_with("ensemble-addresses")
    }

    /// Whether the servers allow changes of their members.
    pub(super) fn wants_reconfig(&self) -> bool {
        self.name.starts_with("ensemble-reconfig")
    }

    /// Runs the script, and returns commands and answers unchanged. `start` starts a client of a server.
    pub(super) fn run(
        &self,
        servers: &[SocketAddr],
        start: &dyn Fn(SocketAddr) -> Result<Client, Failure>,
    ) -> Result<String, Failure> {
        let mut clients: BTreeMap<usize, Client> = BTreeMap::new();
        let mut text = String::new();
        for step in &self.steps {
            match step {
                Step::Type { client: number, line } => {
                    let server = servers[(number - 1) % servers.len()];
                    if !clients.contains_key(number) {
                        clients.insert(*number, start(server)?);
                    }
                    let client = clients.get_mut(number).expect("it was just put there");
                    let prompt = if *number == 1 { String::new() } else { number.to_string() };
                    text += &format!("{prompt}{PROMPT}{line}\n");
                    let answers = client.run_command(&line.replace("{server}", &server.to_string()))?;
                    for answer in normalize::sort_answer(line, answers) {
                        text += &format!("{answer}\n");
                    }
                }
                Step::Await(count) => {
                    text += &format!("{PROMPT}await {count}\n");
                    text += &events(&mut clients, *count, EVENT_LIMIT)?;
                }
            }
        }
        let remaining = events(&mut clients, 0, Duration::ZERO)?;
        if !remaining.is_empty() {
            text += &format!("{PROMPT}events that nobody awaited\n{remaining}");
        }
        clients.into_values().try_for_each(Client::quit)?;
        Ok(text)
    }
}

/// Waits for `count` events, or until the limit, and returns all events, sorted: those of two clients have no order.
fn events(clients: &mut BTreeMap<usize, Client>, count: usize, limit: Duration) -> Result<String, Failure> {
    let deadline = Instant::now() + limit;
    let mut seen = Vec::new();
    loop {
        for (number, client) in clients.iter_mut() {
            seen.extend(client.events()?.into_iter().map(|event| format!("{number}: {event}\n")));
        }
        if seen.len() >= count || Instant::now() >= deadline {
            seen.sort();
            return Ok(seen.concat());
        }
    }
}

fn parse(text: &str) -> Vec<Step> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let step = |line: &str| {
        if let Some(count) = line.strip_prefix("await ").and_then(|count| count.parse().ok()) {
            return Step::Await(count);
        }
        let numbered = line.split_once(PROMPT).and_then(|(number, rest)| Some((number.parse().ok()?, rest)));
        let (client, line) = numbered.unwrap_or((1, line));
        Step::Type { client, line: line.to_owned() }
    };
    lines.map(step).collect()
}

/// Whether a line of the session is a command, not an answer.
pub(super) fn is_command(line: &str) -> bool {
    line.split_once(PROMPT).is_some_and(|(before, _)| before.chars().all(|c| c.is_ascii_digit()))
}

const PROMPT: &str = "> ";

/// Events follow within milliseconds; one that has not arrived by now is missing.
const EVENT_LIMIT: Duration = Duration::from_secs(10);

#[test]
fn lines_are_for_a_client_or_a_wait() {
    let line = |client, line: &str| Step::Type { client, line: line.to_owned() };
    assert_eq!(parse("# why\nls /\n\n2> get /a\nawait 3\n"), [line(1, "ls /"), line(2, "get /a"), Step::Await(3)]);
    assert_eq!(parse("set /a x> y"), [line(1, "set /a x> y")]);
}

#[test]
fn commands_are_distinguished_from_answers() {
    assert!(is_command("> ls /") && is_command("2> ls /"));
    assert!(!is_command("[a, b]") && !is_command("x> y"));
}
