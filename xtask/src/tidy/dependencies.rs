//! Every dependency is declared once, in the root manifest, with its reason above it, and built once.

use std::collections::BTreeSet;
use std::fs;

use super::{assert_none, files};
use crate::command::{output_of, program, root};

#[test]
fn every_dependency_has_a_reason() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the root manifest is there");
    assert_none(&without_reason(&manifest), "say in a comment above the dependency why we need it:");
}

/// Lines of `[workspace.dependencies]` without a comment right above them. Our own crates need none.
fn without_reason(manifest: &str) -> Vec<String> {
    let table = manifest.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    let lines: Vec<&str> = table.take_while(|line| !line.starts_with('[')).collect();
    let above = std::iter::once("").chain(lines.iter().copied());
    let pairs = above.zip(lines.iter().copied()).filter(|(_, line)| is_dependency(line) && !line.starts_with("pole-"));
    pairs.filter(|(above, _)| !above.starts_with('#')).map(|(_, line)| line.to_owned()).collect()
}

#[test]
fn crates_take_their_dependencies_from_the_workspace() {
    let mut wrong = Vec::new();
    for file in files().iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let lines = own_versions(&file.text).into_iter();
        wrong.extend(lines.map(|line| format!("{}: {line}", file.path)));
    }
    assert_none(&wrong, "declare these in the root Cargo.toml, with their reason, and say `.workspace = true` here:");
}

/// Lines of the dependency tables of a manifest that do not refer to the workspace.
fn own_versions(manifest: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut in_table = false;
    for line in manifest.lines() {
        if let Some(heading) = line.strip_prefix('[') {
            in_table = heading.trim_end_matches(']').ends_with("dependencies");
        } else if in_table && is_dependency(line) && !line.contains("workspace = true") {
            wrong.push(line.to_owned());
        }
    }
    wrong
}

/// The programs of other packages are built together with `pole-cli` (see `built_in_release`). A feature that one of them
/// adds to a dependency of `pole-cli` makes cargo build that dependency a second time, and all crates above it: minutes.
#[test]
fn programs_of_the_tools_use_the_build_of_pole() {
    let shipped = with_features(&["pole-cli"]);
    for package in ["pole-harness", "pole-sim"] {
        let together = with_features(&["pole-cli", package]);
        let changed: Vec<String> = shipped.difference(&together).cloned().collect();
        assert_none(&changed, &format!("{package} adds features to these; declare the same ones for both:"));
    }
}

/// All packages that a release build of these packages compiles, each with its features.
fn with_features(packages: &[&str]) -> BTreeSet<String> {
    let mut tree = program("cargo");
    tree.args(["tree", "--quiet", "--locked", "--edges", "normal,build", "--prefix", "none", "--no-dedupe"]);
    tree.args(["--format", "{p} {f}"]);
    for package in packages {
        tree.args(["--package", package]);
    }
    let listed = output_of(&mut tree).expect("cargo lists the dependencies");
    listed.lines().map(str::to_owned).collect()
}

fn is_dependency(line: &str) -> bool {
    !line.starts_with('#') && line.contains('=')
}

#[test]
fn a_dependency_without_a_comment_above_it_is_found() {
    let manifest =
        "[workspace.dependencies]\npole-zab = { path = \"x\" }\n# Why.\nbytes = \"1\"\nrand = \"1\"\n[lints]\na = 1\n";
    assert_eq!(without_reason(manifest), ["rand = \"1\""]);
}

#[test]
fn a_version_of_its_own_is_found() {
    let manifest = "[package]\nname = \"a\"\n[dependencies]\nbytes.workspace = true\nrand = \"1\"\n";
    assert_eq!(own_versions(manifest), ["rand = \"1\""]);
}
