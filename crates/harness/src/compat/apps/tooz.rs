//! tooz: its own tests on its ZooKeeper driver, undisturbed and while the leader is killed.

use std::process::Command;
use std::time::Duration;

use super::{App, tools, unchanged};
use crate::Failure;
use crate::ensemble::Ensemble;

pub(super) const APP: App = App {
    name: "tooz",
    prepare,
    command,
    configure: unchanged,
    observers: 1,
    on_pole: &["failed=0", "failed_again=0"],
    limit: Duration::from_secs(900),
};

fn prepare() -> Result<(), Failure> {
    tools::environment(APP.name)?;
    tools::source(APP.name)
}

fn command(command: &mut Command, _ensemble: &Ensemble) -> Result<(), Failure> {
    command.env("APP_SOURCE", tools::folder(APP.name).join("source"));
    Ok(())
}
