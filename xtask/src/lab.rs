//! Builds the programs of the lab and the model checker in release, and runs them with the given arguments.
//!
//! They check their own arguments, and their exit code is passed on. A seed that takes a second in release takes ten
//! in a debug build.

use std::process::ExitCode;

use crate::Failure;
use crate::command::{built_in_release, program};

/// Builds and runs a program of a package.
pub(crate) fn run(package: &str, binary: &str, args: &[String]) -> Result<ExitCode, Failure> {
    let path = built_in_release(package, binary)?;
    let status = program(&path.to_string_lossy()).args(args).status();
    let status = status.map_err(|why| Failure::io("run", &path, &why))?;
    // A program ended by a signal has no exit code.
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(code))
}
