//! Many megabytes of identities on one connection, and then one write, which carries them to the leader.

use std::io;

use pole_client::{add_auth, request_frame};
use pole_jute::{ErrorCode, Xid};

use super::{Attack, EnsembleAttack, Findings, Target, no_preparation};
use crate::client;

pub(super) const ATTACK: Attack = Attack::on_ensemble(
    "auth-names",
    "addauth with 14 MB of names on one connection to a follower, then one write",
    EnsembleAttack::new(no_preparation, run),
)
.quick();

fn run(target: &Target) -> io::Result<Findings> {
    let follower = target.follower();
    let mut raw = target.session(follower)?;
    let mut sent = 0;
    for number in 0..NAMES {
        let auth = format!("{number:02}{}:password", "n".repeat(NAME_BYTES));
        // A server that has enough identities closes the connection.
        if raw.send(&request_frame(Xid::AUTH, &add_auth("digest", auth.as_bytes()))).is_err() {
            break;
        }
        sent += auth.len();
    }
    let write = client::create("/attacked", b"", pole_jute::CreateMode::Persistent);
    let answer = raw.ask(&write);
    let note = format!("{} MB of names; the write: {}", sent >> 20, describe(&answer));
    // A second client, without identities, at the same server.
    let second = target.session(follower).and_then(|mut raw| raw.ask(&client::exists("/")));
    let is_served = matches!(second, Ok(ErrorCode::Ok));
    Ok(Findings::note(note).require(is_served, || format!("a later client at the same server: {}", describe(&second))))
}

fn describe(answer: &io::Result<ErrorCode>) -> String {
    match answer {
        Ok(code) => code.to_string(),
        Err(why) => format!("connection closed ({})", why.kind()),
    }
}

const NAMES: usize = 14;
const NAME_BYTES: usize = 1_000_000;
