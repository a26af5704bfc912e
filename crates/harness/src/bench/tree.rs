//! One server with many znodes: its start time and memory.

use std::time::{Duration, Instant};

use pole_jute::CreateMode;

use super::Plan;
use super::metric::{Metric, Row};
use super::three_servers::{failed, first_write};
use crate::Failure;
use crate::client::{self, drive, load};
use crate::ensemble::{Ensemble, Launcher, READY_LIMIT, Setup};

/// Fills a server, stops it gracefully, and measures the next start on the same data.
pub(super) fn run(
    launcher: &Launcher,
    rows: &[Row],
    plan: Plan,
    record: &mut dyn FnMut(Metric, f64),
) -> Result<(), Failure> {
    let selected = |row| rows.contains(&row);
    if !selected(Row::Start) && !selected(Row::Memory) {
        return Ok(());
    }
    let mut ensemble = Ensemble::ready(launcher, &Setup::new("bench-tree", 1))?;
    fill(&ensemble, plan.znodes)?;
    ensemble.server(0).terminate(END_LIMIT)?;

    let start = Instant::now();
    ensemble.server(0).start()?;
    let took = first_write(&mut ensemble, start)?;
    if selected(Row::Start) {
        record(Metric::StartTree, took.as_secs_f64() * 1e3);
    }
    if selected(Row::Memory) {
        ensemble.wait_ready(READY_LIMIT)?;
        std::thread::sleep(plan.settle);
        record(Metric::MemoryTree, ensemble.usage().resident_bytes as f64 / 1e6);
    }
    ensemble.done()
}

/// Creates the znodes, a thousand under each parent.
fn fill(ensemble: &Ensemble, znodes: u32) -> Result<(), Failure> {
    let parents = (0..znodes.div_ceil(PER_PARENT)).map(|n| client::create(&parent(n), b"", CreateMode::Persistent));
    let nodes = (0..znodes).map(|n| {
        let path = format!("{}/{:04}", parent(n / PER_PARENT), n % PER_PARENT);
        client::create(&path, &[b'x'; ZNODE_BYTES], CreateMode::Persistent)
    });
    let address = ensemble.addresses()[0];
    drive(async { load::send_all(address, parents.chain(nodes), OUTSTANDING, None).await.map_err(failed) })?;
    Ok(())
}

fn parent(number: u32) -> String {
    format!("/tree-{number:04}")
}

const PER_PARENT: u32 = 1000;
const ZNODE_BYTES: usize = 100;

/// Enough to keep a server busy, too few to reach one of its limits.
const OUTSTANDING: usize = 200;

/// A server that is still running this long after SIGTERM hangs.
const END_LIMIT: Duration = Duration::from_secs(30);
