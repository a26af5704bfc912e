//! The programs of the lab, built in release and run with the arguments as given.
//!
//! They check their own arguments; their exit code is ours. In release, because a seed that takes a second there
//! takes ten in a debug build.

use std::process::ExitCode;

use crate::Failure;
use crate::command::{built_in_release, program};

/// Builds and runs a program of `pole-lab`.
pub(crate) fn run(binary: &str, args: &[String]) -> Result<ExitCode, Failure> {
    // Only the model checker needs what its feature brings; nothing else has to build it.
    let features: &[&str] = if binary == "model" { &["model"] } else { &[] };
    let path = built_in_release("pole-lab", binary, features)?;
    let status = program(&path.to_string_lossy()).args(args).status();
    let status = status.map_err(|why| Failure::io("run", &path, &why))?;
    // A program ended by a signal has no code of its own.
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(code))
}
