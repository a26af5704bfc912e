//! 200,000 sessions opened and closed. Nothing may be left of them.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pole_jute::Request;

use super::raw::Raw;
use super::target::SESSION_TIMEOUT;
use super::{Attack, Found, Service, Target, nothing};

pub(super) const ATTACK: Attack = Attack::service(
    "session-churn",
    "up to 200,000 sessions opened and closed through all servers; no server may keep bytes for each",
    Service {
        // Frequent snapshots, so that what grows is what is kept for each session.
        config: &["snapCount=20000", "preAllocSize=4096"],
        ..Service::new(nothing, strike)
    },
);

fn strike(target: &Target) -> io::Result<Found> {
    // What a server needs for this rate it has after the first part.
    let (warm, _) = churn(target, SESSIONS / 4, WARM_LIMIT);
    let before = target.resident();
    let (count, took) = churn(target, SESSIONS - SESSIONS / 4, LIMIT);
    let rate = count as f64 / took.as_secs_f64();
    // The least of some looks: buffers come and go.
    let mut after = target.resident();
    target.within(QUIET, |target| {
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
    Ok(Found::note(note)
        .unless(count >= SESSIONS_MIN, || format!("only {count} sessions in {took:?}: too few to see a leak"))
        .unless(worst <= KEPT_BYTES_MAX, || {
            format!("{worst:.0} bytes stay for each session ever opened, allowed are {KEPT_BYTES_MAX}")
        }))
}

/// Opens and closes this number of sessions, or as many as the time allows.
fn churn(target: &Target, sessions: usize, limit: Duration) -> (usize, Duration) {
    let start = Instant::now();
    let (claimed, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (claimed, done) = (&claimed, &done);
            scope.spawn(move || {
                let address = target.address(worker % target.ports.len());
                while start.elapsed() < limit && claimed.fetch_add(1, Ordering::Relaxed) < sessions {
                    let visit = || -> io::Result<()> {
                        let mut raw = Raw::plain(address)?;
                        raw.open_session(SESSION_TIMEOUT)?;
                        raw.ask(&Request::CloseSession).map(drop)
                    };
                    done.fetch_add(usize::from(visit().is_ok()), Ordering::Relaxed);
                }
            });
        }
    });
    (done.into_inner(), start.elapsed())
}

const SESSIONS: usize = 200_000;

/// Fewer say nothing about a few bytes for each.
const SESSIONS_MIN: usize = 20_000;

const WORKERS: usize = 48;
const WARM_LIMIT: Duration = Duration::from_secs(8);
const LIMIT: Duration = Duration::from_secs(24);
const QUIET: Duration = Duration::from_secs(2);

/// Less than a session id and a time. Memory comes in pages and arenas, so it cannot be 0.
const KEPT_BYTES_MAX: f64 = 20.0;
