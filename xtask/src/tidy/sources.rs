//! Forbidden names in the sources of pure crates, and files that belong to no crate.

use super::text::{code, has_word};
use super::{File, assert_none, files};

/// Crates without side effects: events and `now` go in, effects come out.
const PURE: &[&str] = &["election", "oracle", "zab", "node", "topology", "jute", "tree"];

/// What a pure crate must not use. Most are `no_std`, where the compiler enforces it too; this list covers the
/// others, with a reason.
const IMPURE: &[(&str, &str)] = &[
    ("std::time", "time comes in as a number"),
    ("std::net", "messages are events and effects"),
    ("std::fs", "writes are effects"),
    ("std::thread", "a protocol is a value"),
    ("std::env", "configuration comes in as a value"),
    ("HashMap", "its order differs from run to run: use BTreeMap"),
    ("HashSet", "its order differs from run to run: use BTreeSet"),
    ("rand::", "random numbers come in from outside"),
    ("tokio", "drivers live elsewhere"),
];

#[test]
fn pure_crates_use_no_clock_file_socket_or_random_numbers() {
    let mut wrong = Vec::new();
    for file in files().iter().filter(|file| is_pure(&file.path)) {
        for (number, line) in (1..).zip(file.text.lines()) {
            let found = IMPURE.iter().filter(|(word, _)| has_word(code(line), word));
            wrong.extend(found.map(|(word, why)| format!("{}:{number}: {word}: {why}", file.path)));
        }
    }
    assert_none(&wrong, "a pure crate must not know these:");
}

fn is_pure(path: &str) -> bool {
    path.ends_with(".rs") && PURE.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")))
}

#[test]
fn every_source_file_belongs_to_its_crate() {
    let files = files();
    let orphans =
        files.iter().filter(|file| module_name(&file.path).is_some_and(|name| !is_declared(&files, file, name)));
    let wrong: Vec<String> = orphans.map(|file| file.path.clone()).collect();
    assert_none(&wrong, "no `mod` names these files, so they are never compiled:");
}

/// The module name of a file; none for the root of a crate or of a program.
fn module_name(path: &str) -> Option<&str> {
    let (_, inside) = path.split_once("/src/")?;
    let stem = inside.strip_suffix(".rs")?;
    let is_root = stem == "lib" || stem == "main" || (stem.starts_with("bin/") && stem.matches('/').count() == 1);
    let name = stem.strip_suffix("/mod").unwrap_or(stem).rsplit('/').next()?;
    (!is_root && name != "main").then_some(name)
}

fn is_declared(files: &[File], file: &File, name: &str) -> bool {
    let crate_dir = file.path.split("/src/").next().unwrap_or_default();
    let siblings = files.iter().filter(|other| other.path.starts_with(&format!("{crate_dir}/")));
    let declares = |line: &str| code(line).contains(&format!("mod {name};"));
    siblings.into_iter().any(|other| other.text.lines().any(declares))
}

#[test]
fn roots_of_crates_and_programs_are_not_modules() {
    assert_eq!(module_name("crates/lab/src/lib.rs"), None);
    assert_eq!(module_name("crates/lab/src/bin/sim.rs"), None);
    assert_eq!(module_name("crates/lab/src/bin/sim/main.rs"), None);
    assert_eq!(module_name("crates/lab/src/disk/mod.rs"), Some("disk"));
    assert_eq!(module_name("crates/zab/src/leader/sync.rs"), Some("sync"));
    assert_eq!(module_name("crates/zab/tests/sync.rs"), None);
}
