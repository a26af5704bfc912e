//! Three servers: start, memory, sessions, load and latency, on one ensemble.
//!
//! The order matters: memory is measured before any load, and latency last, when the JVM has compiled its hot code.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use pole_jute::{CreateMode, ErrorCode, Request};
use tokio::task::JoinSet;

use super::metric::{Metric, Row};
use super::{Plan, disk};
use crate::Failure;
use crate::client::load::{self, Lane, Load, Tally, Window};
use crate::client::{self, Timing, drive};
use crate::ensemble::{Ensemble, Launcher, Probe, READY_LIMIT, Server, Setup, Usage};

/// Runs the selected measurements of this module.
pub(super) fn run(
    launcher: &Launcher,
    rows: &[Row],
    plan: Plan,
    record: &mut dyn FnMut(Metric, f64),
) -> Result<(), Failure> {
    let selected = |row| rows.contains(&row);
    if ![Row::Start, Row::Memory, Row::Sessions, Row::Writes, Row::Reads, Row::Latency, Row::Curve]
        .into_iter()
        .any(selected)
    {
        return Ok(());
    }
    let (mut ensemble, first_write) = to_first_write(launcher)?;
    ensemble.wait_ready(READY_LIMIT)?;
    if selected(Row::Start) {
        record(Metric::StartThree, first_write.as_secs_f64() * 1e3);
    }
    if selected(Row::Memory) {
        std::thread::sleep(plan.settle);
        record(Metric::MemoryFresh, memory_mb(&ensemble));
    }
    if selected(Row::Sessions) {
        record(Metric::Sessions, sessions(&ensemble)?.as_secs_f64() * 1e3);
    }
    if selected(Row::Writes) || selected(Row::Memory) {
        let write = |path: &str| client::set_data(path, &[b'x'; PAYLOAD_BYTES]);
        let found = with_retries("writes", || under_load(&ensemble, plan, FULL_LOAD, write))?;
        if selected(Row::Writes) {
            found.record(WRITES, record);
        }
    }
    if selected(Row::Memory) {
        record(Metric::MemoryLoaded, memory_mb(&ensemble));
    }
    if selected(Row::Reads) {
        let read = |path: &str| client::get_data(path, false);
        with_retries("reads", || under_load(&ensemble, plan, FULL_LOAD, read))?.record(READS, record);
    }
    if selected(Row::Latency) {
        let by_leader = with_retries("one write at a time via the leader", || one_at_a_time(&mut ensemble, 0, plan))?;
        let by_follower = with_retries("one write at a time via a follower", || one_at_a_time(&mut ensemble, 1, plan))?;
        record(Metric::LeaderP50, ms(&by_leader.tally, 50.0));
        record(Metric::LeaderP99, ms(&by_leader.tally, 99.0));
        record(Metric::FollowerP50, ms(&by_follower.tally, 50.0));
        record(Metric::FollowerP99, ms(&by_follower.tally, 99.0));
        let replies = (by_leader.tally.replies + by_follower.tally.replies) as f64;
        record(Metric::LoneCpu, (by_leader.servers + by_follower.servers).as_secs_f64() * 1e6 / replies);
        record(Metric::DiskP50, disk::two_of_three_ms(ensemble.folder(), plan.window / 5)?);
    }
    if selected(Row::Curve) {
        curve(&ensemble, plan, record)?;
    }
    ensemble.done()
}

/// The reason why a measurement failed.
pub(super) enum MeasureError {
    Client(client::Error),
    /// The servers do not run, or not as they should.
    Servers(Failure),
}

impl From<client::Error> for MeasureError {
    fn from(why: client::Error) -> Self {
        Self::Client(why)
    }
}

impl From<Failure> for MeasureError {
    fn from(why: Failure) -> Self {
        Self::Servers(why)
    }
}

