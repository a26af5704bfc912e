//! Sessions of Apache's command line, compared line by line.
//!
//! The answers to a script `compat/cli/NAME.zk` are compared with `NAME.expected`, which was recorded from Apache.
//! The command line shows every field of every answer, and how errors reach a user. Each script has fresh servers, so
//! that earlier scripts cannot affect it. `normalize` replaces what differs from run to run.

mod client;
mod normalize;
mod script;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use super::options::Options;
use super::{Tally, message, servers, work_dir};
use crate::Failure;
use crate::command::root;
use crate::ensemble::{Ensemble, Launcher, Product, Setup};
use client::Client;
use script::Script;

/// Runs all scripts for this size.
pub(super) fn run(options: &Options, size: usize, launchers: &[Launcher]) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    for script in Script::all(&root().join("compat/cli"))?.iter().filter(|script| script.runs_with(size)) {
        for launcher in launchers {
            let differences = match run_script(script, size, launcher) {
                Ok(session) => compare(script, size, launcher, &session, options.record)?,
                Err(why) => vec![message(why)],
            };
            let verdict = if differences.is_empty() { "same" } else { "DIFFERENT" };
            println!("cli {} on {}, servers: {size}: {verdict}", script.name, launcher.product);
            for line in &differences {
                println!("    {line}");
            }
            tally.add(&Tally::of(differences.is_empty()));
        }
    }
    Ok(tally)
}

/// Types a script into another command line, which `shell` prepares for a server. Returns the commands whose answers
/// differ from those of Apache's command line on Apache's server.
pub fn replay(name: &str, server: SocketAddr, shell: &dyn Fn(SocketAddr) -> Command) -> Result<Vec<String>, Failure> {
    let scripts = Script::all(&root().join("compat/cli"))?;
    let script = scripts.iter().find(|script| script.name == name);
    let script = script.ok_or_else(|| Failure::Check(format!("there is no script compat/cli/{name}.zk")))?;
    let session = normalize::session(&script.run(&[server], &|at| Client::start(shell(at)))?);
    let path = &script.expected;
    let expected = fs::read_to_string(path).map_err(|why| Failure::io("read", path, &why))?;
    Ok(differences(&without_java(&expected), &session))
}

/// The recording without the class names of Java exceptions, which no other command line prints.
fn without_java(recorded: &str) -> String {
    let line = |line: &str| match line.split_once("Exception: ") {
        Some((class, message)) if class.starts_with("org.apache.") => format!("{message}\n"),
        Some(_) | None => format!("{line}\n"),
    };
    recorded.lines().map(line).collect()
}

/// The differences from the recording, which is first updated if requested.
fn compare(
    script: &Script,
    size: usize,
    launcher: &Launcher,
    session: &str,
    record: bool,
) -> Result<Vec<String>, Failure> {
    let path = &script.expected;
    // With three servers the answers must be the same: that is compared, not recorded.
    let is_reference = launcher.product == Product::Apache && (size == 1 || !script.runs_with(1));
    if record && is_reference {
        fs::write(path, session).map_err(|why| Failure::io("write", path, &why))?;
    }
    let expected = fs::read_to_string(path).map_err(|why| Failure::io("read", path, &why))?;
    Ok(differences(&expected, session))
}

/// The normalized session. Also written to a file beside the logs.
fn run_script(script: &Script, size: usize, launcher: &Launcher) -> Result<String, Failure> {
    let name = format!("compat-cli-{}-{size}", launcher.product);
    let setup = CONFIG.iter().fold(Setup::new(&name, size), |setup, line| setup.with(line));
    let setup = if script.wants_reconfig() { setup.with("reconfigEnabled=true") } else { setup };
    let ensemble = match script.wants_addresses() {
        true => servers::with_addresses(launcher, &setup)?,
        false => Ensemble::ready(launcher, &setup)?,
    };
    let session = normalize::session(&script.run(&ensemble.addresses(), &Client::apache)?);
    ensemble.done()?;
    let path = session_path(&script.name, size, launcher.product);
    fs::create_dir_all(path.parent().expect("it lies in a folder"))
        .map_err(|why| Failure::io("create", &path, &why))?;
    fs::write(&path, &session).map_err(|why| Failure::io("write", &path, &why))?;
    Ok(session)
}

fn session_path(name: &str, size: usize, product: Product) -> PathBuf {
    work_dir().join(format!("cli/{product}-{size}/{name}.txt"))
}

/// The commands whose answers differ, with the first line that does.
fn differences(expected: &str, session: &str) -> Vec<String> {
    let (expected, session) = (by_command(expected), by_command(session));
    let mut found = Vec::new();
    for index in 0..expected.len().max(session.len()) {
        let (wanted, got) = (expected.get(index), session.get(index));
        if wanted != got {
            found.push(difference(wanted.map_or(&[], Vec::as_slice), got.map_or(&[], Vec::as_slice)));
        }
    }
    found.truncate(DIFFERENCES_MAX);
    found
}

/// Each command with the lines of its answer.
fn by_command(session: &str) -> Vec<Vec<&str>> {
    let mut blocks: Vec<Vec<&str>> = Vec::new();
    for line in session.lines() {
        match blocks.last_mut() {
            Some(block) if !script::is_command(line) => block.push(line),
            Some(_) | None => blocks.push(vec![line]),
        }
    }
    blocks
}

fn difference(wanted: &[&str], got: &[&str]) -> String {
    let command = wanted.first().or(got.first()).copied().unwrap_or_default();
    let at = (0..).find(|&line| wanted.get(line) != got.get(line)).expect("they differ somewhere");
    let shown = |line: Option<&&str>| line.map_or("nothing more".to_owned(), |line| format!("`{line}`"));
    format!("`{command}`: Apache says {}, this says {}", shown(wanted.get(at)), shown(got.get(at)))
}

/// Enables node types that are off by default, enforces quotas, and adds a superuser.
const CONFIG: &[&str] = &["extendedTypesEnabled=true", "enforceQuota=true", servers::SUPERUSER];

/// More would not help a reader; the rest is in the file.
const DIFFERENCES_MAX: usize = 12;

#[test]
fn one_line_more_is_one_difference() {
    let found = differences("> ls /\n[a]\n> get /a\nx\n", "> ls /\n[a]\nnoise\n> get /a\nx\n");
    assert_eq!(found, ["`> ls /`: Apache says nothing more, this says `noise`"]);
}

#[test]
fn each_command_with_another_answer_is_a_difference() {
    let found = differences("> ls /\n[a]\n> get /a\nx\n> ls /b\n", "> ls /\n[b]\n> get /a\ny\n> ls /b\n");
    assert_eq!(found, ["`> ls /`: Apache says `[a]`, this says `[b]`", "`> get /a`: Apache says `x`, this says `y`"]);
}

#[test]
fn a_session_that_is_cut_off_differs() {
    let found = differences("> ls /\n[a]\n> get /a\nx\n", "> ls /\n[a]\n");
    assert_eq!(found, ["`> get /a`: Apache says `> get /a`, this says nothing more"]);
}
