//! Builds programs of other packages in release, and runs them with the given arguments.
//!
//! They check their own arguments. A seed that takes a second in release takes ten in a debug build, and an unoptimised
//! load generator would take CPU time from the servers.

use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

use crate::Failure;
use crate::command::{built_in_release, program, root};

/// Builds a program and replaces this process with it (`exec`), so that signals to this process reach it.
pub(crate) fn run(package: &str, binary: &str, args: &[String]) -> Result<ExitCode, Failure> {
    let path = built_in_release(package, binary)?;
    // `root` depends on this variable, which cargo would set.
    let why = program(&path.to_string_lossy()).env("CARGO_MANIFEST_DIR", root()).args(args).exec();
    Err(Failure::io("run", &path, &why))
}
