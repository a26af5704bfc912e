//! The commands of the book work, page by page, as a reader would type them.
//!
//! Blocks marked `console` are run: each line after `$ `, all of a page in one shell. So are commands in comments of the
//! form `<!-- $ … -->`, which prepare what a reader has already. On most pages a server runs, as on the page for
//! beginners. Blocks that cannot be run here are listed with what covers them instead, and every command of `pole` that any
//! document names is at least understood.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Scratch, free_port, run};

/// A page, whether a server has to run, and what its commands print.
struct Page {
    name: &'static str,
    with_server: bool,
    says: &'static [&'static str],
}

const PAGES: &[Page] = &[
    Page {
        name: "start.md",
        with_server: false,
        says: &[
            "valid, a server without others",
            "world",
            "Server 1 leads",
            "requests a second",
            "whole, a snapshot at",
            "A server would start at",
        ],
    },
    Page { name: "shell.md", with_server: true, says: &["two words", "[a, zookeeper]", r#""data":"#] },
    Page {
        name: "admin.md",
        with_server: true,
        says: &["Server 1 leads", "The oracle is", "The score is 12.5", "hidden", r#""path":"/private""#],
    },
    Page {
        name: "operations.md",
        with_server: true,
        says: &[
            "requests a second",
            "today.backup has everything",
            "whole, a snapshot at",
            "is the history of this server",
        ],
    },
    #[cfg(feature = "lab")]
    Page { name: "lab.md", with_server: false, says: &["elect"] },
    #[cfg(feature = "lab")]
    Page { name: "algorithms.md", with_server: false, says: &["Messages and message delays"] },
];

/// Blocks of shell commands that are not run, by a text that each contains, and why not.
const NOT_RUN: &[(&str, &str)] = &[
    ("cargo xtask bench", "takes minutes and needs Apache ZooKeeper; a check of tidy knows the chores"),
    ("cargo xtask compat", "`cargo xtask test` runs the part for it"),
    ("pole migrate", "needs servers of Apache; `cargo xtask compat --part move` runs these commands"),
    ("POLE_ELECT_CONTRACT=full", "needs other stores; the tests of pole-elect are these commands"),
    ("go mod init etcd", "builds a store of others"),
    ("kube-apiserver", "builds a store of others"),
    ("systemctl enable", "`tests/package.rs` installs the package and starts the server that way, without systemd"),
    ("crt-static", "the command of `cargo xtask release`; `tests/static_binary.rs` uses its result"),
    ("dashboard_speed", "measures a quiet machine"),
    ("--features kerberos", "needs the C library of Kerberos; `cargo xtask compat --part kerberos` builds it"),
    ("pole lab paper", "takes minutes; `tests/real.rs` and the tests of the lab run parts of it"),
];

#[test]
fn every_command_of_a_page_works() {
    for page in PAGES {
        let text = read(page.name);
        let commands = commands(&text);
        assert!(!commands.is_empty(), "{} has commands", page.name);
        works(page, &commands);
    }
}

#[test]
fn every_page_with_commands_is_run() {
    for (name, text) in pages() {
        let is_run = PAGES.iter().any(|page| page.name == name);
        assert!(
            is_run || commands(&text).is_empty() || !cfg!(feature = "lab"),
            "{name} has commands and is not in PAGES"
        );
        for block in text
            .split("```")
            .skip(1)
            .step_by(2)
            .filter(|block| block.starts_with("sh\n") || block.starts_with("text\n"))
        {
            let is_shell = block.starts_with("sh\n")
                || block.lines().any(|line| line.starts_with("$ ") || line.starts_with("pole "));
            let is_listed = NOT_RUN.iter().any(|(part, _)| block.contains(part));
            assert!(!is_shell || is_listed, "{name}: a block that is neither run nor in NOT_RUN:\n{block}");
        }
    }
}

/// What a reader types, with what is prepared for it.
fn commands(text: &str) -> Vec<String> {
    let mut is_console = false;
    let mut found = Vec::new();
    for line in text.lines() {
        match line {
            "```console" => is_console = true,
            "```" => is_console = false,
            _ => {}
        }
        let prepared = line.strip_prefix("<!-- $ ").and_then(|rest| rest.strip_suffix(" -->"));
        found.extend(prepared.or_else(|| line.strip_prefix("$ ").filter(|_| is_console)).map(str::to_owned));
    }
    found
}

/// Runs the commands of a page in an empty folder, on ports of their own.
fn works(page: &Page, commands: &[String]) {
    let scratch = Scratch::new(&format!("book-{}", page.name.trim_end_matches(".md")));
    // The ports of the page may be taken, here by other tests.
    let (client, admin) = (free_port().to_string(), free_port().to_string());
    let local = |text: &str| text.replace("2181", &client).replace("8080", &admin);
    let start = if page.with_server { local(SERVER) } else { String::new() };
    let folder = Path::new(env!("CARGO_BIN_EXE_pole")).parent().expect("the folder of the binary");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    // Whatever fails, the servers end: those that the shell started are its jobs.
    let script = format!(
        "set -e\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n{start}{}\n",
        local(&commands.join("\n"))
    );
    let output = Command::new("bash").args(["-c", &script]).current_dir(&scratch.0).env("PATH", path).output().unwrap();
    let (said, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {}\n{said}{complaint}", page.name, output.status);
    for part in page.says {
        assert!(said.contains(part), "{}: {part} is not in:\n{said}\n{complaint}", page.name);
    }
}

/// The server of the page for beginners. Backups are not limited here, because a page makes several.
const SERVER: &str = r"
printf 'dataDir=pole-data\nclientPort=2181\nclientPortAddress=127.0.0.1\nadmin.serverPort=8080\nadmin.rateLimiterIntervalInMS=0\npreAllocSize=64\n' > zoo.cfg
pole server --config zoo.cfg 2> pole.log &
SERVER=$!
until pole status --admin 127.0.0.1:8080 > status.txt 2>&1 && grep -q leads status.txt; do kill -0 $SERVER; sleep 0.1; done
";

/// With `--help` at its end, a command does nothing, and is refused if one of its arguments does not exist.
#[test]
fn every_command_of_pole_in_a_document_is_understood() {
    let mut checked = 0;
    for (name, text) in pages().into_iter().chain([("../README.md".to_owned(), read("../README.md"))]) {
        for command in named(&text) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let (code, _, complaint) = run(&[&words[..], &["--help"]].concat());
            assert_eq!(code, 0, "{name}: pole {command}: {complaint}");
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked}");
}

/// The commands in code, in lines and in blocks, without comments and up to what is not an argument of `pole` itself.
fn named(text: &str) -> Vec<String> {
    let in_blocks = text.split("```").skip(1).step_by(2).flat_map(str::lines);
    let in_lines = text.split("```").step_by(2).flat_map(|part| part.split('`').skip(1).step_by(2));
    // What is quoted is an argument with spaces, or a command of the shell.
    let lines =
        in_blocks.chain(in_lines).filter(|line| !line.contains('"')).map(|line| line.trim().trim_start_matches("$ "));
    let commands = lines.filter_map(|line| line.strip_prefix("pole "));
    let ends = [" # ", "  ", " -- ", " < ", " > ", " | ", " 2>", " &", " -c ", "; ", " …"];
    let commands = commands.map(|rest| ends.iter().fold(rest, |rest, end| rest.split(end).next().unwrap_or_default()));
    // Versions, lists of words and placeholders of commands are none; arguments of these two belong to others.
    let is_command = |rest: &&str| rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '-');
    let others = |rest: &&str| !rest.starts_with("elect") && !rest.starts_with("entrypoint") && !rest.contains('|');
    commands.filter(is_command).filter(others).map(|rest| rest.replace(['[', ']'], "")).collect()
}

/// The pages of the book.
fn pages() -> Vec<(String, String)> {
    let entries = fs::read_dir(docs()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.filter(|name| name.ends_with(".md")).collect();
    names.sort();
    names.into_iter().map(|name| (name.clone(), read(&name))).collect()
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn read(name: &str) -> String {
    fs::read_to_string(docs().join(name)).unwrap_or_else(|error| panic!("docs/{name}: {error}"))
}
