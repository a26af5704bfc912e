//! ClickHouse's engine, as the library chDB, with tables of the engine KeeperMap, while servers are killed.

use std::time::Duration;

use super::{App, no_arguments, tools, unchanged};
use crate::Failure;

pub(super) const APP: App = App {
    name: "chdb",
    prepare,
    command: no_arguments,
    configure: unchanged,
    observers: 0,
    on_pole: &["wrong=0"],
    limit: Duration::from_secs(300),
};

fn prepare() -> Result<(), Failure> {
    tools::environment(APP.name)
}
