//! Writes that arrive at a rate, whether or not the earlier ones are answered: three servers, alone and with observers.
//!
//! Before the first round the same arrivals are sent to a server that only answers ([`Echo`]). What is measured there is
//! the share of the generator, the kernel and the machine in every latency of these rows.

use std::process::Command;
use std::time::{Duration, Instant};

use super::Plan;
use super::metric::{Metric, Row};
use super::three_servers::{MeasureError, PAYLOAD_BYTES, Shape, create_nodes, lanes, ms, syncs, with_retries};
use crate::Failure;
use crate::client::arrivals::{Arrivals, Measured};
use crate::client::echo::Echo;
use crate::client::load::{Lane, Window};
use crate::client::{self, drive};
use crate::command::output_of;
use crate::ensemble::{Ensemble, Launcher, READY_LIMIT, Server, Setup};

/// Runs the selected measurements of this module.
pub(super) fn run(
    launcher: &Launcher,
    rows: &[Row],
    plan: Plan,
    record: &mut dyn FnMut(Metric, f64),
) -> Result<(), Failure> {
    if rows.contains(&Row::Arrivals) {
        let mut ensemble = Ensemble::ready(launcher, &Setup::new("bench-arrivals", VOTERS))?;
        for rate in RATES {
            let Some(found) = at_rate(&mut ensemble, rate, plan)? else { continue };
            record(Metric::ArrivalsP50(rate), ms(&found.measured.tally, 50.0));
            record(Metric::ArrivalsP99(rate), ms(&found.measured.tally, 99.0));
            record(Metric::ArrivalsCpu(rate), found.per_write(found.servers));
            record(Metric::ArrivalsSyncs(rate), found.syncs / found.measured.tally.replies as f64);
        }
        ensemble.done()?;
    }
    if rows.contains(&Row::Observers) {
        for observers in [0, OBSERVERS] {
            with_observers(launcher, observers, plan, record)?;
        }
    }
    Ok(())
}

/// What the generator and the machine add to a latency, at each rate.
pub(super) fn calibrate(rows: &[Row], plan: Plan) -> Result<(), Failure> {
    if !rows.contains(&Row::Arrivals) && !rows.contains(&Row::Observers) {
        return Ok(());
    }
    let echo = Echo::start().map_err(|why| Failure::Check(format!("cannot start the echo server: {why}")))?;
    println!("calibration: the same arrivals at a server that only answers");
    println!("  {:>8}   {:>17}   {:>17}", "writes/s", "sent late p50/p99", "answered p50/p99");
    for rate in RATES {
        let write = |path: &str| client::set_data(path, &[b'x'; PAYLOAD_BYTES]);
        let lanes = lanes(&[echo.address()], SESSIONS, write);
        let window = Plan { warm_up: plan.window / 10, window: plan.window / 5, ..plan };
        let arrived = || drive(async { arrive(&lanes, rate, window, || ()).await });
        let measured = with_retries("calibration", arrived)?.measured;
        let late = |percent: f64| measured.lateness.value_at_percentile(percent);
        let answered = |percent: f64| measured.tally.latencies.value_at_percentile(percent);
        let pair = |p50: u64, p99: u64| format!("{p50}/{p99} µs");
        println!("  {rate:>8}   {:>17}   {:>17}", pair(late(50.0), late(99.0)), pair(answered(50.0), answered(99.0)));
    }
    Ok(())
}

/// The load with this many observers beside the three voters. Clients are at the voters.
fn with_observers(
    launcher: &Launcher,
    observers: usize,
    plan: Plan,
    record: &mut dyn FnMut(Metric, f64),
) -> Result<(), Failure> {
    let setup = Setup { observers, ..Setup::new("bench-observers", VOTERS + observers) };
    let mut ensemble = Ensemble::ready(launcher, &setup)?;
    let Some(found) = at_rate(&mut ensemble, OBSERVED_RATE, plan)? else {
        return Err(Failure::Check(format!("{observers} observers: {OBSERVED_RATE} writes/s are not sustained")));
    };
    let count = observers as u16;
    record(Metric::ObserversP50(count), ms(&found.measured.tally, 50.0));
    record(Metric::ObserversP99(count), ms(&found.measured.tally, 99.0));
    record(Metric::ObserversLeaderCpu(count), found.per_write(found.leader));
    if observers > 0
        && let Some(sent) = found.sent_bytes
    {
        let per_observer = sent as f64 / found.measured.tally.replies as f64 / observers as f64;
        record(Metric::ObserversBytes(count), per_observer);
    }
    ensemble.done()
}