/// Measures, and again if the servers were unavailable meanwhile, which is printed. Without replies there is no
/// value, and a round that took minutes should not be lost because of that.
pub(super) fn with_retries<T>(what: &str, mut measure: impl FnMut() -> Result<T, MeasureError>) -> Result<T, Failure> {
    for attempt in 1..=ATTEMPTS {
        match measure() {
            Ok(found) => return Ok(found),
            Err(MeasureError::Client(why)) if why.is_unavailable() => {
                println!("  {what}: {why}; this was attempt {attempt} of {ATTEMPTS}");
            }
            Err(MeasureError::Client(why)) => return Err(failed(why)),
            Err(MeasureError::Servers(why)) => return Err(why),
        }
    }
    Err(Failure::Check(format!("{what}: no figure in {ATTEMPTS} attempts; what kept each from it stands above")))
}

/// Starts three servers and writes as soon as one accepts it.
fn to_first_write(launcher: &Launcher) -> Result<(Ensemble, Duration), Failure> {
    let mut ensemble = Ensemble::prepare(launcher, &Setup::new("bench", SERVERS))?;
    let start = Instant::now();
    for index in 0..SERVERS {
        ensemble.server(index).start()?;
    }
    let took = first_write(&mut ensemble, start)?;
    Ok((ensemble, took))
}

/// The time from `start` until a client has its first write acknowledged.
///
/// A new client tries every few milliseconds, whatever became of the earlier ones: Apache was observed to accept a
/// connection while it starts and never to answer on it, and a client's timeout is not what is measured.
pub(super) fn first_write(ensemble: &mut Ensemble, start: Instant) -> Result<Duration, Failure> {
    let addresses = ensemble.addresses();
    drive(async {
        let mut trying = JoinSet::new();
        let mut pace = tokio::time::interval(ATTEMPT_PAUSE);
        for address in addresses.iter().cycle().copied() {
            let write = client::create("/first", b"", CreateMode::EphemeralSequential);
            trying.spawn_local(async move { load::once(address, &write).await.map(|()| start.elapsed()) });
            pace.tick().await;
            while let Some(tried) = trying.try_join_next() {
                if let Ok(took) = tried.expect("no task of ours panics") {
                    return Ok(took);
                }
            }
            ensemble.check_running()?;
            if start.elapsed() > READY_LIMIT {
                break;
            }
        }
        let logs = ensemble.folder().display();
        Err(Failure::Check(format!("no write within {READY_LIMIT:?} of the start; logs: {logs}")))
    })
}

/// Opens many sessions at once, spread over the servers.
fn sessions(ensemble: &Ensemble) -> Result<Duration, Failure> {
    let addresses: Vec<SocketAddr> = ensemble.addresses().into_iter().cycle().take(MANY_SESSIONS).collect();
    drive(async {
        let start = Instant::now();
        let mut connections = load::connect(&addresses).await.map_err(failed)?;
        let took = start.elapsed();
        for connection in &mut connections {
            load::close(connection, 1).await.map_err(failed)?;
        }
        Ok(took)
    })
}

/// The result of a load.
pub(super) struct LoadResult {
    pub(super) tally: Tally,
    pub(super) seconds: f64,
    /// The CPU time of all servers.
    pub(super) servers: Duration,
    /// The CPU time of the load generator.
    pub(super) generator: Duration,
    /// The syncs of all servers.
    pub(super) syncs: f64,
}

/// The metrics for the values of a load.
struct Columns {
    cpu: Metric,
    rate: Metric,
    p50: Metric,
    p99: Metric,
    generator: Metric,
    servers: Metric,
}

impl LoadResult {
    fn record(&self, columns: Columns, record: &mut dyn FnMut(Metric, f64)) {
        let replies = self.tally.replies as f64;
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let share = |cpu: Duration| 100.0 * cpu.as_secs_f64() / (self.seconds * cores);
        record(columns.cpu, self.servers.as_secs_f64() * 1e6 / replies);
        record(columns.rate, replies / self.seconds);
        record(columns.p50, ms(&self.tally, 50.0));
        record(columns.p99, ms(&self.tally, 99.0));
        record(columns.generator, share(self.generator));
        record(columns.servers, share(self.servers));
    }
}

