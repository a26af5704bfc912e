//! Checks of the repository itself, as ordinary tests.
//!
//! They cover the files that git tracks or would add. A failure names file, line and what to do.

mod commands;
mod crates;
mod dependencies;
mod how_to_add;
mod names;
mod packages;
mod sources;
mod text;

use std::fs;
use std::path::PathBuf;

use crate::Failure;
use crate::command::{output_of, program, root};
use crate::mutants::Mutant;
use crate::scenarios::{Script, page, page_path, scripts_dir};

struct File {
    /// Relative to the repository root, with forward slashes.
    path: String,
    /// Empty if the file is not text.
    text: String,
}

/// All files that are tracked, or would be if everything were added.
fn files() -> Vec<File> {
    let list = output_of(program("git").args(["ls-files", "--cached", "--others", "--exclude-standard"]))
        .expect("tidy runs in a git checkout");
    let read = |path: &str| fs::read(root().join(path)).ok().map(|bytes| String::from_utf8(bytes).unwrap_or_default());
    let paths = list.lines().filter(|path| root().join(path).is_file());
    paths.map(|path| File { path: path.to_owned(), text: read(path).unwrap_or_default() }).collect()
}

/// Fails with all violations, not only the first.
#[track_caller]
fn assert_none(wrong: &[String], rule: &str) {
    assert!(wrong.is_empty(), "{rule}\n  {}\n", wrong.join("\n  "));
}

/// The error of a parser, if there is one.
fn wrong<T>(read: Result<T, Failure>) -> Vec<String> {
    match read {
        Ok(_) => Vec::new(),
        Err(Failure::Check(why) | Failure::Usage(why)) => vec![why],
    }
}

#[test]
fn every_script_has_a_head_and_covers_known_scenarios_only() {
    assert_none(&wrong(Script::all(&scripts_dir())), "a script begins with what it is about:");
}

#[test]
fn the_page_of_scenarios_is_up_to_date() {
    // A script that cannot be parsed is reported by the test above.
    let Ok(scripts) = Script::all(&scripts_dir()) else { return };
    let found = fs::read_to_string(page_path()).unwrap_or_default();
    assert!(found == page(&scripts), "docs/scenarios.md is not up to date: run `cargo xtask scenarios`");
}

#[test]
fn every_mutant_says_what_it_takes_away() {
    assert_none(&wrong(Mutant::all(&root().join("mutants"))), "a mutant begins with what it takes away:");
}

#[test]
fn the_book_has_every_page_once() {
    let files = files();
    let summary = files.iter().find(|file| file.path == "docs/SUMMARY.md").expect("the order of the book");
    let listed: Vec<&str> = text::links(&summary.text).collect();
    let pages = files.iter().filter_map(|file| file.path.strip_prefix("docs/")).filter(|page| page.ends_with(".md"));
    let pages = pages.filter(|page| *page != "SUMMARY.md");
    let times = |page: &str| listed.iter().filter(|listed| **listed == page).count();
    let wrong: Vec<String> = pages.filter(|page| times(page) != 1).map(str::to_owned).collect();
    assert_none(&wrong, "docs/SUMMARY.md lists each page of docs once:");
}

#[test]
fn every_page_of_the_book_leads_to_the_next() {
    let is_page = |path: &str| path.starts_with("docs/") && path.ends_with(".md");
    let index = ["docs/README.md", "docs/SUMMARY.md"];
    let wrong =
        files().into_iter().filter(|file| is_page(&file.path) && !index.contains(&&*file.path)).filter(|file| {
            let next = file.text.rsplit_once("\n## Next\n").map_or("", |(_, next)| next);
            let own = file.path.trim_start_matches("docs/");
            next.contains("\n## ") || text::links(next).all(|link| link == own)
        });
    let wrong: Vec<String> = wrong.map(|file| file.path).collect();
    assert_none(&wrong, "a page ends with a section `Next` that links to another:");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut wrong = Vec::new();
    for file in files().iter().filter(|file| file.path.ends_with(".md")) {
        let folder = PathBuf::from(&file.path).parent().map(|folder| root().join(folder)).expect("a file has a folder");
        for target in text::links(&file.text) {
            if !folder.join(target).exists() {
                wrong.push(format!("{}: {target}", file.path));
            }
        }
    }
    assert_none(&wrong, "these links lead nowhere:");
}
