//! Checks that `docs/configuration.md` contains the current tables of keys.

use std::path::{Path, PathBuf};

use pole_server::config::keys;

#[test]
fn the_page_lists_every_key_as_it_is() {
    check("keys", &keys::markdown());
}

#[test]
fn the_page_says_what_becomes_of_every_key_of_apache() {
    let list =
        std::fs::read_to_string(root().join("compat/config/apache-3.9.2.txt")).expect("the list of Apache's keys");
    let names: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    check("keys of Apache", &keys::apache_markdown(&names));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares a table of the page, between its two marks, or writes it.
fn check(name: &str, expected: &str) {
    let (begin, end) =
        (format!("<!-- {name}: written by the tests of crates/server -->\n"), format!("<!-- end of {name} -->\n"));
    // Two tests write the same page.
    let _lock = PAGE.lock();
    let path = root().join("docs/configuration.md");
    let page = std::fs::read_to_string(&path).expect("docs/configuration.md is there");
    let (head, rest) = page.split_once(&begin).expect("the mark before the table");
    let (table, tail) = rest.split_once(&end).expect("the mark after the table");
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(&path, format!("{head}{begin}\n{expected}\n{end}{tail}")).expect("the page is written");
        return;
    }
    assert_eq!(table.trim(), expected.trim(), "write it again with UPDATE_GOLDENFILES=1");
}

static PAGE: std::sync::Mutex<()> = std::sync::Mutex::new(());
