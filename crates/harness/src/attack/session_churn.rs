//! 200,000 sessions opened and closed. Servers must not keep any memory for them.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pole_jute::Request;

use super::raw::RawClient;
use super::target::SESSION_TIMEOUT;
use super::{Attack, EnsembleAttack, Findings, Target, no_preparation};

pub(super) const ATTACK: Attack = Attack::on_ensemble(
    "session-churn",
    "up to 200,000 sessions opened and closed through all servers; no server may keep bytes for each",
    EnsembleAttack {
        // Frequent snapshots, so that the log in memory does not grow and hide what is kept for each session.
        config: &["snapCount=20000", "preAllocSize=4096"],
        ..EnsembleAttack::new(no_preparation, run)
    },
);

fn run(target: &Target) -> io::Result<Findings> {
    // A warm-up, in which servers allocate the buffers that they need at this rate.
    let (warm, _) = churn(target, SESSIONS / 4, WARM_LIMIT);
    let before = target.resident();
    let (count, took) = churn(target, SESSIONS - SESSIONS / 4, LIMIT);
    let rate = count as f64 / took.as_secs_f64();
    // The minimum of several samples, because buffers are allocated and freed all the time.
    let mut after = target.resident();
    target.wait_until(QUIET, |target| {
        after.iter_mut().zip(target.resident()).for_each(|(least, now)| *least = now.min(*least));
        false
    });
    let each: Vec<f64> = before
        .iter()
        .zip(&after)
        .map(|(before, after)| (*after as f64 - *before as f64) / count.max(1) as f64)
        .collect();
    let worst = each.iter().copied().fold(0.0, f64::max);
    let note = format!("{} sessions, {rate:.0} a second; kept for each: {worst:.0} bytes", warm + count);
    Ok(Findings::note(note)
        .require(count >= SESSIONS_MIN, || format!("only {count} sessions in {took:?}: too few to see a leak"))
        .require(worst <= KEPT_BYTES_MAX, || {
            format!("{worst:.0} bytes stay for each session ever opened, allowed are {KEPT_BYTES_MAX}")
        }))
}

/// Opens and closes this number of sessions, or as many as the time allows. Returns the number and the time taken.
fn churn(target: &Target, sessions: usize, limit: Duration) -> (usize, Duration) {
    let start = Instant::now();
    let (claimed, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (claimed, done) = (&claimed, &done);
            scope.spawn(move || {
                let address = target.address(worker % target.ports.len());
                while start.elapsed() < limit && claimed.fetch_add(1, Ordering::Relaxed) < sessions {
                    let open_and_close = || -> io::Result<()> {
                        let mut raw = RawClient::plain(address)?;
                        raw.open_session(SESSION_TIMEOUT)?;
                        raw.ask(&Request::CloseSession).map(drop)
                    };
                    done.fetch_add(usize::from(open_and_close().is_ok()), Ordering::Relaxed);
                }
            });
        }
    });
    (done.into_inner(), start.elapsed())
}

const SESSIONS: usize = 200_000;

/// With fewer sessions, a leak of a few bytes for each could not be measured.
const SESSIONS_MIN: usize = 20_000;

const WORKERS: usize = 48;
const WARM_LIMIT: Duration = Duration::from_secs(8);
const LIMIT: Duration = Duration::from_secs(24);
const QUIET: Duration = Duration::from_secs(2);

/// Less than a session id and a timestamp. It cannot be 0, because memory is allocated in pages and arenas.
const KEPT_BYTES_MAX: f64 = 20.0;
