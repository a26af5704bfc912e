//! What a stranger finds of each crate: its landing page, and for the crates that are published their metadata and
//! their README.

use std::fs;

use super::assert_none;
use crate::command::root;

/// The crates that are useful without the rest of Pole. They are published; the others are not.
const EMBEDDABLE: &[&str] = &["types", "election", "oracle", "zab", "topology", "jute", "elect"];

#[test]
fn every_embeddable_crate_has_metadata_and_a_readme() {
    let mut wrong = Vec::new();
    for name in EMBEDDABLE {
        let missing = missing_metadata(&read(&format!("crates/{name}/Cargo.toml")));
        wrong.extend(missing.into_iter().map(|line| format!("crates/{name}/Cargo.toml: {line}")));
        if !read(&format!("crates/{name}/README.md")).starts_with(&format!("# pole-{name}\n")) {
            wrong.push(format!("crates/{name}/README.md: begin with the name of the crate"));
        }
        if !read(&format!("crates/{name}/src/lib.rs")).contains(INCLUDED) {
            wrong.push(format!("crates/{name}/src/lib.rs: {INCLUDED}, so that the example of the README is compiled"));
        }
    }
    assert_none(&wrong, "a crate that others embed needs these:");
}

#[test]
fn only_embeddable_crates_are_published() {
    let others = crates().into_iter().filter(|name| !EMBEDDABLE.contains(&name.as_str()));
    let published =
        others.filter(|name| !has_line(&read(&format!("crates/{name}/Cargo.toml")), "publish.workspace = true"));
    let wrong: Vec<String> = published.map(|name| format!("crates/{name}/Cargo.toml")).collect();
    assert_none(&wrong, "say `publish.workspace = true` here, or add the crate to the embeddable ones:");
}

/// Lines that the manifest of a published crate lacks. Without `publish`, `cargo publish` would refuse; without the
/// others the registry would.
fn missing_metadata(manifest: &str) -> Vec<&'static str> {
    let wanted = ["description = \"", "readme = \"README.md\"", "keywords = [\"", "categories = [\"", "publish = true"];
    wanted.into_iter().filter(|line| !has_line(manifest, line)).collect()
}

#[test]
fn embeddable_crates_depend_on_each_other_with_the_version_of_the_workspace() {
    assert_none(
        &wrong_versions(&read("Cargo.toml")),
        "in [workspace.dependencies], give the version of the workspace:",
    );
}

/// Embeddable crates whose declaration in the root manifest has no version, or not the one of the workspace.
fn wrong_versions(manifest: &str) -> Vec<String> {
    let version = manifest.lines().find(|line| line.starts_with("version = ")).unwrap_or_default();
    let is_right = |name: &str| {
        let declared = format!("pole-{name} = {{ path = \"crates/{name}\", {version}");
        has_line(manifest, &declared)
    };
    EMBEDDABLE.iter().filter(|name| !is_right(name)).map(|name| format!("pole-{name}: {version}")).collect()
}

#[test]
fn every_crate_has_a_landing_page_with_an_example() {
    let mut wrong = Vec::new();
    for name in crates() {
        let root_file = ["lib.rs", "main.rs"].map(|file| format!("crates/{name}/src/{file}"));
        let path = root_file.iter().find(|path| root().join(path).is_file()).expect("a crate has a root file");
        wrong.extend(landing_page(&read(path)).err().map(|why| format!("{path}: {why}")));
    }
    assert_none(&wrong, "`cargo doc` shows the head of this file as the page of the crate:");
}

/// Whether the head of a file has a paragraph and an example, or includes a README that has them.
fn landing_page(source: &str) -> Result<(), &'static str> {
    let is_head = |line: &&str| line.starts_with("//!") || line.starts_with(INCLUDED);
    let head: Vec<&str> = source.lines().take_while(is_head).collect();
    if !head.first().is_some_and(|line| line.starts_with("//! ") && line.len() > "//! ".len()) {
        return Err("begin with a `//!` paragraph that says what the crate does");
    }
    // Every second fence opens a block. A block of text is a drawing.
    let mut opened = head.iter().filter_map(|line| line.strip_prefix("//! ```")).step_by(2);
    let has_example = opened.any(|language| matches!(language, "" | "no_run" | "sh"));
    if !has_example && !head.contains(&INCLUDED) {
        return Err("show an example: code that compiles, or for a program its command");
    }
    Ok(())
}

fn crates() -> Vec<String> {
    let folders = fs::read_dir(root().join("crates")).expect("there are crates").map(|entry| entry.unwrap().path());
    let crates = folders.filter(|folder| folder.join("Cargo.toml").is_file());
    crates.map(|folder| folder.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

/// A file of the repository; empty if it does not exist.
fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_default()
}

fn has_line(text: &str, beginning: &str) -> bool {
    text.lines().any(|line| line.starts_with(beginning))
}

/// Makes the README a part of the landing page.
const INCLUDED: &str = "#![doc = include_str!(\"../README.md\")]";

#[test]
fn missing_metadata_is_found() {
    let manifest = "[package]\ndescription = \"x\"\nreadme = \"README.md\"\nkeywords = [\"a\"]\npublish = true\n";
    assert_eq!(missing_metadata(manifest), ["categories = [\""]);
}

#[test]
fn a_version_that_differs_is_found() {
    let line = |name: &str, version| format!("pole-{name} = {{ path = \"crates/{name}\", version = \"{version}\" }}\n");
    let declared: String = EMBEDDABLE.iter().map(|name| line(name, "0.2.0")).collect();
    let manifest = format!("[workspace.package]\nversion = \"0.2.0\"\n[workspace.dependencies]\n{declared}");
    assert_eq!(wrong_versions(&manifest), Vec::<String>::new());
    let manifest = manifest.replace(&line("zab", "0.2.0"), &line("zab", "0.1.0"));
    assert_eq!(wrong_versions(&manifest), ["pole-zab: version = \"0.2.0\""]);
}

#[test]
fn a_landing_page_has_a_paragraph_and_an_example() {
    assert_eq!(landing_page("//! Does it.\n//!\n//! ```\n//! run();\n//! ```\nmod a;\n"), Ok(()));
    assert_eq!(landing_page(&format!("//! Does it.\n//!\n{INCLUDED}\n#![no_std]\n")), Ok(()));
    assert!(landing_page("//! Does it.\nmod a;\n//! ```\n").is_err());
    assert!(landing_page("//! Does it.\n//! ```text\n//! a -> b\n//! ```\n").is_err(), "a drawing is no example");
    assert!(landing_page("//!\n//! ```\n//! ```\n").is_err());
}
