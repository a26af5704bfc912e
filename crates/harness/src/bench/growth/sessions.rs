//! Sessions that only ping: memory, time to connect, CPU of the pings, and a leader change with all of them.

use std::time::{Duration, Instant};

use super::table::{Figure, Point};
use super::{SERVERS, STEADY_RATE, ms};
use crate::Failure;
use crate::bench::Plan;
use crate::client::crowd::{Crowd, raise_files_max};
use crate::client::steady::Steady;
use crate::ensemble::{Ensemble, Launcher, READY_LIMIT, Setup};

pub(super) fn run(launcher: &Launcher, plan: Plan, point: &mut Point<'_>) -> Result<(), Failure> {
    let sessions = point.size();
    let mut ensemble = Ensemble::ready(launcher, &Setup::new("growth-sessions", SERVERS))?;
    std::thread::sleep(plan.settle);
    let fresh = ensemble.usage().resident_bytes;

    let mut crowd = Crowd::start(&ensemble.addresses(), sessions as usize, SESSION_TIMEOUT)?;
    point.record(&CONNECT, ms(crowd.open(OPEN_LIMIT)?))?;

    // Each session pings once in a third of its timeout.
    let (before, pings, from) = (ensemble.usage().cpu, crowd.counts()?.pings, Instant::now());
    std::thread::sleep(SESSION_TIMEOUT / 3);
    let (cpu, elapsed) = (ensemble.usage().cpu.saturating_sub(before), from.elapsed());
    let pings = crowd.counts()?.pings - pings;
    let resident = ensemble.usage().resident_bytes;
    point.record(&MEMORY, resident as f64 / 1e6 / SERVERS as f64)?;
    point.record(&MEMORY_PER_SESSION, (resident as f64 - fresh as f64) / f64::from(sessions))?;
    point.record(&CPU, 100.0 * cpu.as_secs_f64() / elapsed.as_secs_f64())?;
    point.record(&CPU_PER_PING, cpu.as_secs_f64() * 1e6 / pings.max(1) as f64)?;

    leader_change(&mut ensemble, &mut crowd, point)?;
    ensemble.done()
}

/// Kills the leader, starts it again as soon as a write has succeeded, and waits until all sessions are connected.
fn leader_change(ensemble: &mut Ensemble, crowd: &mut Crowd, point: &mut Point<'_>) -> Result<(), Failure> {
    let (needed, allowed) = (u64::from(point.size()) / (SERVERS as u64 - 1) + OTHER_FILES, raise_files_max());
    if needed > allowed {
        return point.note(&NO_WRITE, &format!("a survivor would need {needed} open files, and may have {allowed}"));
    }
    let steady = Steady::start(&ensemble.addresses(), STEADY_RATE)?;
    let leader = ensemble.wait_ready(READY_LIMIT)?;
    let signalled = Instant::now();
    ensemble.server(leader).kill()?;
    point.record(&NO_WRITE, ms(steady.next_write(signalled)?))?;
    ensemble.server(leader).start()?;
    crowd.wait_connected(RECONNECT_LIMIT)?;
    let connected = Instant::now();
    point.record(&RECONNECTED, ms(connected - signalled))?;
    point.record(&LONGEST_WRITE, ms(steady.longest(signalled, connected)?))?;
    let counts = crowd.counts()?;
    println!("  {} of {} connections broke", counts.broken, point.size());
    point.record(&EXPIRED, counts.expired as f64)?;
    steady.stop()
}

pub(super) const CONNECT: Figure = Figure::new("all sessions connected", "ms");
pub(super) const MEMORY: Figure = Figure::new("memory of a server", "MB");
pub(super) const MEMORY_PER_SESSION: Figure = Figure::new("memory of all servers for each session", "B");
pub(super) const CPU: Figure = Figure::new("CPU of all servers under pings, of a core", "%");
const CPU_PER_PING: Figure = Figure::new("CPU of all servers for each ping", "µs");
pub(super) const NO_WRITE: Figure = Figure::new("no write after kill -9 of the leader", "ms");
const RECONNECTED: Figure = Figure::new("all sessions connected again", "ms");
pub(super) const LONGEST_WRITE: Figure = Figure::new("longest write of 500/s until then", "ms");
pub(super) const EXPIRED: Figure = Figure::new("sessions lost with the leader", "");

/// The longest that servers with a tick of 2 s grant.
const SESSION_TIMEOUT: Duration = Duration::from_secs(40);

const OPEN_LIMIT: Duration = Duration::from_secs(300);

/// Sessions that are not connected again by then have expired.
const RECONNECT_LIMIT: Duration = Duration::from_secs(120);

/// Open files of a server beside those of its sessions.
const OTHER_FILES: u64 = 100;
