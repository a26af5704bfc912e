//! Znodes of 100 bytes: memory, disk, start, leader changes, and the pauses of writes while a server joins or writes a
//! snapshot.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use pole_jute::{CreateMode, Request};

use super::table::{Figure, Point};
use super::{SERVERS, STEADY_RATE, memory_mb, ms, send};
use crate::Failure;
use crate::bench::Plan;
use crate::bench::three_servers::first_write;
use crate::client::create;
use crate::client::steady::Steady;
use crate::ensemble::{Ensemble, Launcher, Mode, Server, Setup};

pub(super) fn run(launcher: &Launcher, plan: Plan, point: &mut Point<'_>) -> Result<(), Failure> {
    let znodes = point.size();
    let mut setup = Setup::new("growth-znodes", SERVERS);
    if znodes > FEWER_SNAPSHOTS_ABOVE {
        setup = setup.with("snapCount=1000000");
    }
    let mut ensemble = Ensemble::ready(launcher, &setup)?;
    std::thread::sleep(plan.settle);
    let fresh = memory_mb(&ensemble);

    point.record(&CREATE_RATE, fill(&ensemble, znodes)?)?;
    point.record(&MEMORY_FILLED, memory_mb(&ensemble))?;
    record_disk(&ensemble, point)?;

    restart(&mut ensemble, point)?;
    std::thread::sleep(plan.settle);
    let memory = memory_mb(&ensemble);
    point.record(&MEMORY, memory)?;
    point.record(&MEMORY_PER_ZNODE, (memory - fresh) * 1e6 / f64::from(znodes))?;

    let steady = Steady::start(&ensemble.addresses(), STEADY_RATE)?;
    let from = Instant::now();
    // About as long as two snapshots take to become due: the longest of more writes is longer.
    std::thread::sleep(plan.window * 2);
    let without = steady.longest(from, Instant::now())?;
    point.record(&LONGEST_WRITE, ms(without))?;
    for _ in 0..plan.kills {
        point.record(&KILL, ms(leader_change(&mut ensemble, &steady, Loss::Killed)?))?;
        point.record(&HAND_OVER, ms(leader_change(&mut ensemble, &steady, Loss::Terminated)?))?;
    }
    join(&mut ensemble, &steady, point)?;
    steady.stop()?;
    snapshot(&mut ensemble, without, point)?;
    ensemble.done()
}

/// Creates the znodes, a thousand under each parent. Returns creates per second.
fn fill(ensemble: &Ensemble, znodes: u32) -> Result<f64, Failure> {
    let parents = (0..znodes.div_ceil(PER_PARENT)).map(|n| create(&parent(n), b"", CreateMode::Persistent));
    send(ensemble, vec![Box::new(parents)])?;
    let sessions = SERVERS as u32;
    let share = move |session: u32| -> Box<dyn Iterator<Item = Request>> {
        Box::new((session..znodes).step_by(SERVERS).map(|n| {
            let path = format!("{}/{:04}", parent(n / PER_PARENT), n % PER_PARENT);
            create(&path, &[b'x'; ZNODE_BYTES], CreateMode::Persistent)
        }))
    };
    send(ensemble, (0..sessions).map(share).collect())
}

fn parent(number: u32) -> String {
    format!("/growth-{number:04}")
}

/// What the files of a server occupy on disk, on average.
fn record_disk(ensemble: &Ensemble, point: &mut Point<'_>) -> Result<(), Failure> {
    let mut total = 0;
    let mut newest_snapshots = 0;
    for server in ensemble.servers() {
        let files = files(&server.data_dir().join("version-2"))?;
        total += files.iter().map(|file| file.occupied).sum::<u64>();
        newest_snapshots += newest_snapshot(&files).map_or(0, |file| file.occupied);
    }
    let per_server_mb = |bytes: u64| bytes as f64 / 1e6 / ensemble.servers().len() as f64;
    point.record(&DIRECTORY, per_server_mb(total))?;
    point.record(&SNAPSHOT_SIZE, per_server_mb(newest_snapshots))
}

struct DataFile {
    name: String,
    /// Without holes, with what is preallocated.
    occupied: u64,
}

