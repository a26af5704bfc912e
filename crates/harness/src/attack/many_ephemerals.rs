//! One session with 200,000 ephemeral nodes, and its end.

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pole_jute::{CreateMode, ErrorCode, MultiOp, Request};

use super::bulk::{create, create_node, run_multis};
use super::{Attack, EnsembleAttack, Findings, Target};

pub(super) const ATTACK: Attack = Attack::on_ensemble(
    "many-ephemerals",
    "one session with 200,000 ephemeral nodes with names of 100 bytes, then its end",
    EnsembleAttack { memory_mb_max: 512, ..EnsembleAttack::new(prepare, run) },
);

fn prepare(target: &Target) -> io::Result<()> {
    create_node(&mut target.session(target.leader)?, PARENT, &Bytes::new())
}

fn run(target: &Target) -> io::Result<Findings> {
    let mut raw = target.session(target.follower())?;
    let start = Instant::now();
    let name = "n".repeat(NAME_BYTES);
    let mut made = 0;
    // On a busy machine, fewer nodes are created within the time limit.
    while made < NODES && start.elapsed() < FILL_LIMIT {
        let ops = (made..made + BATCH).map(|number| {
            MultiOp::Create(create(format!("{PARENT}/{name}{number}"), &Bytes::new(), CreateMode::Ephemeral))
        });
        run_multis(&mut raw, ops)?;
        made += BATCH;
    }
    let filled = start.elapsed();
    let closed = raw.ask(&Request::CloseSession);
    let took = start.elapsed().saturating_sub(filled);
    let note = format!("{made} nodes in {:.1} s, the session's end took {} ms", filled.as_secs_f64(), took.as_millis());
    // The followers may apply the transaction after the reply.
    let empty = target
        .wait_until(END_LIMIT, |target| (0..target.ports.len()).all(|server| is_gone(target, server).unwrap_or(false)));
    let found = Findings::note(note).require(closed.is_ok(), || format!("the session cannot be closed: {closed:?}"));
    Ok(found.require(empty, || format!("{PARENT} is not empty on all servers {END_LIMIT:?} after the session's end")))
}

/// Whether the parent has no children at this server, or was deleted already. Tested by deleting it.
fn is_gone(target: &Target, server: usize) -> io::Result<bool> {
    let mut raw = target.session(server)?;
    let request = Request::Delete(pole_jute::DeleteRequest { path: PARENT.to_owned(), version: -1 });
    let code = raw.ask(&request)?;
    let _ = raw.ask(&Request::CloseSession);
    Ok(matches!(code, ErrorCode::Ok | ErrorCode::NoNode))
}

const PARENT: &str = "/ephemerals";
const NODES: usize = 200_000;
const NAME_BYTES: usize = 90;

/// The nodes of four multis.
const BATCH: usize = 4000;

const FILL_LIMIT: Duration = Duration::from_secs(25);
const END_LIMIT: Duration = Duration::from_secs(10);
