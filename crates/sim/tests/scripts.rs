//! Every script of `scripts/` as a separate test, named like its file.
//!
//! `cargo test -p pole-sim --test scripts -- NAME` runs some; with `UPDATE_GOLDENFILES=1` the files are rewritten.

use std::path::PathBuf;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder of scripts")
        .map(|entry| entry.expect("an entry of the folder of scripts").path())
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    libtest_mimic::run(&Arguments::from_args(), paths.into_iter().map(trial).collect()).exit_code()
}

fn trial(path: PathBuf) -> Trial {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Trial::test(name, move || pole_sim::script::run(&path).map_err(Failed::from))
}
