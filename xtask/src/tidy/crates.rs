//! Dependencies between crates: the manifests must match the code map in ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::assert_none;
use crate::command::root;

/// Crates and their dependencies, by short names. Dependencies of tests only are marked: `topology (tests)`.
type Uses = BTreeMap<String, BTreeSet<String>>;

#[test]
fn dependencies_between_crates_match_the_code_map() {
    let map = code_map(&fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there"));
    let found = manifests();
    let mut wrong = Vec::new();
    for (name, uses) in &found {
        match map.get(name) {
            None => wrong.push(format!("{name} is not in the code map of ARCHITECTURE.md")),
            Some(allowed) => {
                // A crate's tests may use everything that the crate may use.
                let forbidden =
                    uses.difference(allowed).filter(|other| !allowed.contains(other.trim_end_matches(TESTS)));
                wrong.extend(forbidden.map(|other| format!("{name} uses {other}, which the code map does not allow")));
            }
        }
    }
    let missing = map.keys().filter(|name| !found.contains_key(*name));
    wrong.extend(missing.map(|name| format!("{name} is in the code map, but there is no such crate")));
    assert_none(&wrong, "the code map and the manifests differ:");
}

/// Parses the rows `| [`name`](…) | `other`, `another`; tests: `third` | …` of the table under the heading "Code
/// map".
fn code_map(text: &str) -> Uses {
    let (_, after) = text.split_once("\n## Code map\n").expect("ARCHITECTURE.md has a code map");
    let table = after.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let quoted = |cell: &str| -> BTreeSet<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let rows = table.skip(2).filter_map(|line| {
        let mut cells = line.trim_matches('|').split('|');
        let name = quoted(cells.next()?).into_iter().next()?;
        let (uses, tests) = cells.next().map(|cell| cell.split_once("tests:").unwrap_or((cell, "")))?;
        let tests = quoted(tests).into_iter().map(|other| other + TESTS);
        Some((name, quoted(uses).into_iter().chain(tests).collect()))
    });
    rows.collect()
}

/// The dependencies declared in each manifest under `crates`.
fn manifests() -> Uses {
    let folders = fs::read_dir(root().join("crates")).expect("there are crates").map(|entry| entry.unwrap().path());
    let crates = folders.filter(|folder| folder.join("Cargo.toml").is_file());
    let read = |folder: std::path::PathBuf| {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        (name, declared(&fs::read_to_string(folder.join("Cargo.toml")).unwrap()))
    };
    crates.map(read).collect()
}

/// The short names of the `pole-*` crates in all `dependencies` tables of a manifest.
fn declared(manifest: &str) -> BTreeSet<String> {
    let mut uses = BTreeSet::new();
    let mut table = "";
    for line in manifest.lines().map(str::trim) {
        if let Some(heading) = line.strip_prefix('[') {
            table = heading.trim_end_matches(']');
        } else if let Some(rest) = line.strip_prefix("pole-").filter(|_| table.ends_with("dependencies")) {
            let mark = if table.ends_with("dev-dependencies") { TESTS } else { "" };
            uses.extend(rest.split(['.', ' ', '=']).next().map(|name| format!("{name}{mark}")));
        }
    }
    uses
}

/// Marks dependencies of tests only.
const TESTS: &str = " (tests)";

#[test]
fn the_table_is_read_by_its_quoted_names() {
    let text = "# A\n\n## Code map\n\nWords.\n\n| crate | uses | room |\n| --- | --- | --- |\n\
                | [`zab`](crates/zab) | `election`; tests: `lab` | x `y` |\n| `election` | | z |\n\nMore `words`.\n";
    let map = code_map(text);
    assert_eq!(map["zab"].iter().collect::<Vec<_>>(), ["election", "lab (tests)"]);
    assert!(map["election"].is_empty());
    assert_eq!(map.len(), 2);
}

#[test]
fn manifests_are_read_by_table() {
    let manifest = "[package]\nname = \"pole-zab\"\npole-no = 1\n[dependencies]\npole-election.workspace = true\nbytes = \"1\"\n\
                    [dev-dependencies]\npole-lab = { path = \"x\" }\n[lints]\nworkspace = true\n";
    assert_eq!(declared(manifest).iter().collect::<Vec<_>>(), ["election", "lab (tests)"]);
}
