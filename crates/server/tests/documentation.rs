//! Checks that `docs/configuration.md` contains the current table of keys.

use std::path::Path;

use pole_server::config::keys;

const BEGIN: &str = "<!-- keys: written by the tests of crates/server -->\n";
const END: &str = "<!-- end of keys -->\n";

#[test]
fn the_page_lists_every_key_as_it_is() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = std::fs::read_to_string(&path).expect("docs/configuration.md is there");
    let (head, rest) = page.split_once(BEGIN).expect("the mark before the table");
    let (table, tail) = rest.split_once(END).expect("the mark after the table");
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}\n{}\n{END}{tail}", keys::markdown()))
            .expect("the page is written");
        return;
    }
    assert_eq!(table.trim(), keys::markdown().trim(), "write it again with UPDATE_GOLDENFILES=1");
}
