//! Our own server: built here in release, or the one that `POLE_BIN` names.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::Failure;
use crate::command::{program, root, target_dir};

/// Program and arguments, up to the configuration file.
pub(super) fn command() -> Result<(PathBuf, Vec<OsString>), Failure> {
    let binary = match env::var_os("POLE_BIN") {
        Some(named) => root().join(named),
        None => built()?,
    };
    if !binary.is_file() {
        return Err(Failure::Check(format!("{} is not there: name a binary of pole in POLE_BIN", binary.display())));
    }
    Ok((binary, vec!["server".into(), "--config".into()]))
}

fn built() -> Result<PathBuf, Failure> {
    let status = program("cargo").args(["build", "--quiet", "--release", "--package", "pole-cli"]).status();
    match status {
        Ok(status) if status.success() => Ok(target_dir().join("release").join("pole")),
        Ok(status) => Err(Failure::Check(format!("cannot build pole-cli: {status}"))),
        Err(why) => Err(Failure::Check(format!("cannot run cargo: {why}"))),
    }
}
