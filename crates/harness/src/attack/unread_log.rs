//! A log that is never read: standard error is a pipe that is full from the start.
//!
//! A thread that wrote its log lines directly would block forever.

use std::io::{self, Write};

use super::raw::connect;
use super::{Attack, EnsembleAttack, Findings, Target, no_preparation};

pub(super) const ATTACK: Attack = Attack::on_ensemble(
    "unread-log",
    "600 connections that are worth a line in the log, which is a full pipe that nobody reads",
    EnsembleAttack { log_unread: true, config: &["maxClientCnxns=0"], ..EnsembleAttack::new(no_preparation, run) },
)
.quick();

fn run(target: &Target) -> io::Result<Findings> {
    let mut sent = 0;
    for number in 0..CONNECTIONS {
        let mut stream = connect(target.address(number % target.ports.len()))?;
        // A frame length that no server accepts: the connection is closed, and the reason is logged.
        sent += usize::from(stream.write_all(&u32::MAX.to_be_bytes()).is_ok());
    }
    Ok(Findings::note(format!("{sent} frames of an impossible length")))
}

const CONNECTIONS: usize = 600;
