//! One request for ten gigabytes.

use std::io;
use std::time::Instant;

use pole_jute::{ErrorCode, GetDataRequest, MultiReadOp, MultiReadRequest, Request};

use super::unread_reads::{LARGE, prepare};
use super::{Attack, Found, Service, Target};
use crate::client;

pub(super) const ATTACK: Attack =
    Attack::service("multi-read", "one multiRead of 10,000 getData of a node of 1 MB", Service::new(prepare, strike))
        .quick();

fn strike(target: &Target) -> io::Result<Found> {
    let mut notes = Vec::new();
    let mut found = Found::default();
    for reads in READS {
        let mut raw = target.session(target.leader)?;
        let read = MultiReadOp::GetData(GetDataRequest { path: LARGE.to_owned(), watch: false });
        let start = Instant::now();
        let answer = raw.ask(&Request::MultiRead(MultiReadRequest { ops: vec![read; *reads] }));
        let said = match &answer {
            Ok(code) => code.to_string(),
            Err(why) => why.to_string(),
        };
        notes.push(format!("{reads} reads: {said} after {} ms", start.elapsed().as_millis()));
        // An error is as good as an answer, and so is a closed connection; silence is not.
        let silent =
            answer.as_ref().is_err_and(|why| matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut));
        found = found.unless(!silent, || format!("a multiRead of {reads} reads is not answered at all"));
        if matches!(answer, Ok(code) if code != ErrorCode::Ok) {
            let next = raw.ask(&client::exists("/"));
            found = found.unless(next.is_ok(), || format!("after the refusal the connection is of no use: {next:?}"));
        }
    }
    Ok(Found { note: notes.join("; "), ..found })
}

/// The second size is the one whose answer just exceeds what a length of 32 bits can say.
const READS: &[usize] = &[10_000, 2_200];
