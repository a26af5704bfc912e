//! Voters: writes a second, latency and CPU under the load of the row `writes`.

use super::table::{Figure, Point};
use crate::Failure;
use crate::bench::Plan;
use crate::bench::three_servers::{FULL_LOAD, PAYLOAD_BYTES, Shape, ms, under_load, with_retries};
use crate::client::set_data;
use crate::ensemble::{Ensemble, Launcher, Setup};

pub(super) fn run(launcher: &Launcher, plan: Plan, point: &mut Point<'_>) -> Result<(), Failure> {
    let servers = point.size() as usize;
    let ensemble = Ensemble::ready(launcher, &Setup::new("growth-servers", servers))?;
    let write = |path: &str| set_data(path, &[b'x'; PAYLOAD_BYTES]);
    let found = with_retries("writes", || under_load(&ensemble, plan, FULL_LOAD, write))?;
    let replies = found.tally.replies as f64;
    point.record(&RATE, replies / found.seconds)?;
    point.record(&P50, ms(&found.tally, 50.0))?;
    let cpu = found.servers.as_secs_f64() * 1e6 / replies;
    point.record(&CPU, cpu)?;
    point.record(&CPU_PER_SERVER, cpu / servers as f64)?;
    let one_each = Shape { sessions: servers, outstanding: 1 };
    let found = with_retries("one write at a time", || under_load(&ensemble, plan, one_each, write))?;
    point.record(&LONE_P50, ms(&found.tally, 50.0))?;
    ensemble.done()
}

pub(super) const RATE: Figure = Figure::new("writes a second", "/s");
pub(super) const P50: Figure = Figure::new("latency p50 under that load", "ms");
pub(super) const CPU: Figure = Figure::new("CPU of all servers for a write", "µs");
const CPU_PER_SERVER: Figure = Figure::new("of it, of one server", "µs");
pub(super) const LONE_P50: Figure = Figure::new("p50 with one write at a time at each server", "ms");
