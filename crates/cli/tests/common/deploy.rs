//! What the tests of `deploy/` share: its files, the entrypoint of the image, and tools of others.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Scratch, pole};

/// A file of `deploy/`.
pub(crate) fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path)
}

/// The entrypoint with these variables and no others of its kind.
pub(crate) fn entrypoint(scratch: &Scratch, variables: &[(&str, String)], args: &[&str]) -> Command {
    let mut command = pole(&[&["entrypoint"], args].concat());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ZOO_") || name.starts_with("POLE_")) {
        command.env_remove(name);
    }
    for (name, folder) in [("ZOO_CONF_DIR", "conf"), ("ZOO_DATA_DIR", "data"), ("ZOO_DATA_LOG_DIR", "datalog")] {
        command.env(name, scratch.0.join(folder));
    }
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command
}

/// A program in the PATH, or one that `cargo xtask tools` installed. Without it, says what is skipped.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the folder of the build");
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&paths).chain([built.join("tools/bin")]);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    if found.is_none() {
        eprintln!("skipped: {name} is not installed; `cargo xtask tools {name}` installs it");
    }
    found
}

/// Runs a program that has to succeed, and returns its standard output.
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (said, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{said}{complaint}", output.status);
    said.into_owned()
}