/// The result of a load with arrivals on real servers.
struct Found {
    measured: Measured,
    /// The CPU time of all servers.
    servers: Duration,
    /// The CPU time of the leader.
    leader: Duration,
    /// The number of syncs of all servers.
    syncs: f64,
    /// What the leader has sent to observers. None if the kernel's list of sockets cannot be read.
    sent_bytes: Option<u64>,
}

impl Found {
    /// In microseconds.
    fn per_write(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1e6 / self.measured.tally.replies as f64
    }
}

/// The counters of the servers at one moment.
struct Counters {
    servers: Duration,
    leader: Duration,
    syncs: f64,
    sent_bytes: Option<u64>,
}

impl Counters {
    fn read(ensemble: &Ensemble, leader: usize) -> Self {
        let server = &ensemble.servers()[leader];
        let of_observers = ensemble.servers().get(VOTERS..).unwrap_or(&[]);
        let pids: Vec<u32> = of_observers.iter().filter_map(Server::pid).collect();
        Self {
            servers: ensemble.usage().cpu,
            leader: server.usage().unwrap_or_default().cpu,
            syncs: syncs(&ensemble.servers().iter().map(Server::probe).collect::<Vec<_>>()),
            sent_bytes: received_from(server.ports().quorum, &pids),
        }
    }
}

/// A rate on real servers. None, with a line that says so, if the servers do not answer in time.
fn at_rate(ensemble: &mut Ensemble, rate: u16, plan: Plan) -> Result<Option<Found>, Failure> {
    let what = format!("{rate} writes/s");
    let leader = ensemble.wait_ready(READY_LIMIT)?;
    let addresses = &ensemble.addresses()[..VOTERS];
    let write = |path: &str| client::set_data(path, &[b'x'; PAYLOAD_BYTES]);
    let lanes = lanes(addresses, SESSIONS, write);
    let half = Plan { warm_up: plan.warm_up / 2, window: plan.window / 2, ..plan };
    let found = with_retries(&what, || {
        let arrived = drive(async {
            create_nodes(addresses, SESSIONS.sessions).await?;
            arrive(&lanes, rate, half, || Counters::read(ensemble, leader)).await
        });
        match arrived {
            Ok(arrived) => Ok(Some(arrived)),
            Err(MeasureError::Client(client::Error::Silent(limit))) => {
                println!("  {what}: not sustained, requests wait longer than {} s", limit.as_secs());
                Ok(None)
            }
            Err(why) => Err(why),
        }
    })?;
    Ok(found.map(|Arrived { measured, before, after }| Found {
        measured,
        servers: after.servers.saturating_sub(before.servers),
        leader: after.leader.saturating_sub(before.leader),
        syncs: after.syncs - before.syncs,
        sent_bytes: after.sent_bytes.zip(before.sent_bytes).map(|(after, before)| after.saturating_sub(before)),
    }))
}

/// A load with what was read at the beginning and at the end of its window.
struct Arrived<T> {
    measured: Measured,
    before: T,
    after: T,
}

async fn arrive<T>(lanes: &[Lane], rate: u16, plan: Plan, read: impl Fn() -> T) -> Result<Arrived<T>, MeasureError> {
    let arrivals = Arrivals::open(lanes, rate.into()).await?;
    let from = Instant::now() + plan.warm_up;
    let window = Window { from, until: from + plan.window };
    let load = tokio::task::spawn_local(arrivals.run(window));
    tokio::time::sleep_until(window.from.into()).await;
    let before = read();
    tokio::time::sleep_until(window.until.into()).await;
    let after = read();
    Ok(Arrived { measured: load.await.expect("no task of ours panics")?, before, after })
}

/// The bytes that these processes have received on connections to this port, from the kernel's list of sockets.
fn received_from(port: u16, pids: &[u32]) -> Option<u64> {
    if pids.is_empty() {
        return None;
    }
    let list = output_of(
        Command::new("ss").args(["-t", "-n", "-p", "-i", "-H", "-O", "dst"]).arg(format!("127.0.0.1:{port}")),
    );
    let list = list.ok()?;
    let is_of = |line: &&str| pids.iter().any(|pid| line.contains(&format!("pid={pid},")));
    let received = |line: &str| {
        line.split_whitespace().find_map(|field| field.strip_prefix("bytes_received:")?.parse::<u64>().ok())
    };
    Some(list.lines().filter(is_of).filter_map(received).sum::<u64>())
}

const VOTERS: usize = 3;
const OBSERVERS: usize = 5;

/// The rates of the row, in writes per second over all sessions.
const RATES: [u16; 5] = [200, 1_000, 2_000, 5_000, 20_000];

/// The rate at which observers are measured.
const OBSERVED_RATE: u16 = 2_000;

/// Requests are sent when they are due, so the number of outstanding ones does not matter.
const SESSIONS: Shape = Shape { sessions: 30, outstanding: 1 };
