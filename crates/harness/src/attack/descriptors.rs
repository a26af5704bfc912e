//! More silent connections than a server may have open files.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use super::raw::connect;
use super::{Attack, EnsembleAttack, Findings, Target, no_preparation};

pub(super) const ATTACK: Attack = Attack::on_ensemble(
    "descriptors",
    "1,300 silent connections to each of three servers that may have 1,024 open files",
    EnsembleAttack {
        files_max: Some(1024),
        new_sessions: false,
        // Frequent snapshots, so that files are opened and closed during the attack.
        config: &["snapCount=200"],
        ..EnsembleAttack::new(no_preparation, run)
    },
);

fn run(target: &Target) -> io::Result<Findings> {
    let mut silent: Vec<TcpStream> = Vec::new();
    let mut refused = 0;
    for number in 0..CONNECTIONS * target.ports.len() {
        match connect(target.address(number % target.ports.len())) {
            Ok(stream) => silent.push(stream),
            Err(_) => refused += 1,
        }
    }
    std::thread::sleep(HOLD);
    Ok(Findings::note(format!("{} connected, {refused} refused, held for {HOLD:?}", silent.len())))
}

const CONNECTIONS: usize = 1300;

/// Long enough for a few snapshots and new log files.
const HOLD: Duration = Duration::from_secs(4);
