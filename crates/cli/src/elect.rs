//! `pole elect`: starts the program `pole-elect`, which carries the clients of the stores.
//!
//! It is a program of its own, so that the server does not carry them. The one beside this program is used, which is of
//! the same release; without it, the one on PATH.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::failure::Failure;

/// Becomes `pole-elect`. Returns only if it cannot be started.
pub(crate) fn run(args: &[OsString], json: bool) -> Failure {
    let program = beside().unwrap_or_else(|| PathBuf::from(PROGRAM));
    let mut command = Command::new(&program);
    // `pole --json elect …` means the same as `pole elect … --json`; options must come before `--`.
    if json {
        command.arg("--json");
    }
    let error = command.args(args).exec();
    Failure::failed(format!(
        "cannot start {}: {error}; it is built by `cargo build -p pole-elect --features full`",
        program.display()
    ))
}

/// The program in the folder of this one.
fn beside() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?.with_file_name(PROGRAM);
    beside.is_file().then_some(beside)
}

const PROGRAM: &str = "pole-elect";