/// Writers with one outstanding write each, spread over the servers: from one to more than the cores can serve at once.
fn curve(ensemble: &Ensemble, plan: Plan, record: &mut dyn FnMut(Metric, f64)) -> Result<(), Failure> {
    let half = Plan { warm_up: plan.warm_up / 2, window: plan.window / 2, ..plan };
    for writers in WRITERS {
        let shape = Shape { sessions: writers.into(), outstanding: 1 };
        let write = |path: &str| client::set_data(path, &[b'x'; PAYLOAD_BYTES]);
        let found = with_retries(&format!("{writers} writers"), || under_load(ensemble, half, shape, write))?;
        record(Metric::CurveP50(writers), ms(&found.tally, 50.0));
        record(Metric::CurveP99(writers), ms(&found.tally, 99.0));
        record(Metric::CurveCpu(writers), found.servers.as_secs_f64() * 1e6 / found.tally.replies as f64);
        record(Metric::CurveSyncs(writers), found.syncs / found.tally.replies as f64);
    }
    Ok(())
}

/// The size of a load.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) sessions: usize,
    /// Requests in flight of each session.
    pub(super) outstanding: usize,
}

/// Every session has a node of its own and repeats the same request.
pub(super) fn under_load(
    ensemble: &Ensemble,
    plan: Plan,
    shape: Shape,
    request: impl Fn(&str) -> Request,
) -> Result<LoadResult, MeasureError> {
    let addresses = ensemble.addresses();
    let lanes = lanes(&addresses, shape, request);
    drive(async {
        create_nodes(&addresses, shape.sessions).await?;
        run_load(ensemble, Load::open(&lanes).await?, plan).await
    })
}

/// Sessions spread over these servers, each with a request for its own node.
pub(super) fn lanes(addresses: &[SocketAddr], shape: Shape, request: impl Fn(&str) -> Request) -> Vec<Lane> {
    let lane = |session: usize| Lane {
        address: addresses[session % addresses.len()],
        request: request(&node(session)),
        outstanding: shape.outstanding,
    };
    (0..shape.sessions).map(lane).collect()
}

/// Creates the node of every session, and waits until all these servers have them.
pub(super) async fn create_nodes(addresses: &[SocketAddr], sessions: usize) -> Result<(), client::Error> {
    let nodes = (0..sessions).map(|n| client::create(&node(n), &[b'x'; PAYLOAD_BYTES], CreateMode::Persistent));
    load::send_all(addresses[0], nodes, FULL_LOAD.outstanding, Some(ErrorCode::NodeExists)).await?;
    for address in addresses {
        load::send_all(*address, std::iter::once(client::sync()), 1, None).await?;
    }
    Ok(())
}

fn node(session: usize) -> String {
    format!("/bench-{session}")
}

/// Runs a load, and measures the CPU time of the servers and the generator in its window.
async fn run_load(ensemble: &Ensemble, load: Load, plan: Plan) -> Result<LoadResult, MeasureError> {
    let from = Instant::now() + plan.warm_up;
    let window = Window { from, until: from + plan.window };
    let load = tokio::task::spawn_local(load.run(window));
    let own_cpu = || Usage::of(std::process::id()).unwrap_or_default().cpu;
    let probes: Vec<_> = ensemble.servers().iter().map(Server::probe).collect();
    tokio::time::sleep_until(window.from.into()).await;
    // On another thread, because the load must not wait for it.
    let before = tokio::task::spawn_blocking({
        let probes = probes.clone();
        move || syncs(&probes)
    });
    let (begin, servers, generator) = (Instant::now(), ensemble.usage().cpu, own_cpu());
    tokio::time::sleep_until(window.until.into()).await;
    let servers = ensemble.usage().cpu.saturating_sub(servers);
    let (generator, seconds) = (own_cpu().saturating_sub(generator), begin.elapsed().as_secs_f64());
    let syncs = syncs(&probes) - before.await.expect("no task of ours panics");
    let tally = load.await.expect("no task of ours panics")?;
    Ok(LoadResult { tally, seconds, servers, generator, syncs })
}

