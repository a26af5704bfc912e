//! The commands of `docs/start.md` work, one after the other, as a reader would type them.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Scratch, free_port};

#[test]
fn every_command_of_the_first_page_works() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/start.md");
    let page = std::fs::read_to_string(page).expect("docs/start.md is there");
    let blocks = page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let commands: Vec<&str> = blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("$ ")).collect();
    assert!(commands.len() > 10, "{commands:?}");
    // The ports of the page may be taken, here by other tests.
    let (client, admin) = (free_port().to_string(), free_port().to_string());
    let script = commands.join("\n").replace("2181", &client).replace("8080", &admin);
    let scratch = Scratch::new("book");
    let folder = Path::new(env!("CARGO_BIN_EXE_pole")).parent().expect("the folder of the binary");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    // Whatever fails, the server ends.
    let script = format!("set -e\ntrap 'kill $! 2>/dev/null || true' EXIT\n{script}\ntrap - EXIT\n");
    let output = Command::new("bash").args(["-c", &script]).current_dir(&scratch.0).env("PATH", path).output().unwrap();
    let (said, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{complaint}");
    for part in [
        "valid, a server without others",
        "world",
        "Server 1 leads",
        "requests a second",
        "whole, a snapshot at",
        "A server would start at",
    ] {
        assert!(said.contains(part), "{part} is not in:\n{said}\n{complaint}");
    }
}
