//! Runs the input files named as arguments without coverage. A panic names the file.
//!
//! The argument `list` prints the names of the targets, for `cargo xtask fuzz`. The whole corpus is run by the test
//! `corpus`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pole_fuzz::TARGETS;
use pole_fuzz::corpus::replay_file;

fn main() -> ExitCode {
    let args: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    if args == [Path::new("list")] {
        TARGETS.iter().for_each(|target| println!("{}", target.name));
        return ExitCode::SUCCESS;
    }
    for file in &args {
        if let Err(why) = replay_file(file) {
            eprintln!("replay: {why}");
            return ExitCode::from(2);
        }
        println!("{}: no finding", file.display());
    }
    ExitCode::SUCCESS
}