/// How often all these servers have synced their logs.
pub(super) fn syncs(servers: &[Probe]) -> f64 {
    servers.iter().filter_map(|server| server.number("zk_cnt_fsynctime")).sum()
}

/// One session with one outstanding write, at the server `after_leader` places after the current leader. The leader
/// is determined anew, because it may have changed under load or in an earlier attempt.
fn one_at_a_time(ensemble: &mut Ensemble, after_leader: usize, plan: Plan) -> Result<LoadResult, MeasureError> {
    let leader = ensemble.wait_ready(READY_LIMIT)?;
    let address = ensemble.addresses()[(leader + after_leader) % SERVERS];
    let path = "/bench-latency";
    let lane = Lane { address, request: client::set_data(path, &[b'x'; PAYLOAD_BYTES]), outstanding: 1 };
    drive(async {
        let node = client::create(path, b"", CreateMode::Persistent);
        load::send_all(address, std::iter::once(node), 1, Some(ErrorCode::NodeExists)).await?;
        let half = Plan { warm_up: plan.warm_up / 2, window: plan.window / 2, ..plan };
        run_load(ensemble, Load::open(&[lane]).await?, half).await
    })
}

/// Per server, on average.
fn memory_mb(ensemble: &Ensemble) -> f64 {
    ensemble.usage().resident_bytes as f64 / 1e6 / ensemble.servers().len() as f64
}

pub(super) fn ms(tally: &Tally, percent: f64) -> f64 {
    tally.latency(percent).as_secs_f64() * 1e3
}

pub(super) fn failed(why: client::Error) -> Failure {
    Failure::Check(format!("a client of the load failed: {why}"))
}

/// A client that does not wait between attempts, because the servers are measured.
pub(super) const EAGER: Timing = Timing {
    session_timeout: Duration::from_secs(30),
    silence_max: Duration::from_secs(15),
    reconnect_pause: Duration::from_millis(5),
};

const WRITES: Columns = Columns {
    cpu: Metric::WriteCpu,
    rate: Metric::WriteRate,
    p50: Metric::WriteP50,
    p99: Metric::WriteP99,
    generator: Metric::WriteGenerator,
    servers: Metric::WriteServers,
};

const READS: Columns = Columns {
    cpu: Metric::ReadCpu,
    rate: Metric::ReadRate,
    p50: Metric::ReadP50,
    p99: Metric::ReadP99,
    generator: Metric::ReadGenerator,
    servers: Metric::ReadServers,
};

/// A server that is unavailable in more than two of these has a real problem.
const ATTEMPTS: usize = 3;

/// Short compared with every start.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(5);

const SERVERS: usize = 3;
pub(super) const FULL_LOAD: Shape = Shape { sessions: 30, outstanding: 16 };
/// The points of the curve.
const WRITERS: [u16; 7] = [1, 2, 4, 8, 16, 30, 100];
pub(super) const PAYLOAD_BYTES: usize = 1024;
const MANY_SESSIONS: usize = 1000;

#[test]
fn a_measurement_is_repeated_after_an_absence() {
    let mut answers = vec![Ok(7), Err(MeasureError::Client(client::Error::Closed))];
    assert_eq!(with_retries("x", || answers.pop().expect("two attempts")), Ok(7));
}

#[test]
fn a_permanent_absence_is_an_error() {
    let mut attempts = 0;
    let gone = with_retries("one write", || {
        attempts += 1;
        Err::<(), _>(client::Error::Silent(Duration::from_secs(5)).into())
    });
    assert_eq!(attempts, ATTEMPTS);
    assert!(matches!(gone, Err(Failure::Check(what)) if what.contains("one write: no figure")));
}

#[test]
fn a_measurement_is_not_repeated_after_a_wrong_answer() {
    let mut attempts = 0;
    let refused = with_retries("x", || {
        attempts += 1;
        Err::<(), _>(client::Error::Refused(ErrorCode::NoNode).into())
    });
    assert!(refused.is_err());
    assert_eq!(attempts, 1);
}
