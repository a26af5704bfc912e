//! Twenty ephemeral nodes with names of a megabyte each, and the end of their session.
//!
//! A transaction that lists the nodes of the closing session would have 20 MB, more than servers accept from each
//! other.

use std::io;

use bytes::Bytes;
use pole_jute::{CreateMode, Request};

use super::bulk::create;
use super::{Attack, EnsembleAttack, Findings, Target, no_preparation};

pub(super) const ATTACK: Attack = Attack::on_ensemble(
    "ephemeral-names",
    "20 ephemeral nodes with names as long as are accepted, up to 1 MB, then the session ends",
    EnsembleAttack::new(no_preparation, run),
)
.quick();

fn run(target: &Target) -> io::Result<Findings> {
    let follower = target.follower();
    let mut length = NAME_BYTES;
    loop {
        let mut raw = target.session(follower)?;
        let made = (0..NODES).try_for_each(|number| {
            let path = format!("/{number:02}{}", "n".repeat(length));
            raw.expect_ok(&Request::Create(create(path, &Bytes::new(), CreateMode::Ephemeral)))
        });
        // Refused, or the connection was closed: a shorter name may be accepted.
        if made.is_err() && length > NAME_BYTES_MIN {
            length /= 2;
            continue;
        }
        made?;
        let closed = raw.ask(&Request::CloseSession);
        let note = format!("{NODES} names of {length} bytes; the session's end: {closed:?}");
        return Ok(Findings::note(note).require(closed.is_ok(), || "the session cannot be closed".into()));
    }
}

const NODES: usize = 20;

/// The longest name that fits into a request.
const NAME_BYTES: usize = 1_000_000;

/// Names of this length must be accepted.
const NAME_BYTES_MIN: usize = 500;
