//! Patroni with PostgreSQL: a primary and a replica, while servers are killed and the leader is paused.
//!
//! `compat/apps/patroni/main.py` writes rows to the primary all the time and counts how often Patroni demotes it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::{App, tools, unchanged};
use crate::Failure;
use crate::command::install;
use crate::ensemble::Ensemble;

pub(super) const APP: App = App {
    name: "patroni",
    prepare,
    command,
    configure: unchanged,
    observers: 0,
    on_pole: &["unexplained=0"],
    limit: Duration::from_secs(600),
};

fn prepare() -> Result<(), Failure> {
    if binaries().is_none() {
        install(&["postgresql"])?;
    }
    tools::environment(APP.name)
}

fn command(command: &mut Command, _ensemble: &Ensemble) -> Result<(), Failure> {
    let binaries = binaries().ok_or_else(|| Failure::Check("Debian's postgresql has no programs".to_owned()))?;
    command.env("APP_POSTGRES", binaries);
    Ok(())
}

/// The folder with the programs of the newest PostgreSQL.
fn binaries() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let folders = versions.map(|version| version.path().join("bin")).filter(|bin| bin.join("postgres").is_file());
    folders.max()
}