fn files(folder: &Path) -> Result<Vec<DataFile>, Failure> {
    let entries = fs::read_dir(folder).map_err(|why| Failure::io("read", folder, &why))?;
    let file = |entry: fs::DirEntry| {
        // A file may be renamed or removed meanwhile.
        let metadata = entry.metadata().ok()?;
        Some(DataFile { name: entry.file_name().to_string_lossy().into_owned(), occupied: metadata.blocks() * 512 })
    };
    Ok(entries.flatten().filter_map(file).collect())
}

/// The snapshot with the highest zxid in its name.
fn newest_snapshot(files: &[DataFile]) -> Option<&DataFile> {
    files
        .iter()
        .filter_map(|file| Some((snapshot_zxid(&file.name)?, file)))
        .max_by_key(|(zxid, _)| *zxid)
        .map(|(_, f)| f)
}

/// The zxids of the snapshots of a server.
fn zxids(server: &Server) -> Result<Vec<u64>, Failure> {
    let files = files(&server.data_dir().join("version-2"))?;
    Ok(files.iter().filter_map(|file| snapshot_zxid(&file.name)).collect())
}

fn snapshot_zxid(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix("snapshot.")?, 16).ok()
}

/// Ends all servers in an orderly way and starts them on their files.
fn restart(ensemble: &mut Ensemble, point: &mut Point<'_>) -> Result<(), Failure> {
    end_all(ensemble)?;
    let start = Instant::now();
    (0..SERVERS).try_for_each(|index| ensemble.server(index).start())?;
    let took = first_write(ensemble, start)?;
    ensemble.wait_ready(START_LIMIT)?;
    point.record(&START, ms(took))
}

