//! Every command of `pole` has a page of reference, a good result and a bad one.
//!
//! The list of commands is read from the help, so a new command fails here until it has both. Other tests look at single
//! commands more closely.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use common::{Running, Scratch, free_base_port, free_port, run};

/// Arguments that succeed, and a part of what they print; arguments that do not, their exit code, and a part of what that
/// says. `{admin}`, `{client}`, `{dir}` and `{base}` stand for a running server and a folder of the test.
struct Example {
    command: &'static str,
    good: &'static str,
    says: &'static str,
    bad: &'static str,
    code: i32,
    complains: &'static str,
}

const fn example(
    command: &'static str,
    (good, says): (&'static str, &'static str),
    (bad, code, complains): (&'static str, i32, &'static str),
) -> Example {
    Example { command, good, says, bad, code, complains }
}

/// In an order in which they can run on one server: a restore needs a backup.
const EXAMPLES: &[Example] = &[
    // The good one is the server of all other examples.
    example("server", ("", ""), ("--config {dir}/nowhere.cfg", 2, "nowhere.cfg: cannot be read")),
    example(
        "up",
        ("--until-ready --base-port {base}", "Pole is up: 5 servers in 3 data centres"),
        ("--topology nowhere", 2, "name a TOML file, or one of two"),
    ),
    example("status", ("--admin {admin}", "Server 1 leads"), ("--admin 127.0.0.1:1", 3, "no server answers")),
    example(
        "explain",
        ("--admin {admin}", "Why server 1: no other stood for election"),
        ("--admin {admin} --last many", 2, "invalid value 'many'"),
    ),
    example(
        "oracle get",
        ("--admin {admin}", "The oracle is history, as configured"),
        ("--admin 127.0.0.1:1", 3, "no server answers"),
    ),
    example(
        "oracle set",
        ("latency --admin {admin}", "The oracle is latency"),
        ("nonsense --admin {admin}", 2, "use one of history, request"),
    ),
    example(
        "transfer",
        ("--if-leading --admin {admin}", "nothing to do"),
        ("--admin {admin}", 1, "there is no other server to hand over to"),
    ),
    example(
        "score set",
        ("5 --admin {admin}", "The score is 5 for the next 30 s"),
        ("much", 2, "invalid value 'much'"),
    ),
    example(
        "shell",
        ("--server {client} -- ls /", "zookeeper"),
        ("--server {client} -- get /none", 1, "Node does not exist"),
    ),
    example(
        "bench",
        ("--server {client} --clients 1 --seconds 1", "1 client, nodes of 100 bytes"),
        ("--mix everything", 2, "expected shares of read, write and create"),
    ),
    example(
        "backup",
        ("{dir}/saved --admin {admin}", "has everything up to"),
        ("{dir}/no/such/folder --admin {admin}", 2, "cannot be written"),
    ),
    example(
        "restore",
        ("{dir}/saved --admin {admin}", "The ensemble has the content of the backup"),
        ("{dir}/zoo.cfg --admin {admin}", 2, "not a whole snapshot"),
    ),
    example(
        "check",
        ("{dir}/saved", "whole, a snapshot at"),
        ("{dir}/bad.cfg", 2, "1 error; a server would not start"),
    ),
    example(
        "convert",
        ("{dir}/zoo.cfg {dir}/pole.toml", "means the same as"),
        ("{dir}/zoo.cfg {dir}/pole.toml", 2, "replace it with --force"),
    ),
    // `tests/migrate.rs` has files of Apache, and `cargo xtask compat --part move` its servers.
    example("migrate check", ("", ""), ("--config {dir}/bad.cfg", 1, "nothing was changed")),
    example(
        "migrate follow",
        ("", ""),
        ("--apache {dir}/zoo.cfg --config {dir}/zoo.cfg", 2, "a copy needs one of its own"),
    ),
    example(
        "migrate take-over",
        ("", ""),
        ("--apache {dir}/nowhere.cfg --config {dir}/zoo.cfg", 2, "nowhere.cfg: cannot be read"),
    ),
    example(
        "entrypoint",
        ("status --admin {admin}", "Server 1 leads"),
        ("zkServer.sh status", 2, "zkServer.sh knows start-foreground only"),
    ),
    example("completions", ("bash", "complete -F _pole"), ("csh", 2, "possible values: bash")),
    // A program of its own: see below.
    example("elect", ("", ""), ("", 0, "")),
    example(
        "lab compare",
        ("--n 3..3 --out {dir}/compared", "Messages and message delays"),
        ("--n 1..2", 2, "invalid value '1..2'"),
    ),
    example(
        "members add",
        ("server.2=127.0.0.1:1:2;3 --observer --admin {admin}", "Server 2 is an observer"),
        ("server.3=127.0.0.1:1 --admin {admin}", 2, "the form is host:quorumPort"),
    ),
    example(
        "members list",
        ("--admin {admin}", "2 members, changed at"),
        ("--admin 127.0.0.1:1", 3, "no server answers"),
    ),
    example(
        "members promote",
        ("1 --admin {admin}", "votes already; nothing to do"),
        ("2 --timeout 1ms --admin {admin}", 1, "Server 2 does not answer"),
    ),
    example(
        "members demote",
        ("2 --admin {admin}", "is an observer already"),
        ("1 --admin {admin}", 1, "0 of 0 voters would answer, which is no quorum"),
    ),
    example(
        "members remove",
        ("2 --admin {admin}", "Server 2 is not a member any more"),
        ("9 --admin {admin}", 2, "server 9 is no member: the members are 1"),
    ),
    example("lab watch", ("ring", "leader"), ("nothing", 2, "no such file, script or algorithm")),
    // Its shortest figure takes a minute without optimisation: `tests/real.rs` and the tests of the lab run it.
    example("lab paper", ("", ""), ("--only 9z", 2, "expected one of 4b, 6")),
];

