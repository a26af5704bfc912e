//! Replaces the values in a session that differ from run to run: times, addresses, and numbers chosen by the server.
//!
//! Zxids, sessions and ports are numbered by their first appearance, so equal values stay equal.

/// The session with placeholders.
pub(super) fn text(session: &str) -> String {
    let mut names = Names::default();
    let lines = session.lines().filter(|line| !is_noise(line));
    lines.map(|line| names.plain(line) + "\n").collect()
}

/// The answer to a command, sorted if Apache's order comes from a hash table.
pub(super) fn in_order(command: &str, mut answer: Vec<String>) -> Vec<String> {
    match command.split(' ').next() {
        Some("whoami") => answer.sort(),
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
struct Names {
    zxids: Vec<String>,
    sessions: Vec<String>,
    ports: Vec<String>,
}

impl Names {
    fn plain(&mut self, line: &str) -> String {
        match line.split_once(" = ") {
            Some((field @ ("cZxid" | "mZxid" | "pZxid"), zxid)) if zxid != "0x0" => {
                format!("{field} = {}", name("zxid", &mut self.zxids, zxid))
            }
            Some((field @ ("ctime" | "mtime"), _)) => format!("{field} = <time>"),
            Some(("ephemeralOwner", session)) if session != "0x0" => {
                format!("ephemeralOwner = {}", name("session", &mut self.sessions, session))
            }
            _ => match line.split_once("CLI version: ") {
                Some((before, _)) => format!("{before}CLI version: <version>"),
                None => self.without_ports(line),
            },
        }
    }

    /// Replaces the numbers after each `127.0.0.1:`, of which a server has up to three.
    fn without_ports(&mut self, line: &str) -> String {
        let mut parts = line.split(HOST);
        let mut plain = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            plain += HOST;
            let mut rest = part;
            while let Some(after) = rest.strip_prefix(':') {
                let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                if digits == 0 {
                    break;
                }
                plain += &format!(":{}", name("port", &mut self.ports, &after[..digits]));
                rest = &after[digits..];
            }
            plain += rest;
        }
        plain
    }
}

fn name(kind: &str, known: &mut Vec<String>, value: &str) -> String {
    let place = known.iter().position(|other| other == value).unwrap_or_else(|| {
        known.push(value.to_owned());
        known.len() - 1
    });
    format!("<{kind} {}>", place + 1)
}

const HOST: &str = "127.0.0.1";

#[test]
fn equal_zxids_stay_equal() {
    let session =
        "cZxid = 0x100000002\nctime = Sun Nov 15 13:00:00 UTC 2026\nmZxid = 0x100000003\npZxid = 0x100000002\n";
    assert_eq!(text(session), "cZxid = <zxid 1>\nctime = <time>\nmZxid = <zxid 2>\npZxid = <zxid 1>\n");
}

#[test]
fn no_owner_stays_no_owner() {
    let session = "ephemeralOwner = 0x0\nephemeralOwner = 0x10000abcd\nmZxid = 0x0\n";
    assert_eq!(text(session), "ephemeralOwner = 0x0\nephemeralOwner = <session 1>\nmZxid = 0x0\n");
}

#[test]
fn ports_are_named_and_hosts_kept() {
    let session = "server.1=127.0.0.1:2888:3888:participant;127.0.0.1:2181\n127.0.0.1:2181\nip: 127.0.0.1\n";
    let plain =
        "server.1=127.0.0.1:<port 1>:<port 2>:participant;127.0.0.1:<port 3>\n127.0.0.1:<port 3>\nip: 127.0.0.1\n";
    assert_eq!(text(session), plain);
}

#[test]
fn stacks_of_java_are_left_out() {
    assert_eq!(text("it failed\n\tat org.Example.run(Example.java:1)\n\t... 3 more\n"), "it failed\n");
}

#[test]
fn sets_are_sorted_and_lists_are_not() {
    let line = |text: &str| vec![text.to_owned()];
    assert_eq!(in_order("getEphemerals /", line("[/b, /a]")), ["[/a, /b]"]);
    assert_eq!(in_order("ls /", line("[b, a]")), ["[b, a]"]);
    assert_eq!(in_order("whoami", vec!["ip: 127.0.0.1".to_owned(), "digest: a".to_owned()])[0], "digest: a");
}
