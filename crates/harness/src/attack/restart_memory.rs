//! A restart on a long log: the log must not be held in memory, whatever its size.

use std::io;
use std::time::Duration;

use bytes::Bytes;

use super::raw::{Raw, done};
use super::target::SESSION_TIMEOUT;
use super::{Attack, Found, bulk};
use crate::ensemble::{Ensemble, Launcher, READY_LIMIT, Setup, peak_resident};
use crate::{Failure, client};

pub(super) const ATTACK: Attack = Attack::alone(
    "restart-memory",
    "a start on 400 MB of log over a tree of a few nodes, and a limit of 10 MB on the log between snapshots",
    run,
);

fn run(launcher: &Launcher) -> Result<Found, Failure> {
    let mut found = Found::default();
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
            .unless(peak_mb <= PEAK_MB_MAX, || format!("{line}: the start took {peak_mb} MB, allowed {PEAK_MB_MAX}"))
            .unless(name == "long" || snapshots >= SNAPSHOTS_MIN, || {
                format!("{line}: {snapshots} snapshots of {LOG_MB} MB of log, expected {SNAPSHOTS_MIN} at least")
            });
        if found.complaints.is_empty() {
            ensemble.done()?;
        }
    }
    Ok(Found { note: notes.join("; "), ..found })
}

/// Writes the same few nodes again and again.
fn write(server: std::net::SocketAddr) -> io::Result<()> {
    let mut raw = Raw::plain(server)?;
    raw.open_session(SESSION_TIMEOUT)?;
    raw.limit(Duration::from_secs(30))?;
    bulk::node(&mut raw, "/written", &Bytes::new())?;
    let data = vec![b'x'; WRITE_BYTES];
    let mut outstanding = 0;
    for _ in 0..LOG_MB << 20 >> WRITE_BITS {
        let bytes = raw.numbered(&client::set_data("/written", &data));
        raw.send(&bytes)?;
        outstanding += 1;
        if outstanding == OUTSTANDING_MAX {
            done(raw.answer()?)?;
            outstanding -= 1;
        }
    }
    (0..outstanding).try_for_each(|_| done(raw.answer()?))
}

const LOG_MB: usize = 400;
const WRITE_BITS: u32 = 16;
const WRITE_BYTES: usize = 1 << WRITE_BITS;
const OUTSTANDING_MAX: usize = 16;

/// The program, a tree of a few nodes, what is kept of the log for others, and the buffers of reading.
const PEAK_MB_MAX: u64 = 64;

/// A snapshot is due after between half of the limit and all of it, and one that is being written puts off the next.
const SNAPSHOTS_MIN: usize = 10;
