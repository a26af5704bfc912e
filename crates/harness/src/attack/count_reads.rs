//! 60,000 requests to count 100,000 nodes, in one megabyte.

use std::io;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use pole_jute::{ErrorCode, GetAllChildrenNumberRequest, Request};

use super::bulk::{create_node, persistent, run_multis};
use super::{Attack, EnsembleAttack, Findings, Target};

pub(super) const ATTACK: Attack = Attack::on_ensemble(
    "count-reads",
    "60,000 getAllChildrenNumber in 1 MB of requests to the leader, on a tree of 100,000 nodes",
    EnsembleAttack::new(prepare, run),
);

fn prepare(target: &Target) -> io::Result<()> {
    let mut raw = target.session(target.leader)?;
    create_node(&mut raw, "/t", &Bytes::new())?;
    run_multis(&mut raw, (0..NODES).map(|number| persistent(format!("/t/{number}"))))
}

fn run(target: &Target) -> io::Result<Findings> {
    let mut raw = target.session(target.leader)?;
    raw.set_timeout(Duration::from_millis(500))?;
    let request = Request::GetAllChildrenNumber(GetAllChildrenNumberRequest { path: "/".to_owned() });
    let mut bytes = BytesMut::new();
    for _ in 0..REQUESTS {
        bytes.extend_from_slice(&raw.encode_next(&request));
    }
    let mut writer = raw.stream().try_clone()?;
    // If the server stops reading, the writer blocks until the socket is closed.
    let sending = std::thread::spawn(move || io::Write::write_all(&mut writer, &bytes));
    let start = Instant::now();
    let (mut answered, mut refused) = (0, 0);
    while answered + refused < REQUESTS && start.elapsed() < LIMIT {
        match raw.answer() {
            Ok(ErrorCode::Ok) => answered += 1,
            Ok(_) => refused += 1,
            Err(why) if matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => (),
            Err(_) => break,
        }
    }
    let note = format!("{answered} answered, {refused} refused in {:.1} s", start.elapsed().as_secs_f64());
    let _ = raw.stream().shutdown(std::net::Shutdown::Both);
    drop(raw);
    let _ = sending.join();
    Ok(Findings::note(note))
}

const NODES: usize = 100_000;
const REQUESTS: usize = 60_000;

/// Requests that are not answered by then count as unanswered.
const LIMIT: Duration = Duration::from_secs(15);
