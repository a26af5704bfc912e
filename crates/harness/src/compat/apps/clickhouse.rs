//! Two servers of ClickHouse with a table of the engine ReplicatedMergeTree, while servers are killed.

use std::process::Command;
use std::time::Duration;

use super::{App, tools, unchanged};
use crate::Failure;
use crate::ensemble::Ensemble;

pub(super) const APP: App = App {
    name: "clickhouse",
    prepare,
    command,
    configure: unchanged,
    observers: 0,
    on_pole: &["lost=0"],
    limit: Duration::from_secs(600),
};

fn prepare() -> Result<(), Failure> {
    tools::environment(APP.name)?;
    tools::debian(APP.name)
}

fn command(command: &mut Command, _ensemble: &Ensemble) -> Result<(), Failure> {
    command.env("APP_CLICKHOUSE", tools::folder(APP.name).join("debian/root"));
    Ok(())
}
