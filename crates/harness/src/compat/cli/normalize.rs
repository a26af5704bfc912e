//! Replaces the values in a session that differ from run to run: times, addresses, and numbers chosen by the server.
//!
//! Zxids, versions of the members, sessions and ports are numbered by their first appearance, so equal values stay equal.

/// The session with placeholders.
pub(super) fn session(text: &str) -> String {
    let mut placeholders = Placeholders::default();
    let lines = text.lines().filter(|line| !is_noise(line));
    lines.map(|line| placeholders.line(line) + "\n").collect()
}

/// The answer to a command, sorted if Apache's order comes from a hash table.
pub(super) fn sort_answer(command: &str, mut answer: Vec<String>) -> Vec<String> {
    match command.split(' ').next() {
        Some("whoami") => answer.sort(),
        Some("config" | "get" | "reconfig") => {
            let is_server = |line: &String| line.starts_with("server.");
            let first = answer.iter().position(is_server).unwrap_or(answer.len());
            let count = answer[first..].iter().take_while(|line| is_server(line)).count();
            answer[first..first + count].sort();
        }
        Some("getEphemerals") => answer.iter_mut().for_each(|line| *line = sorted_list(line)),
        _ => (),
    }
    answer
}

/// Turns `[b, a]` into `[a, b]`.
fn sorted_list(line: &str) -> String {
    let Some(list) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else { return line.to_owned() };
    let mut items: Vec<&str> = list.split(", ").collect();
    items.sort_unstable();
    format!("[{}]", items.join(", "))
}

/// Java stack traces, which depend on Apache's client only.
fn is_noise(line: &str) -> bool {
    line.starts_with("\tat ") || line.starts_with("\t... ")
}

#[derive(Default)]
struct Placeholders {
    zxids: Vec<String>,
    versions: Vec<String>,
    sessions: Vec<String>,
    ports: Vec<String>,
}

impl Placeholders {
    fn line(&mut self, line: &str) -> String {
        match line.split_once(" = ") {
            Some((field @ ("cZxid" | "mZxid" | "pZxid"), zxid)) if zxid != "0x0" => {
                format!("{field} = {}", placeholder("zxid", &mut self.zxids, zxid))
            }
            Some((field @ ("ctime" | "mtime"), _)) => format!("{field} = <time>"),
            Some(("ephemeralOwner", session)) if session != "0x0" => {
                format!("ephemeralOwner = {}", placeholder("session", &mut self.sessions, session))
            }
            _ => match line.split_once("CLI version: ") {
                Some((before, _)) => format!("{before}CLI version: <version>"),
                None => match line.strip_prefix("version=") {
                    Some(version) if version != "0" => {
                        format!("version={}", placeholder("version", &mut self.versions, version))
                    }
                    _ => self.without_ports(&self.without_version(line)),
                },
            },
        }
    }

    /// Replaces a version that appeared before and now begins a line, as `config -c` prints it.
    fn without_version(&self, line: &str) -> String {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        match self.versions.iter().position(|version| version == first) {
            Some(index) => format!("<version {}> {rest}", index + 1),
            None => line.to_owned(),
        }
    }

    /// Replaces the numbers after each `127.0.0.1:`, of which a server has up to three.
    fn without_ports(&mut self, line: &str) -> String {
        let mut parts = line.split(HOST);
        let mut replaced = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            replaced += HOST;
            let mut rest = part;
            while let Some(after) = rest.strip_prefix(':') {
                let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                if digits == 0 {
                    break;
                }
                replaced += &format!(":{}", placeholder("port", &mut self.ports, &after[..digits]));
                rest = &after[digits..];
            }
            replaced += rest;
        }
        replaced
    }
}

fn placeholder(kind: &str, known: &mut Vec<String>, value: &str) -> String {
    let index = known.iter().position(|other| other == value).unwrap_or_else(|| {
        known.push(value.to_owned());
        known.len() - 1
    });
    format!("<{kind} {}>", index + 1)
}

const HOST: &str = "127.0.0.1";

#[test]
fn equal_zxids_stay_equal() {
    let text = "cZxid = 0x100000002\nctime = Sun Nov 15 13:00:00 UTC 2026\nmZxid = 0x100000003\npZxid = 0x100000002\n";
    assert_eq!(session(text), "cZxid = <zxid 1>\nctime = <time>\nmZxid = <zxid 2>\npZxid = <zxid 1>\n");
}

#[test]
fn versions_of_the_members_are_numbered_and_the_first_one_is_kept() {
    let text = "version=0\nversion=100000007\n100000007 ,,\n0 ,,\n";
    assert_eq!(session(text), "version=0\nversion=<version 1>\n<version 1> ,,\n0 ,,\n");
}

#[test]
fn a_missing_owner_stays_missing() {
    let text = "ephemeralOwner = 0x0\nephemeralOwner = 0x10000abcd\nmZxid = 0x0\n";
    assert_eq!(session(text), "ephemeralOwner = 0x0\nephemeralOwner = <session 1>\nmZxid = 0x0\n");
}

#[test]
fn ports_are_named_and_hosts_kept() {
    let text = "server.1=127.0.0.1:2888:3888:participant;127.0.0.1:2181\n127.0.0.1:2181\nip: 127.0.0.1\n";
    let plain =
        "server.1=127.0.0.1:<port 1>:<port 2>:participant;127.0.0.1:<port 3>\n127.0.0.1:<port 3>\nip: 127.0.0.1\n";
    assert_eq!(session(text), plain);
}

#[test]
fn java_stack_traces_are_left_out() {
    assert_eq!(session("it failed\n\tat org.Example.run(Example.java:1)\n\t... 3 more\n"), "it failed\n");
}

#[test]
fn sets_are_sorted_and_lists_are_not() {
    let line = |text: &str| vec![text.to_owned()];
    assert_eq!(sort_answer("getEphemerals /", line("[/b, /a]")), ["[/a, /b]"]);
    assert_eq!(sort_answer("ls /", line("[b, a]")), ["[b, a]"]);
    assert_eq!(sort_answer("whoami", vec!["ip: 127.0.0.1".to_owned(), "digest: a".to_owned()])[0], "digest: a");
}
