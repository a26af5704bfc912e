//! Watches of a thousand sessions: memory, and one transaction that fires up to 100,000 of them.
//!
//! A session gets one event for a change of a path, so the transaction is a multi that changes a hundred watched nodes.

use std::time::{Duration, Instant};

use pole_jute::{CreateMode, MultiOp, MultiRequest, Request, SetDataRequest};

use super::table::{Figure, Point};
use super::{SERVERS, STEADY_RATE, ms, send};
use crate::Failure;
use crate::bench::Plan;
use crate::client::crowd::{Crowd, watched};
use crate::client::steady::Steady;
use crate::client::{create, drive, load};
use crate::ensemble::{Ensemble, Launcher, Setup};

pub(super) fn run(launcher: &Launcher, plan: Plan, point: &mut Point<'_>) -> Result<(), Failure> {
    let nodes = point.size().div_ceil(SESSIONS);
    let watches = f64::from(nodes * SESSIONS);
    let ensemble = Ensemble::ready(launcher, &Setup::new("growth-watches", SERVERS))?;
    let creates = (0..nodes).map(|n| create(&watched(n), b"", CreateMode::Persistent));
    send(&ensemble, vec![Box::new(creates)])?;
    let mut crowd = Crowd::start(&ensemble.addresses(), SESSIONS as usize, SESSION_TIMEOUT)?;
    crowd.open(LIMIT)?;
    std::thread::sleep(plan.settle);
    let before = ensemble.usage().resident_bytes as f64;
    let start = Instant::now();
    crowd.watch(nodes, LIMIT)?;
    point.record(&SET_RATE, watches / start.elapsed().as_secs_f64())?;
    std::thread::sleep(plan.settle);
    let after = ensemble.usage().resident_bytes as f64;
    point.record(&MEMORY, after / 1e6 / SERVERS as f64)?;
    point.record(&MEMORY_PER_WATCH, (after - before) / watches)?;

    let steady = Steady::start(&ensemble.addresses(), STEADY_RATE)?;
    let from = Instant::now();
    std::thread::sleep(plan.window / 2);
    point.record(&LONGEST_WRITE, ms(steady.longest(from, Instant::now())?))?;
    let fired = nodes.min(FIRED_NODES);
    let set = |n| MultiOp::SetData(SetDataRequest { path: watched(n), data: None, version: -1 });
    let change = Request::Multi(MultiRequest { ops: (0..fired).map(set).collect() });
    let address = ensemble.addresses()[0];
    let cpu = ensemble.usage().cpu;
    let from = Instant::now();
    let arrived = crowd.events(fired, LIMIT, || {
        let sent = drive(async { Ok::<_, Failure>(load::once(address, &change).await) })?;
        sent.map_err(crate::bench::three_servers::failed)
    })?;
    point.record(&ARRIVED, ms(arrived))?;
    let events = f64::from(fired * SESSIONS);
    point.record(&CPU_PER_EVENT, ensemble.usage().cpu.saturating_sub(cpu).as_secs_f64() * 1e6 / events)?;
    point.record(&LONGEST_WRITE_FIRED, ms(steady.longest(from, from + arrived)?))?;
    steady.stop()?;
    ensemble.done()
}

const SET_RATE: Figure = Figure::new("watches set a second", "/s");
pub(super) const MEMORY: Figure = Figure::new("memory of a server", "MB");
pub(super) const MEMORY_PER_WATCH: Figure = Figure::new("memory of all servers for each watch", "B");
const LONGEST_WRITE: Figure = Figure::new("longest write of 500/s, undisturbed", "ms");
/// All if there are fewer.
pub(super) const ARRIVED: Figure = Figure::new("100,000 watches fired by one transaction, all arrived", "ms");
pub(super) const CPU_PER_EVENT: Figure = Figure::new("CPU of all servers for each event", "µs");
pub(super) const LONGEST_WRITE_FIRED: Figure = Figure::new("longest write of 500/s until then", "ms");

const SESSIONS: u32 = 1000;
const SESSION_TIMEOUT: Duration = Duration::from_secs(40);

/// Nodes that one transaction changes.
const FIRED_NODES: u32 = 100;

/// Setting a million watches takes seconds.
const LIMIT: Duration = Duration::from_secs(300);
