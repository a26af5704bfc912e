//! Kafka 3.9 in ZooKeeper mode: three brokers with a producer and a consumer, while servers are killed.
//!
//! `compat/apps/kafka/main.py` compares what was acknowledged with what was consumed.

use std::process::Command;
use std::time::Duration;

use super::{App, tools, unchanged};
use crate::Failure;
use crate::ensemble::Ensemble;

pub(super) const APP: App = App {
    name: "kafka",
    prepare,
    command,
    configure: unchanged,
    observers: 0,
    on_pole: &["lost=0", "expired=0", "needless_controllers=0"],
    limit: Duration::from_secs(600),
};

fn prepare() -> Result<(), Failure> {
    tools::java()?;
    tools::environment(APP.name)?;
    tools::jars(APP.name)
}

fn command(command: &mut Command, _ensemble: &Ensemble) -> Result<(), Failure> {
    command.env("APP_LIB", tools::folder(APP.name).join("jars"));
    Ok(())
}
