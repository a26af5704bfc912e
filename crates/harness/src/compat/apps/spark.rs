//! Spark standalone with ZooKeeper recovery: two masters, a worker and an application.
//!
//! Servers and the active master are killed meanwhile.

use std::time::Duration;

use super::{App, no_arguments, tools, unchanged};
use crate::Failure;

pub(super) const APP: App = App {
    name: "spark",
    prepare,
    command: no_arguments,
    configure: unchanged,
    observers: 0,
    on_pole: &["wrong=0"],
    limit: Duration::from_secs(900),
};

fn prepare() -> Result<(), Failure> {
    tools::java()?;
    tools::environment(APP.name)
}
