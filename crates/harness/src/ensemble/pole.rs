//! Pole's own server: built in release mode, or the binary that `POLE_BIN` names.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::Failure;
use crate::command::{built_in_release, root};

/// The program and its arguments, without the configuration file.
pub(super) fn command() -> Result<(PathBuf, Vec<OsString>), Failure> {
    let binary = match env::var_os("POLE_BIN") {
        Some(named) => root().join(named),
        None => built_in_release("pole-cli", "pole")?,
    };
    if !binary.is_file() {
        return Err(Failure::Check(format!("{} is not there: name a binary of pole in POLE_BIN", binary.display())));
    }
    Ok((binary, vec!["server".into(), "--config".into()]))
}
