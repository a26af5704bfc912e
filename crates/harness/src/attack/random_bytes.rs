//! Random bytes on every port, with and without a valid beginning of the protocol.

use std::io::{self, Write};
use std::time::Duration;

use pole_client::{connect_frame, connect_request};

use super::raw::connect;
use super::target::{SESSION_TIMEOUT, loopback};
use super::{Attack, EnsembleAttack, Findings, Target, no_preparation};
use crate::rng::Rng;

pub(super) const ATTACK: Attack = Attack::on_ensemble(
    "random-bytes",
    "random bytes on the client, secure, quorum and election ports, after fitting first words too",
    EnsembleAttack::new(no_preparation, run),
)
.quick();

fn run(target: &Target) -> io::Result<Findings> {
    let mut rng = Rng::new(SEED);
    let (mut connections, mut bytes_sent) = (0, 0);
    for round in 0..ROUNDS {
        for ports in &target.ports {
            for (kind, port) in [ports.client, ports.secure, ports.quorum, ports.election].into_iter().enumerate() {
                let Ok(mut stream) = connect(loopback(port)) else { continue };
                stream.set_write_timeout(Some(Duration::from_millis(200)))?;
                let mut bytes = opening(kind, round, &mut rng);
                let length = 1 << rng.below(LENGTH_BITS);
                bytes.extend((0..length).map(|_| rng.below(256) as u8));
                connections += 1;
                // The server may close the connection at any time.
                if stream.write_all(&bytes).is_ok() {
                    bytes_sent += bytes.len();
                }
            }
        }
    }
    Ok(Findings::note(format!("{connections} connections, {} KB", bytes_sent >> 10)))
}

/// The bytes before the random ones: nothing, a connect request, a request header, the header of a TLS record, or the
/// first bytes of a greeting between servers.
fn opening(kind: usize, round: usize, rng: &mut Rng) -> Vec<u8> {
    match (kind, round % 3) {
        (0, 1) => connect_frame(&connect_request(SESSION_TIMEOUT)).to_vec(),
        (0, 2) => {
            // A connect request, and a request with a plausible length and random content.
            let mut bytes = connect_frame(&connect_request(SESSION_TIMEOUT)).to_vec();
            bytes.extend((64 + rng.below(4096) as u32).to_be_bytes());
            bytes.extend(1_u32.to_be_bytes());
            bytes.extend((rng.below(110) as u32).to_be_bytes());
            bytes
        }
        (1, 1 | 2) => vec![22, 3, 1, rng.below(64) as u8, 0],
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

/// Up to 64 KB of random bytes: the length is a power of two with an exponent below this.
const LENGTH_BITS: usize = 17;

/// Sends the same bytes in every run.
const SEED: u64 = 8;
