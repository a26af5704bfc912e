//! Forbidden text in the repository, and the small parsers that find it.

use super::{assert_none, files};

/// Relative targets of the links of a Markdown text, without their anchors.
pub(super) fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let paths = targets.filter_map(|target| target.split('#').next());
    paths.filter(|path| !path.is_empty() && !path.contains("://") && !path.starts_with("mailto:"))
}

/// The code of a line of Rust: everything before `//`.
pub(super) fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// Whether `word` occurs in the text and does not continue a longer name.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Whether `name` occurs in the text as a whole name.
pub(super) fn has_name(text: &str, name: &str) -> bool {
    let continues = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(name)
        .any(|(at, _)| !continues(text[..at].chars().next_back()) && !continues(text[at + name.len()..].chars().next()))
}

/// The paths of the repository that a line of Markdown quotes: between backticks, in one of its folders, and without
/// placeholders.
pub(super) fn paths(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    let folders = ["crates/", "xtask/", "docs/", "fuzz/", "compat/", "mutants/"];
    quoted.filter(move |text| {
        folders.iter().any(|folder| text.starts_with(folder))
            && !text.contains(|c: char| "*{<$ …".contains(c))
            && !text.contains("NAME")
            && !text.contains("NN-")
    })
}

/// Whether a line contains an absolute path of a particular machine.
fn has_absolute_path(line: &str) -> bool {
    ["work", "home", "root"].iter().any(|folder| {
        let path = format!("/{folder}/");
        line.match_indices(&path).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || "_-./}".contains(c))
        })
    })
}

#[test]
fn no_file_contains_an_absolute_path_of_one_machine() {
    let mut wrong = Vec::new();
    for file in files() {
        for (number, line) in (1..).zip(file.text.lines()) {
            if has_absolute_path(line) {
                wrong.push(format!("{}:{number}: {}", file.path, line.trim()));
            }
        }
    }
    assert_none(&wrong, "absolute paths of one machine mean nothing on another:");
}

#[test]
fn no_code_is_left_unwritten() {
    let macros: Vec<String> = ["todo", "unimplemented"].map(|name| format!("{name}!")).to_vec();
    let mut wrong = Vec::new();
    for file in files().iter().filter(|file| file.path.ends_with(".rs")) {
        for (number, line) in (1..).zip(file.text.lines()) {
            if macros.iter().any(|word| has_word(code(line), word)) {
                wrong.push(format!("{}:{number}: {}", file.path, line.trim()));
            }
        }
    }
    assert_none(&wrong, "code that is not written yet does not go in:");
}

#[test]
fn links_are_read_without_anchors_and_addresses() {
    let text = "[a](b.md) and [c](https://example.org/) and [d](e/f.md#g), [h](#i)";
    assert_eq!(links(text).collect::<Vec<_>>(), ["b.md", "e/f.md"]);
}

#[test]
fn an_absolute_path_is_distinguished_from_a_part_of_a_path() {
    let path_in = |folder: &str| format!("see /{folder}/somebody/file");
    assert!(has_absolute_path(&path_in("home")));
    assert!(has_absolute_path(&path_in("work")));
    assert!(!has_absolute_path("crates/work/file and https://example.org/home/page"));
}

#[test]
fn comments_and_longer_names_do_not_match() {
    assert_eq!(code("let a = 1; // HashMap"), "let a = 1; ");
    assert!(has_word("use rand::Rng", "rand::"));
    assert!(!has_word("operand::new()", "rand::"));
}

#[test]
fn names_are_whole_and_paths_are_quoted() {
    assert!(has_name("let lease = Lease::new()", "Lease") && !has_name("Leases, MyLease", "Lease"));
    let line = "See `crates/node/src/lib.rs`, `docs/*.md`, crates/zab and `cargo run`.";
    assert_eq!(paths(line).collect::<Vec<_>>(), ["crates/node/src/lib.rs"]);
}
