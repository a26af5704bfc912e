//! The programs of the lab and the model checker, built in release and run with the arguments as given.
//!
//! They check their own arguments; their exit code is ours. In release, because a seed that takes a second there
//! takes ten in a debug build.

use std::process::ExitCode;

use crate::Failure;
use crate::command::{built_in_release, program};

/// Builds and runs a program of a package.
pub(crate) fn run(package: &str, binary: &str, args: &[String]) -> Result<ExitCode, Failure> {
    let path = built_in_release(package, binary)?;
    let status = program(&path.to_string_lossy()).args(args).status();
    let status = status.map_err(|why| Failure::io("run", &path, &why))?;
    // A program ended by a signal has no code of its own.
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(code))
}
