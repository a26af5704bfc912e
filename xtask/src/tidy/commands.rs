//! Commands in documents and in the CI workflow: `cargo xtask` must know each chore that they name.

use super::{assert_none, files};
use crate::USAGE;

#[test]
fn every_chore_that_a_document_or_ci_names_exists() {
    let known = chores(USAGE);
    let mut wrong = Vec::new();
    for file in files().iter().filter(|file| file.path.ends_with(".md") || file.path.ends_with(".yml")) {
        for (number, line) in (1..).zip(file.text.lines()) {
            let unknown = named(line).filter(|chore| !known.contains(chore));
            wrong.extend(unknown.map(|chore| format!("{}:{number}: cargo xtask {chore}", file.path)));
        }
    }
    assert_none(&wrong, "`cargo xtask help` does not list these:");
}

/// The first words of the lines of the usage that are indented by two.
fn chores(usage: &str) -> Vec<&str> {
    let lines = usage.lines().filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    lines.filter_map(|line| line.split_whitespace().next()).collect()
}

/// The words after `cargo xtask`. Placeholders in capitals are none.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let after = line.split("cargo xtask ").skip(1);
    let words = after.map(|rest| rest.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap_or_default());
    words.filter(|word| !word.is_empty() && !word.starts_with('-'))
}

#[test]
fn chores_are_read_from_the_usage() {
    let usage = "usage: cargo xtask CHORE\n\n  test [STEP...]   all\n      [--quick]\n  sim --seeds N    many\n  help   this text";
    assert_eq!(chores(usage), ["test", "sim", "help"]);
    assert!(chores(USAGE).contains(&"release"));
}

#[test]
fn chores_in_text_are_found_without_placeholders() {
    let line = "`cargo xtask test tidy`, `cargo xtask CHORE` and cargo xtask fuzz --replay";
    assert_eq!(named(line).collect::<Vec<_>>(), ["test", "fuzz"]);
}
