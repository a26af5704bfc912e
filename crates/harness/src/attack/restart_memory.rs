//! A restart on a long log. The server must not hold the log in memory, whatever its size.

use std::io;
use std::time::Duration;

use bytes::Bytes;

use super::raw::{RawClient, check_ok};
use super::target::SESSION_TIMEOUT;
use super::{Attack, Findings, bulk};
use crate::ensemble::{Ensemble, Launcher, READY_LIMIT, Setup, peak_resident};
use crate::{Failure, client};

pub(super) const ATTACK: Attack = Attack::self_contained(
    "restart-memory",
    "a start on 400 MB of log over a tree of a few nodes, and a limit of 10 MB on the log between snapshots",
    run,
);

fn run(launcher: &Launcher) -> Result<Findings, Failure> {
    let mut found = Findings::default();
    let mut notes = Vec::new();
    for (name, line) in [("long", "snapSizeLimitInKb=-1"), ("short", "snapSizeLimitInKb=10240")] {
        let setup = Setup::new(&format!("attack-restart-memory-{name}"), 1).with(line).with("pole.diffRetainMb=4");
        let mut ensemble = Ensemble::ready(launcher, &setup)?;
        let server = ensemble.servers()[0].address();
        write(server).map_err(|why| Failure::Check(format!("cannot write: {why}")))?;
        let data = ensemble.servers()[0].data_dir();
        let snapshots = super::disk::files(&data, "snapshot.")?.len();
        ensemble.server(0).kill()?;
        ensemble.server(0).start()?;
        ensemble.wait_ready(READY_LIMIT)?;
        let pid = ensemble.servers()[0].pid().unwrap_or_default();
        let peak_mb = peak_resident(pid).unwrap_or(u64::MAX) >> 20;
        notes.push(format!("{line}: {snapshots} snapshots, {peak_mb} MB at the start"));
        found = found
            .require(peak_mb <= PEAK_MB_MAX, || format!("{line}: the start took {peak_mb} MB, allowed {PEAK_MB_MAX}"))
            .require(name == "long" || snapshots >= SNAPSHOTS_MIN, || {
                format!("{line}: {snapshots} snapshots of {LOG_MB} MB of log, expected {SNAPSHOTS_MIN} at least")
            });
        if found.problems.is_empty() {
            ensemble.done()?;
        }
    }
    Ok(Findings { note: notes.join("; "), ..found })
}

/// Writes one node repeatedly, until the log has [`LOG_MB`].
fn write(server: std::net::SocketAddr) -> io::Result<()> {
    let mut raw = RawClient::plain(server)?;
    raw.open_session(SESSION_TIMEOUT)?;
    raw.set_timeout(Duration::from_secs(30))?;
    bulk::create_node(&mut raw, "/written", &Bytes::new())?;
    let data = vec![b'x'; WRITE_BYTES];
    let mut outstanding = 0;
    for _ in 0..LOG_MB << 20 >> WRITE_BITS {
        let bytes = raw.encode_next(&client::set_data("/written", &data));
        raw.send(&bytes)?;
        outstanding += 1;
        if outstanding == OUTSTANDING_MAX {
            check_ok(raw.answer()?)?;
            outstanding -= 1;
        }
    }
    (0..outstanding).try_for_each(|_| check_ok(raw.answer()?))
}

const LOG_MB: usize = 400;
const WRITE_BITS: u32 = 16;
const WRITE_BYTES: usize = 1 << WRITE_BITS;
const OUTSTANDING_MAX: usize = 16;

/// Enough for the program, a tree of a few nodes, the part of the log that is kept for followers, and read buffers.
const PEAK_MB_MAX: u64 = 64;

/// A snapshot is due after half to all of the limit, and one that is being written delays the next.
const SNAPSHOTS_MIN: usize = 10;
