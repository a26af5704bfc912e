//! Flink with high availability in ZooKeeper: two job managers and a job with checkpoints.
//!
//! Servers and the leading job manager are killed meanwhile.

use std::process::Command;
use std::time::Duration;

use super::{App, tools, unchanged};
use crate::Failure;
use crate::ensemble::Ensemble;

pub(super) const APP: App = App {
    name: "flink",
    prepare,
    command,
    configure: unchanged,
    observers: 0,
    on_pole: &["lost=0", "twice=0"],
    limit: Duration::from_secs(900),
};

fn prepare() -> Result<(), Failure> {
    tools::java()?;
    tools::environment(APP.name)?;
    tools::source(APP.name)
}

fn command(command: &mut Command, _ensemble: &Ensemble) -> Result<(), Failure> {
    command.env("APP_SOURCE", tools::folder(APP.name).join("source"));
    Ok(())
}
