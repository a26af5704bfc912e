//! An empty server joins an ensemble with a large tree, under load.
//!
//! A paced load of writes goes to the two other servers. It is first measured alone; then one follower is killed,
//! wiped and restarted, several times. A join may add a tenth of a second to the longest pause of the load, and must
//! not cause an election or break a connection. The joiner must be up to date within twice the time of a join without
//! load.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pole_jute::{CreateMode, MultiOp};

use super::raw::RawClient;
use super::{Attack, Findings, bulk};
use crate::ensemble::{Ensemble, Launcher, Probe, READY_LIMIT, Setup};
use crate::{Failure, client};

pub(super) const ATTACK: Attack = Attack::self_contained(
    "empty-joiner",
    "an empty server joins five times: 2,000,000 nodes of 100 B, 5,000 writes of 1 KiB a second",
    run,
);

fn run(launcher: &Launcher) -> Result<Findings, Failure> {
    let mut ensemble = Ensemble::ready(launcher, &Setup::new("attack-empty-joiner", 3))?;
    let leader = ensemble.wait_ready(READY_LIMIT)?;
    let failed = |why: io::Error| Failure::Check(format!("a client of the attack failed: {why}"));
    fill(ensemble.servers()[leader].address()).map_err(failed)?;
    let leader = ensemble.wait_ready(READY_LIMIT)?;
    let joiner = (0..3).rfind(|index| *index != leader).unwrap_or_default();
    let others: Vec<SocketAddr> =
        ensemble.servers().iter().filter(|server| server.id() != joiner + 1).map(|server| server.address()).collect();
    let probes: Vec<Probe> = ensemble.servers().iter().map(|server| server.probe()).collect();

    let idle = join(&mut ensemble, joiner)?;
    let loads: Vec<Load> = others.iter().map(|at| Load::start(*at)).collect::<io::Result<_>>().map_err(failed)?;
    sleep(WARM_UP);
    take_longest(&loads);
    sleep(ALONE);
    let alone = take_longest(&loads);

    let mut found = Findings::default();
    let mut notes =
        vec![format!("idle join {:.1} s, longest pause without a joiner {} ms", idle.as_secs_f64(), alone.as_millis())];
    for round in 1..=JOINS {
        let (epoch, acked) = (epoch(&probes), acked(&loads));
        let began = Instant::now();
        let took = join(&mut ensemble, joiner)?;
        let rate = (self::acked(&loads) - acked) as f64 / began.elapsed().as_secs_f64();
        let (longest, elections) = (take_longest(&loads), self::epoch(&probes) - epoch);
        notes.push(format!(
            "join {round}: level after {:.1} s, longest pause {} ms, {rate:.0} writes/s",
            took.as_secs_f64(),
            longest.as_millis()
        ));
        found = found
            .require(longest <= alone + PAUSE_EXTRA_MAX, || {
                format!("join {round}: the longest pause was {longest:.0?}, without a joiner {alone:.0?}")
            })
            .require(took <= 2 * idle, || {
                format!("join {round}: level after {took:.1?}, without load after {idle:.1?}")
            })
            .require(elections == 0, || format!("join {round}: the epoch changed {elections} times"));
    }
    let broken: u64 = loads.into_iter().map(Load::stop).sum();
    found = found.require(broken == 0, || format!("{broken} connections of the load broke"));
    ensemble.check_running()?;
    if found.problems.is_empty() {
        ensemble.done()?;
    }
    Ok(Findings { note: notes.join("; "), ..found })
}

/// Creates the nodes, a thousand under each parent, and the nodes that the load writes to.
fn fill(leader: SocketAddr) -> io::Result<()> {
    let mut raw = RawClient::plain(leader)?;
    raw.open_session(SESSION_TIMEOUT)?;
    let (empty, data) = (Bytes::new(), Bytes::from_static(&[b'x'; NODE_BYTES]));
    let parents = (0..NODES.div_ceil(1000)).map(|n| format!("/d{n}")).chain(["/load".to_owned()]);
    let written = (0..WRITTEN).map(|n| format!("/load/{n}"));
    let nodes = (0..NODES).map(|n| format!("/d{}/n{n:07}", n / 1000));
    let create = |path, data: &Bytes| MultiOp::Create(bulk::create(path, data, CreateMode::Persistent));
    let few = parents.chain(written).map(|path| create(path, &empty));
    bulk::run_multis(&mut raw, few.chain(nodes.map(|path| create(path, &data))))
}