fn end_all(ensemble: &mut Ensemble) -> Result<(), Failure> {
    ensemble.servers().iter().try_for_each(Server::ask_to_end)?;
    for index in 0..SERVERS {
        if ensemble.server(index).wait_end(START_LIMIT)?.is_none() {
            return Err(Failure::Check(format!("server {} runs on {START_LIMIT:?} after SIGTERM", index + 1)));
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Loss {
    Killed,
    Terminated,
}

/// Takes the leader away, and returns the time from the signal to the first write that was due after it. Then brings
/// the server back.
fn leader_change(ensemble: &mut Ensemble, steady: &Steady, loss: Loss) -> Result<Duration, Failure> {
    let leader = ensemble.wait_ready(START_LIMIT)?;
    let signalled = Instant::now();
    match loss {
        Loss::Killed => ensemble.server(leader).kill()?,
        Loss::Terminated => ensemble.server(leader).ask_to_end()?,
    }
    let took = steady.next_write(signalled)?;
    // What is pending is answered before the next change.
    steady.longest(signalled, Instant::now())?;
    if let Loss::Terminated = loss
        && ensemble.server(leader).wait_end(START_LIMIT)?.is_none()
    {
        return Err(Failure::Check(format!("server {} runs on {START_LIMIT:?} after SIGTERM", leader + 1)));
    }
    ensemble.server(leader).start()?;
    ensemble.wait_ready(START_LIMIT)?;
    Ok(took)
}

/// Brings back a follower with an empty disk.
fn join(ensemble: &mut Ensemble, steady: &Steady, point: &mut Point<'_>) -> Result<(), Failure> {
    let leader = ensemble.wait_ready(START_LIMIT)?;
    let joiner = (leader + 1) % SERVERS;
    ensemble.server(joiner).kill()?;
    ensemble.server(joiner).reap()?;
    ensemble.server(joiner).wipe()?;
    // The sessions of that server are elsewhere again before the interval begins.
    steady.longest(Instant::now() - Duration::from_secs(1), Instant::now())?;
    let from = Instant::now();
    ensemble.server(joiner).start()?;
    let deadline = from + START_LIMIT;
    while !matches!(ensemble.server(joiner).probe().mode(), Some(Mode::Follower | Mode::Leader)) {
        if Instant::now() > deadline {
            return Err(Failure::Check(format!("an empty server has not joined after {START_LIMIT:?}")));
        }
        std::thread::sleep(POLL);
    }
    point.record(&JOIN, ms(from.elapsed()))?;
    point.record(&LONGEST_WRITE_JOIN, ms(steady.longest(from, Instant::now())?))
}

/// Starts the servers again with frequent snapshots, and writes until each has completed two: so at least one has
/// begun and ended under the writes. Apache's servers draw the moment of each.
fn snapshot(ensemble: &mut Ensemble, without: Duration, point: &mut Point<'_>) -> Result<(), Failure> {
    end_all(ensemble)?;
    ensemble.configure(|_, text| text + "snapCount=5000\n")?;
    (0..SERVERS).try_for_each(|index| ensemble.server(index).start())?;
    ensemble.wait_ready(START_LIMIT)?;
    let steady = Steady::start(&ensemble.addresses(), STEADY_RATE)?;
    let from = Instant::now();
    let newest = |server: &Server| Ok(zxids(server)?.into_iter().max().unwrap_or(0));
    let before: Vec<u64> = ensemble.servers().iter().map(newest).collect::<Result<_, Failure>>()?;
    let has_two_more = |(server, before): (&Server, &u64)| -> Result<bool, Failure> {
        Ok(zxids(server)?.iter().filter(|zxid| *zxid > before).count() >= 2)
    };
    let deadline = from + SNAPSHOT_LIMIT;
    while !ensemble
        .servers()
        .iter()
        .zip(&before)
        .map(has_two_more)
        .collect::<Result<Vec<_>, _>>()?
        .iter()
        .all(|two| *two)
    {
        if Instant::now() > deadline {
            return Err(Failure::Check(format!("no two snapshots of every server within {SNAPSHOT_LIMIT:?}")));
        }
        std::thread::sleep(POLL);
    }
    let longest = steady.longest(from, Instant::now())?;
    point.record(&LONGEST_WRITE_SNAPSHOT, ms(longest))?;
    point.record(&SNAPSHOT_ADDS, ms(longest) - ms(without))?;
    steady.stop()
}

pub(super) const CREATE_RATE: Figure = Figure::new("creates a second", "/s");
const MEMORY_FILLED: Figure = Figure::new("memory of a server after the creates", "MB");
pub(super) const DIRECTORY: Figure = Figure::new("data directory of a server", "MB");
const SNAPSHOT_SIZE: Figure = Figure::new("newest snapshot of a server", "MB");
pub(super) const START: Figure = Figure::new("start from disk to the first write", "ms");
pub(super) const MEMORY: Figure = Figure::new("memory of a server after that start", "MB");
pub(super) const MEMORY_PER_ZNODE: Figure = Figure::new("of it, for each znode", "B");
const LONGEST_WRITE: Figure = Figure::new("longest write of 500/s, undisturbed", "ms");
pub(super) const KILL: Figure = Figure::new("no write after kill -9 of the leader", "ms");
pub(super) const HAND_OVER: Figure = Figure::new("no write after SIGTERM of the leader", "ms");
pub(super) const JOIN: Figure = Figure::new("an empty server joins", "ms");
pub(super) const LONGEST_WRITE_JOIN: Figure = Figure::new("longest write of 500/s while it joins", "ms");
pub(super) const LONGEST_WRITE_SNAPSHOT: Figure = Figure::new("longest write of 500/s during snapshots", "ms");
/// Against the same load without.
pub(super) const SNAPSHOT_ADDS: Figure = Figure::new("of it, added by snapshots", "ms");

const PER_PARENT: u32 = 1000;
const ZNODE_BYTES: usize = 100;

/// Above this many znodes, a snapshot every 100,000 transactions would fill the disk during the creates: with 3.6
/// million, three servers were seen to write 35 GB. Automatic removal comes at most once an hour.
const FEWER_SNAPSHOTS_ABOVE: u32 = 1_000_000;

/// Starts on large trees take this long at most.
const START_LIMIT: Duration = Duration::from_secs(180);

/// 5,000 writes take ten seconds, and Apache's servers do not all begin at the same time.
const SNAPSHOT_LIMIT: Duration = Duration::from_secs(180);

/// The poll interval for files and roles.
const POLL: Duration = Duration::from_millis(5);

#[test]
fn the_newest_snapshot_has_the_highest_zxid() {
    let file = |name: &str| DataFile { name: name.into(), occupied: 0 };
    let files = [file("snapshot.9"), file("snapshot.10"), file("log.ff"), file("snapshot.ff.tmp")];
    assert_eq!(newest_snapshot(&files).map(|file| &*file.name), Some("snapshot.10"));
}
