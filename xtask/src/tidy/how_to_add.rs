//! The lists "How to add …" of ARCHITECTURE.md: every file that they name must exist.
//!
//! The lists shorten paths: after `crates/jute/src/request.rs` they say `reply.rs`, or `txn/mod.rs`. Such a name must
//! exist below a folder of a path that the same item has named before. Whole paths are checked in all documents, see
//! `names`.

use std::fs;

use super::assert_none;
use crate::command::root;

/// The headings of the lists.
const LISTS: [&str; 5] = ["an operation", "an oracle", "a setting", "an admin endpoint", "a metric"];

/// A list with fewer files has been emptied, or is no longer understood by this check.
const FILES_MIN: usize = 5;

#[test]
fn the_files_that_the_lists_of_how_to_add_name_exist() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    let mut wrong = Vec::new();
    for heading in LISTS {
        let Some(list) = list(&text, heading) else {
            wrong.push(format!("there is no list `### … {heading}`"));
            continue;
        };
        let items: Vec<String> = items(list);
        if items.iter().flat_map(|item| names(item)).count() < FILES_MIN {
            wrong.push(format!("… {heading}: the list names fewer than {FILES_MIN} files"));
        }
        let missing = items.iter().flat_map(|item| missing(item, |path| root().join(path).exists()));
        wrong.extend(missing.map(|name| format!("… {heading}: {name}")));
    }
    assert_none(&wrong, "ARCHITECTURE.md, How to add …, names files that do not exist:");
}

/// The text of a list, up to the next heading.
fn list<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    let (_, lists) = text.split_once("\n## How to add …\n")?;
    let lists = lists.split("\n## ").next()?;
    let (_, list) = lists.split_once(&format!("\n### … {heading}\n"))?;
    list.split("\n### ").next()
}

/// The items and paragraphs of a list, each as one line.
fn items(list: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    let mut is_new = true;
    for line in list.lines().map(str::trim) {
        let begins_item = line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        match items.last_mut() {
            Some(item) if !is_new && !begins_item => *item += &format!(" {line}"),
            _ => items.push(line.to_owned()),
        }
        is_new = line.is_empty();
    }
    items
}

/// The names of files and folders between backticks. A placeholder (`NAME`, `*`) stands for its folder.
fn names(item: &str) -> impl Iterator<Item = &str> {
    let quoted = item.split('`').skip(1).step_by(2);
    let is_file = |text: &&str| {
        let ending = text.rsplit_once('.').map(|(_, ending)| ending);
        let is_known = matches!(ending, Some("rs" | "md" | "toml" | "txt" | "zk"));
        (is_known || text.ends_with('/')) && !text.starts_with('/') && !text.contains(' ')
    };
    quoted.filter(is_file).map(|text| match text.rsplit_once('/') {
        Some((folder, file)) if file.contains("NAME") || file.contains('*') => folder,
        _ => text.trim_end_matches('/'),
    })
}

/// The names of an item that neither exist nor complete a folder that the item has named before.
fn missing(item: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut folders: Vec<&str> = Vec::new();
    let mut missing = Vec::new();
    for name in names(item) {
        if exists(name) {
            let above = std::iter::successors(Some(name), |path| path.rsplit_once('/').map(|(folder, _)| folder));
            folders.extend(above);
        } else if !folders.iter().any(|folder| exists(&format!("{folder}/{name}"))) {
            missing.push(name.to_owned());
        }
    }
    missing
}

#[test]
fn items_are_joined_to_one_line() {
    let list = "\nFollow `a`.\n\n1. One,\n   and more.\n2. Two.\n\nAfter.\n";
    let items = items(list);
    let items: Vec<&str> = items.iter().map(|item| item.trim()).filter(|item| !item.is_empty()).collect();
    assert_eq!(items, ["Follow `a`.", "1. One, and more.", "2. Two.", "After."]);
}

#[test]
fn files_are_distinguished_from_other_names() {
    let item =
        "`src/a.rs`, `b/`, `Config::node`, `/metrics`, `cargo run x.rs`, `op/NAME.rs`, `cli/*.zk`, `pole.oracle`";
    assert_eq!(names(item).collect::<Vec<_>>(), ["src/a.rs", "b", "op", "cli"]);
}

#[test]
fn a_short_name_completes_a_folder_named_before() {
    let exists = |path: &str| ["c/x/src/op/a.rs", "c/x/src/b.rs", "c/x/src/op/d.rs"].contains(&path);
    assert_eq!(missing("`c/x/src/op/a.rs`, `d.rs` and `b.rs`", exists), Vec::<String>::new());
    assert_eq!(missing("`c/x/src/op/a.rs` and `e.rs`", exists), ["e.rs"]);
    assert_eq!(missing("`d.rs`, then `c/x/src/op/a.rs`", exists), ["d.rs"], "before its folder");
}