#[test]
fn every_command_has_a_good_and_a_bad_result() {
    let known: Vec<String> = leaves(&[]).iter().map(|path| path.join(" ")).collect();
    let mut listed: Vec<&str> = EXAMPLES.iter().map(|example| example.command).collect();
    let mut sorted: Vec<&str> = known.iter().map(String::as_str).collect();
    listed.sort_unstable();
    sorted.sort_unstable();
    assert_eq!(listed, sorted, "each command has an example");
    let scratch = Scratch::new("commands");
    let (client, admin) = (format!("127.0.0.1:{}", free_port()), format!("127.0.0.1:{}", free_port()));
    let port = |address: &str| address.rsplit_once(':').unwrap().1.to_owned();
    let config = scratch.file(
        "zoo.cfg",
        &format!(
            "dataDir={}\nserver.1=127.0.0.1:{}:{};127.0.0.1:{}\nadmin.serverPort={}\npreAllocSize=64\n\
             admin.rateLimiterIntervalInMS=0\nstandaloneEnabled=false\nreconfigEnabled=true\n",
            scratch.0.join("data").display(),
            free_port(),
            free_port(),
            port(&client),
            port(&admin)
        ),
    );
    fs::create_dir_all(scratch.0.join("data")).unwrap();
    fs::write(scratch.0.join("data/myid"), "1").unwrap();
    scratch.file("bad.cfg", "dataDir=somewhere\ntickTime=soon\n");
    let mut server = Running::reading_stderr(&["server", "--config", &config]);
    server.until(" serving ");
    let folder = scratch.0.display().to_string();
    let filled = |command: &str, args: &str| {
        let base = free_base_port().to_string();
        let text = format!("{command} {args}").replace("{admin}", &admin).replace("{client}", &client);
        let text = text.replace("{dir}", &folder).replace("{base}", &base);
        text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    for example in EXAMPLES {
        if !example.good.is_empty() {
            let words = filled(example.command, example.good);
            let (code, said, complaint) = run(&words.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(code, 0, "{words:?}: {said}{complaint}");
            assert!(said.contains(example.says), "{words:?}: {said}{complaint}");
        }
        if !example.bad.is_empty() {
            let words = filled(example.command, example.bad);
            let (code, said, complaint) = run(&words.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(code, example.code, "{words:?}: {said}{complaint}");
            assert!(complaint.contains(example.complains), "{words:?}: {said}{complaint}");
        }
    }
    server.signal("-TERM");
    assert_eq!(server.end().code(), Some(0));
}

/// `pole elect` becomes the program beside it, with all its arguments. Any program shows that; without one it says how to
/// get it.
#[test]
fn elect_starts_the_program_beside_it() {
    let scratch = Scratch::new("elect");
    let pole = scratch.0.join("pole");
    fs::hard_link(env!("CARGO_BIN_EXE_pole"), &pole)
        .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_pole"), &pole).map(drop))
        .unwrap();
    let elect = |args: &[&str]| Command::new(&pole).arg("elect").args(args).env("PATH", "/nowhere").output().unwrap();
    let Output { status, stderr, .. } = elect(&["etcd://127.0.0.1:1/a"]);
    let complaint = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("cargo build -p pole-elect"), "{complaint}");
    symlink("/bin/echo", scratch.0.join("pole-elect")).unwrap();
    let Output { status, stdout, .. } = elect(&["etcd://127.0.0.1:1/a", "--id", "b", "--", "./job"]);
    assert_eq!(status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&stdout), "etcd://127.0.0.1:1/a --id b -- ./job\n");
}

#[test]
fn a_misspelt_command_is_answered_with_the_right_one() {
    let (code, _, complaint) = run(&["statsu"]);
    assert_eq!(code, 2);
    assert!(complaint.contains("'status'"), "{complaint}");
}

#[test]
fn help_fits_a_terminal() {
    for path in leaves(&[]) {
        for line in help(&path).lines() {
            // A name and what it means stand in one line, and the longest name is long.
            assert!(line.chars().count() <= 101, "{path:?}: {line}");
        }
    }
}

#[test]
fn the_reference_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let mut page = HEAD.to_owned();
    page += &format!("\n```text\n{}```\n", help(&[]));
    for leaf in leaves(&[]) {
        let text = without_common_options(&help(&leaf));
        page += &format!("\n## pole {}\n\n```text\n{}\n```\n", leaf.join(" "), text.trim_end());
    }
    page += NEXT;
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        fs::write(&path, page).unwrap();
        return;
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), page, "write it again with UPDATE_GOLDENFILES=1");
}

