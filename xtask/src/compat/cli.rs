//! Apache's command line: sessions as a person would type them, compared line by line.
//!
//! In: `compat/cli/NAME.zk`. Out: what the command line answered, against `NAME.expected`, which was recorded from Apache.
//! Why: it shows every field of every answer, and how errors reach a user.
//! Holds: each script has fresh servers, so that it has only its own reasons to fail.
//! Not here: what differs from run to run (`plain` takes it out).

mod client;
mod plain;
mod script;

use std::fs;
use std::path::PathBuf;

use super::options::Options;
use super::{Tally, java, work_dir};
use crate::Failure;
use crate::command::root;
use crate::ensemble::{Ensemble, Launcher, Product, Setup};
use script::Script;

/// Runs all scripts for this size.
pub(super) fn run(options: &Options, size: usize, launchers: &[Launcher]) -> Result<Tally, Failure> {
    // Before any server is started: without Java nothing can be compared.
    java::prepare()?;
    let mut tally = Tally::default();
    for script in Script::all(&root().join("compat/cli"))?.iter().filter(|script| script.runs_with(size)) {
        for launcher in launchers {
            let said = answers(script, size, launcher)?;
            if launcher.product == Product::Apache && options.record {
                fs::write(&script.expected, &said).map_err(|why| Failure::io("write", &script.expected, &why))?;
            }
            let expected = fs::read_to_string(&script.expected).map_err(|why| Failure::io("read", &script.expected, &why))?;
            let differences = differences(&expected, &said);
            let (product, name) = (launcher.product, &script.name);
            let verdict = if differences.is_empty() { "same" } else { "DIFFERENT" };
            println!("cli {name} on {product}, servers: {size}: {verdict}, {} lines", said.lines().count());
            for line in &differences {
                println!("    {line}");
            }
            tally.add(&Tally::of(differences.is_empty()));
        }
    }
    Ok(tally)
}

/// The whole session, without what differs from run to run. Kept beside the logs.
fn answers(script: &Script, size: usize, launcher: &Launcher) -> Result<String, Failure> {
    let name = format!("compat-cli-{}-{size}", launcher.product);
    let setup = CONFIG.iter().fold(Setup::new(&name, size), |setup, line| setup.with(line));
    let ensemble = Ensemble::ready(launcher, &setup)?;
    let said = plain::text(&script.run(&ensemble.addresses())?);
    let path = kept(&script.name, size, launcher.product);
    fs::create_dir_all(path.parent().expect("it lies in a folder")).map_err(|why| Failure::io("create", &path, &why))?;
    fs::write(&path, &said).map_err(|why| Failure::io("write", &path, &why))?;
    Ok(said)
}

fn kept(name: &str, size: usize, product: Product) -> PathBuf {
    work_dir().join(format!("cli/{product}-{size}/{name}.txt"))
}

/// The first lines that differ, with the command before them.
fn differences(expected: &str, said: &str) -> Vec<String> {
    let mut expected_after = expected.lines();
    let mut said_after = said.lines();
    let mut command = "";
    let mut found = Vec::new();
    while found.len() < DIFFERENCES_MAX {
        let (wanted, got) = (expected_after.next(), said_after.next());
        match (wanted, got) {
            (None, None) => break,
            (Some(wanted), Some(got)) if wanted == got => {
                if script::is_command(wanted) {
                    command = wanted;
                }
            }
            _ => {
                let shown = |line: Option<&str>| line.map_or("nothing more".to_owned(), |line| format!("`{line}`"));
                found.push(format!("after `{command}`: Apache says {}, this says {}", shown(wanted), shown(got)));
                // Go on with the next command, or one line more would make all the rest differ.
                skip_to_common_command(&mut expected_after, &mut said_after);
            }
        }
    }
    found
}

fn skip_to_common_command(expected: &mut std::str::Lines, said: &mut std::str::Lines) {
    let to_command = |lines: &mut std::str::Lines| {
        while lines.clone().next().is_some_and(|line| !script::is_command(line)) {
            lines.next();
        }
    };
    to_command(expected);
    to_command(said);
}

/// Kinds of nodes that are off by default, quotas that bind, and a superuser with the password `test`.
const CONFIG: &[&str] = &[
    "extendedTypesEnabled=true",
    "enforceQuota=true",
    "DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=",
];

/// More than a reader takes in; the rest is in the file.
const DIFFERENCES_MAX: usize = 12;

#[test]
fn one_line_more_is_one_difference() {
    let found = differences("> ls /\n[a]\n> get /a\nx\n", "> ls /\n[a]\nnoise\n> get /a\nx\n");
    assert_eq!(found, ["after `> ls /`: Apache says `> get /a`, this says `noise`"]);
}

#[test]
fn each_command_with_another_answer_is_a_difference() {
    let found = differences("> ls /\n[a]\n> get /a\nx\n> ls /b\n", "> ls /\n[b]\n> get /a\ny\n> ls /b\nz\n");
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[1].starts_with("after `> get /a`"), "{found:?}");
    assert!(found[2].ends_with("Apache says nothing more, this says `z`"), "{found:?}");
}
