//! One request for ten gigabytes.

use std::io;
use std::time::Instant;

use pole_jute::{ErrorCode, GetDataRequest, MultiReadOp, MultiReadRequest, Request};

use super::unread_reads::{LARGE, prepare};
use super::{Attack, EnsembleAttack, Findings, Target};
use crate::client;

pub(super) const ATTACK: Attack = Attack::on_ensemble(
    "multi-read",
    "one multiRead of 10,000 getData of a node of 1 MB",
    EnsembleAttack::new(prepare, run),
)
.quick();

fn run(target: &Target) -> io::Result<Findings> {
    let mut notes = Vec::new();
    let mut found = Findings::default();
    for reads in READS {
        let mut raw = target.session(target.leader)?;
        let read = MultiReadOp::GetData(GetDataRequest { path: LARGE.to_owned(), watch: false });
        let start = Instant::now();
        let answer = raw.ask(&Request::MultiRead(MultiReadRequest { ops: vec![read; *reads] }));
        let result = match &answer {
            Ok(code) => code.to_string(),
            Err(why) => why.to_string(),
        };
        notes.push(format!("{reads} reads: {result} after {} ms", start.elapsed().as_millis()));
        // An error and a closed connection are both acceptable; silence is not.
        let silent =
            answer.as_ref().is_err_and(|why| matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut));
        found = found.require(!silent, || format!("a multiRead of {reads} reads is not answered at all"));
        if matches!(answer, Ok(code) if code != ErrorCode::Ok) {
            let next = raw.ask(&client::exists("/"));
            found = found.require(next.is_ok(), || format!("after the refusal the connection is of no use: {next:?}"));
        }
    }
    Ok(Findings { note: notes.join("; "), ..found })
}

/// The reply to the second size is just above what a signed 32-bit length can express.
const READS: &[usize] = &[10_000, 2_200];
