//! 10,000 sessions that become silent at the same moment, each with an ephemeral node.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pole_client::request_frame;
use pole_jute::{CreateMode, DeleteRequest, ErrorCode, Request, Xid};

use super::bulk::{create, create_node};
use super::raw::RawClient;
use super::{Attack, EnsembleAttack, Findings, Target};

pub(super) const ATTACK: Attack = Attack::on_ensemble(
    "expire-many",
    "10,000 sessions with an ephemeral node each that expire at once",
    EnsembleAttack::new(prepare, run),
);

fn prepare(target: &Target) -> io::Result<()> {
    create_node(&mut target.session(target.leader)?, PARENT, &Bytes::new())
}

fn run(target: &Target) -> io::Result<Findings> {
    let start = Instant::now();
    let mut all = open(target);
    let opened = start.elapsed();
    // All sessions send their last ping at the same time.
    all.iter_mut().for_each(|raw| drop(raw.send(&request_frame(Xid::PING, &Request::Ping))));
    let count = all.len();
    drop(all);
    let silent = Instant::now();
    let mut raw = target.session(target.leader)?;
    let gone = target.wait_until(SESSION + SLACK, |_| {
        let request = Request::Delete(DeleteRequest { path: PARENT.to_owned(), version: -1 });
        matches!(raw.ask(&request), Ok(ErrorCode::Ok | ErrorCode::NoNode))
    });
    let note = format!(
        "{count} sessions opened in {:.1} s, gone after {:.1} s of a timeout of {:.0} s",
        opened.as_secs_f64(),
        silent.elapsed().as_secs_f64(),
        SESSION.as_secs_f64()
    );
    Ok(Findings::note(note)
        .require(count >= SESSIONS / 2, || format!("only {count} sessions could be opened in {OPEN_LIMIT:?}"))
        .require(gone, || format!("sessions are still there {:?} after they fell silent", SESSION + SLACK)))
}

fn open(target: &Target) -> Vec<RawClient> {
    let start = Instant::now();
    let (claimed, all) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (claimed, all) = (&claimed, &all);
            scope.spawn(move || {
                while start.elapsed() < OPEN_LIMIT {
                    let number = claimed.fetch_add(1, Ordering::Relaxed);
                    if number >= SESSIONS {
                        return;
                    }
                    let begin = || -> io::Result<RawClient> {
                        let mut raw = RawClient::plain(target.address(worker % target.ports.len()))?;
                        raw.open_session(SESSION)?;
                        let path = format!("{PARENT}/{number}");
                        raw.ask(&Request::Create(create(path, &Bytes::new(), CreateMode::Ephemeral)))?;
                        Ok(raw)
                    };
                    if let Ok(raw) = begin() {
                        all.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(raw);
                    }
                }
            });
        }
    });
    all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

const PARENT: &str = "/sessions";
const SESSIONS: usize = 10_000;
const WORKERS: usize = 48;
const OPEN_LIMIT: Duration = Duration::from_secs(18);

/// The session timeout: longer than it takes to open all sessions.
const SESSION: Duration = Duration::from_secs(20);

/// Sessions expire in steps of a tick, and it takes a while to close them all.
const SLACK: Duration = Duration::from_secs(12);