/// Kills a server, removes its data, restarts it, and waits until it has caught up. Returns the time from the restart.
fn join(ensemble: &mut Ensemble, joiner: usize) -> Result<Duration, Failure> {
    let server = ensemble.server(joiner);
    server.reap()?;
    server.wipe()?;
    let began = Instant::now();
    server.start()?;
    loop {
        let zxids: Vec<u64> = ensemble.servers().iter().map(|server| server.probe().zxid().unwrap_or(0)).collect();
        let most = zxids.iter().copied().max().unwrap_or(0);
        // Up to a tenth of a second of writes may be missing: under load, a follower is never closer.
        if zxids[joiner] > 0 && zxids[joiner] + RATE / 10 >= most {
            return Ok(began.elapsed());
        }
        if began.elapsed() > JOIN_LIMIT {
            let (ours, limit) = (zxids[joiner], JOIN_LIMIT);
            return Err(Failure::Check(format!("the joiner is at {ours:#x} after {limit:?}, the others at {most:#x}")));
        }
        sleep(STEP);
    }
}

fn epoch(probes: &[Probe]) -> u64 {
    probes.iter().filter_map(|probe| probe.epoch()).max().unwrap_or(0)
}

/// Writes at a steady rate over one connection, with a limit on outstanding requests.
struct Load {
    stats: Arc<LoadStats>,
    threads: [JoinHandle<()>; 2],
}

#[derive(Default)]
struct LoadStats {
    stop: AtomicBool,
    acked: AtomicU64,
    /// The longest time between two replies, in microseconds.
    longest_us: AtomicU64,
    broken: AtomicU64,
}

impl Load {
    fn start(server: SocketAddr) -> io::Result<Self> {
        let mut sender = RawClient::plain(server)?;
        sender.open_session(SESSION_TIMEOUT)?;
        let mut receiver = sender.clone_plain()?;
        let stats = Arc::new(LoadStats::default());
        let (sending, receiving) = (Arc::clone(&stats), Arc::clone(&stats));
        let threads = [
            std::thread::spawn(move || {
                sending.end(send(&mut sender, &sending));
                let _ = sender.stream().shutdown(Shutdown::Both);
            }),
            std::thread::spawn(move || receiving.end(receive(&mut receiver, &receiving))),
        ];
        Ok(Self { stats, threads })
    }

    /// Stops the load. Returns 1 if its connection broke before, else 0.
    fn stop(self) -> u64 {
        self.stats.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
        self.stats.broken.load(Ordering::Relaxed).min(1)
    }
}

impl LoadStats {
    fn end(&self, result: io::Result<()>) {
        if result.is_err() && !self.stop.load(Ordering::Relaxed) {
            self.broken.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn send(raw: &mut RawClient, stats: &LoadStats) -> io::Result<()> {
    let (began, mut sent) = (Instant::now(), 0);
    let rate = RATE / 2;
    while !stats.stop.load(Ordering::Relaxed) {
        let due = (began.elapsed().as_secs_f64() * rate as f64) as u64;
        let room = OUTSTANDING_MAX.saturating_sub(sent - stats.acked.load(Ordering::Acquire));
        let mut batch = Vec::new();
        for _ in 0..due.saturating_sub(sent).min(room) {
            let path = format!("/load/{}", sent % WRITTEN);
            batch.extend_from_slice(&raw.encode_next(&client::set_data(&path, &[b'y'; WRITE_BYTES])));
            sent += 1;
        }
        raw.send(&batch)?;
        sleep(SEND_STEP);
    }
    Ok(())
}

fn receive(raw: &mut RawClient, stats: &LoadStats) -> io::Result<()> {
    let mut last = Instant::now();
    loop {
        super::raw::check_ok(raw.answer()?)?;
        let now = Instant::now();
        stats.longest_us.fetch_max((now - last).as_micros() as u64, Ordering::Relaxed);
        last = now;
        stats.acked.fetch_add(1, Ordering::Release);
    }
}

/// The longest pause of all loads since the last call.
fn take_longest(loads: &[Load]) -> Duration {
    let each = loads.iter().map(|load| load.stats.longest_us.swap(0, Ordering::Relaxed));
    Duration::from_micros(each.max().unwrap_or(0))
}

fn acked(loads: &[Load]) -> u64 {
    loads.iter().map(|load| load.stats.acked.load(Ordering::Relaxed)).sum()
}

const NODES: usize = 2_000_000;
const NODE_BYTES: usize = 100;

/// The number of nodes that the load writes to.
const WRITTEN: u64 = 1000;
const WRITE_BYTES: usize = 1024;

/// Writes per second, over both connections.
const RATE: u64 = 5000;

/// The limit of each connection. A load that has reached it waits for replies.
const OUTSTANDING_MAX: u64 = 20_000;

const JOINS: usize = 5;

/// The allowed extra pause, compared with the longest pause without a joiner.
const PAUSE_EXTRA_MAX: Duration = Duration::from_millis(100);

const WARM_UP: Duration = Duration::from_secs(2);

/// The duration of the measurement without a joiner: about as long as a join.
const ALONE: Duration = Duration::from_secs(20);

const JOIN_LIMIT: Duration = Duration::from_secs(300);
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(20);

/// The pause between two batches of the load.
const SEND_STEP: Duration = Duration::from_millis(2);
