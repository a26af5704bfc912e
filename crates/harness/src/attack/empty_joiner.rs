//! An empty server joins an ensemble with a large tree, under load.
//!
//! A paced load of writes goes to the two other servers. First it is measured alone; then one follower is killed, wiped
//! and started again, several times. Each join may lengthen the longest pause of the load by a tenth of a second, must
//! cost no election and no connection, and the joiner must be level within twice the time of a join without load.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pole_jute::{CreateMode, MultiOp};

use super::raw::Raw;
use super::{Attack, Found, bulk};
use crate::ensemble::{Ensemble, Launcher, Probe, READY_LIMIT, Setup};
use crate::{Failure, client};

pub(super) const ATTACK: Attack = Attack::alone(
    "empty-joiner",
    "an empty server joins five times: 2,000,000 nodes of 100 B, 5,000 writes of 1 KiB a second",
    run,
);

fn run(launcher: &Launcher) -> Result<Found, Failure> {
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

    let mut found = Found::default();
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
            .unless(longest <= alone + PAUSE_EXTRA_MAX, || {
                format!("join {round}: the longest pause was {longest:.0?}, without a joiner {alone:.0?}")
            })
            .unless(took <= 2 * idle, || format!("join {round}: level after {took:.1?}, without load after {idle:.1?}"))
            .unless(elections == 0, || format!("join {round}: the epoch changed {elections} times"));
    }
    let broken: u64 = loads.into_iter().map(Load::stop).sum();
    found = found.unless(broken == 0, || format!("{broken} connections of the load broke"));
    ensemble.check_running()?;
    if found.complaints.is_empty() {
        ensemble.done()?;
    }
    Ok(Found { note: notes.join("; "), ..found })
}

/// Creates the nodes, a thousand under each parent, and those that the load writes to.
fn fill(leader: SocketAddr) -> io::Result<()> {
    let mut raw = Raw::plain(leader)?;
    raw.open_session(SESSION_TIMEOUT)?;
    let (empty, data) = (Bytes::new(), Bytes::from_static(&[b'x'; NODE_BYTES]));
    let parents = (0..NODES.div_ceil(1000)).map(|n| format!("/d{n}")).chain(["/load".to_owned()]);
    let written = (0..WRITTEN).map(|n| format!("/load/{n}"));
    let nodes = (0..NODES).map(|n| format!("/d{}/n{n:07}", n / 1000));
    let create = |path, data: &Bytes| MultiOp::Create(bulk::create(path, data, CreateMode::Persistent));
    let few = parents.chain(written).map(|path| create(path, &empty));
    bulk::multis(&mut raw, few.chain(nodes.map(|path| create(path, &data))))
}

/// Kills a server, removes its data, starts it, and waits until it has what the others have. Returns how long that took.
fn join(ensemble: &mut Ensemble, joiner: usize) -> Result<Duration, Failure> {
    let server = ensemble.server(joiner);
    server.reap()?;
    server.wipe()?;
    let began = Instant::now();
    server.start()?;
    loop {
        let zxids: Vec<u64> = ensemble.servers().iter().map(|server| server.probe().zxid().unwrap_or(0)).collect();
        let most = zxids.iter().copied().max().unwrap_or(0);
        // Within a tenth of a second of writes: a follower is never closer under load.
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

/// Writes at a steady rate over one connection, with a bound on what is outstanding.
struct Load {
    seen: Arc<Seen>,
    threads: [JoinHandle<()>; 2],
}

#[derive(Default)]
struct Seen {
    stop: AtomicBool,
    acked: AtomicU64,
    /// The longest time between two replies, in microseconds.
    longest_us: AtomicU64,
    broken: AtomicU64,
}

impl Load {
    fn start(server: SocketAddr) -> io::Result<Self> {
        let mut sender = Raw::plain(server)?;
        sender.open_session(SESSION_TIMEOUT)?;
        let mut receiver = sender.clone_plain()?;
        let seen = Arc::new(Seen::default());
        let (sending, receiving) = (Arc::clone(&seen), Arc::clone(&seen));
        let threads = [
            std::thread::spawn(move || {
                sending.end(send(&mut sender, &sending));
                let _ = sender.stream().shutdown(Shutdown::Both);
            }),
            std::thread::spawn(move || receiving.end(receive(&mut receiver, &receiving))),
        ];
        Ok(Self { seen, threads })
    }

    /// Ends it. Returns 1 if its connection broke before.
    fn stop(self) -> u64 {
        self.seen.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
        self.seen.broken.load(Ordering::Relaxed).min(1)
    }
}

impl Seen {
    fn end(&self, result: io::Result<()>) {
        if result.is_err() && !self.stop.load(Ordering::Relaxed) {
            self.broken.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn send(raw: &mut Raw, seen: &Seen) -> io::Result<()> {
    let (began, mut sent) = (Instant::now(), 0);
    let rate = RATE / 2;
    while !seen.stop.load(Ordering::Relaxed) {
        let due = (began.elapsed().as_secs_f64() * rate as f64) as u64;
        let room = OUTSTANDING_MAX.saturating_sub(sent - seen.acked.load(Ordering::Acquire));
        let mut batch = Vec::new();
        for _ in 0..due.saturating_sub(sent).min(room) {
            let path = format!("/load/{}", sent % WRITTEN);
            batch.extend_from_slice(&raw.numbered(&client::set_data(&path, &[b'y'; WRITE_BYTES])));
            sent += 1;
        }
        raw.send(&batch)?;
        sleep(SEND_STEP);
    }
    Ok(())
}

fn receive(raw: &mut Raw, seen: &Seen) -> io::Result<()> {
    let mut last = Instant::now();
    loop {
        super::raw::done(raw.answer()?)?;
        let now = Instant::now();
        seen.longest_us.fetch_max((now - last).as_micros() as u64, Ordering::Relaxed);
        last = now;
        seen.acked.fetch_add(1, Ordering::Release);
    }
}

/// The longest pause of all since the last call.
fn take_longest(loads: &[Load]) -> Duration {
    let each = loads.iter().map(|load| load.seen.longest_us.swap(0, Ordering::Relaxed));
    Duration::from_micros(each.max().unwrap_or(0))
}

fn acked(loads: &[Load]) -> u64 {
    loads.iter().map(|load| load.seen.acked.load(Ordering::Relaxed)).sum()
}

const NODES: usize = 2_000_000;
const NODE_BYTES: usize = 100;

/// Nodes that the load writes to.
const WRITTEN: u64 = 1000;
const WRITE_BYTES: usize = 1024;

/// Writes a second, over both connections.
const RATE: u64 = 5000;

/// Of each connection. A load that falls further behind waits.
const OUTSTANDING_MAX: u64 = 20_000;

const JOINS: usize = 5;

/// Beyond the longest pause without a joiner.
const PAUSE_EXTRA_MAX: Duration = Duration::from_millis(100);

const WARM_UP: Duration = Duration::from_secs(2);

/// How long the load is measured without a joiner: as long as a join takes.
const ALONE: Duration = Duration::from_secs(20);

const JOIN_LIMIT: Duration = Duration::from_secs(300);
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(20);

/// Between two batches of the load.
const SEND_STEP: Duration = Duration::from_millis(2);
