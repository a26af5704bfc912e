//! Random bytes on every port: with and without the first words that belong there.

use std::io::{self, Write};
use std::time::Duration;

use super::raw::{connect, introduction};
use super::target::{SESSION_TIMEOUT, loopback};
use super::{Attack, Found, Service, Target, nothing};
use crate::dice::Dice;

pub(super) const ATTACK: Attack = Attack::service(
    "random-bytes",
    "random bytes on the client, secure, quorum and election ports, after fitting first words too",
    Service::new(nothing, strike),
)
.quick();

fn strike(target: &Target) -> io::Result<Found> {
    let mut dice = Dice::new(SEED);
    let (mut connections, mut bytes_sent) = (0, 0);
    for round in 0..ROUNDS {
        for ports in &target.ports {
            for (kind, port) in [ports.client, ports.secure, ports.quorum, ports.election].into_iter().enumerate() {
                let Ok(mut stream) = connect(loopback(port)) else { continue };
                stream.set_write_timeout(Some(Duration::from_millis(200)))?;
                let mut bytes = opening(kind, round, &mut dice);
                let length = 1 << dice.below(LENGTH_BITS);
                bytes.extend((0..length).map(|_| dice.below(256) as u8));
                connections += 1;
                // A server that has had enough closes.
                if stream.write_all(&bytes).is_ok() {
                    bytes_sent += bytes.len();
                }
            }
        }
    }
    Ok(Found::note(format!("{connections} connections, {} KB", bytes_sent >> 10)))
}

/// What lets a server read on: nothing, a session, a length, the head of a TLS record, or the first bytes of a greeting.
fn opening(kind: usize, round: usize, dice: &mut Dice) -> Vec<u8> {
    match (kind, round % 3) {
        (0, 1) => introduction(SESSION_TIMEOUT).to_vec(),
        (0, 2) => {
            // A session, and a request whose length fits and whose content does not.
            let mut bytes = introduction(SESSION_TIMEOUT).to_vec();
            bytes.extend((64 + dice.below(4096) as u32).to_be_bytes());
            bytes.extend(1_u32.to_be_bytes());
            bytes.extend((dice.below(110) as u32).to_be_bytes());
            bytes
        }
        (1, 1 | 2) => vec![22, 3, 1, dice.below(64) as u8, 0],
        (2 | 3, 1) => b"Pole\x00\x01".to_vec(),
        (2 | 3, 2) => {
            let mut bytes = b"Pole\x00\x01".to_vec();
            bytes.push(if kind == 2 { 2 } else { 1 });
            bytes
        }
        _ => Vec::new(),
    }
}

const ROUNDS: usize = 60;

/// Up to 64 KB.
const LENGTH_BITS: usize = 17;

/// The same bytes in every run.
const SEED: u64 = 8;