const HEAD: &str = "\
# Commands

Every command of `pole` with its options, as `pole --help` prints it. Written by the tests of `crates/cli`; do not edit.
Each command also has `--json`, `--color` and `--help`.
";

const NEXT: &str = "
## Next

- What `--json` prints: [commands.schema.json](commands.schema.json).
- The commands at work: [administration](admin.md), [operations](operations.md), [the shell](shell.md).
";

/// The help of a command.
fn help(path: &[String]) -> String {
    let words: Vec<&str> = ["help"].into_iter().chain(path.iter().map(String::as_str)).collect();
    let (code, said, complaint) = run(&words);
    assert_eq!(code, 0, "{path:?}: {complaint}");
    // Lines that only separate are indented.
    said.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The commands below a command that have none below them.
fn leaves(path: &[String]) -> Vec<Vec<String>> {
    let text = help(path);
    let Some((_, rest)) = text.split_once("\nCommands:\n") else { return vec![path.to_vec()] };
    let lines = rest.lines().take_while(|line| line.starts_with("  "));
    let names = lines.filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    names.flat_map(|name| leaves(&[path, &[name.to_owned()]].concat())).collect()
}

/// Without the options that all commands have.
fn without_common_options(text: &str) -> String {
    let mut is_common = false;
    let mut kept = Vec::new();
    for line in text.lines() {
        let option = line.trim_start();
        if option.starts_with('-') && line.starts_with(' ') {
            is_common = ["--json", "--color", "-h, --help"].iter().any(|name| option.starts_with(name));
        } else if !line.is_empty() && !line.starts_with(' ') {
            is_common = false;
        }
        if !is_common {
            kept.push(line);
        }
    }
    kept.join("\n").trim_end().trim_end_matches("Options:").trim_end().to_owned()
}
