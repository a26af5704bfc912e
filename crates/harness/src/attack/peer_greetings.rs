//! Forged greetings with the id of another server, on the quorum and election ports.
//!
//! A server must not drop a working link because of one.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::raw::connect;
use super::target::loopback;
use super::{Attack, EnsembleAttack, Findings, Target, no_preparation};

pub(super) const ATTACK: Attack = Attack::on_ensemble(
    "peer-greetings",
    "400 forged greetings a second under another server's id, on election and quorum ports",
    EnsembleAttack::new(no_preparation, run),
);

fn run(target: &Target) -> io::Result<Findings> {
    // The server with the higher id dials, so a stranger can pose as server 2 or 3 at server 1, and as server 3 at
    // server 2.
    let forged = [(3, 1), (2, 1), (3, 2)];
    let start = Instant::now();
    let mut held: VecDeque<TcpStream> = VecDeque::new();
    let (mut sent, mut greeted) = (0_u32, 0);
    while start.elapsed() < LENGTH {
        let (from, to) = forged[sent as usize % forged.len()];
        let ports = target.ports[to as usize - 1];
        let (channel, port) = if sent / 3 % 2 == 0 { (ELECTION, ports.election) } else { (QUORUM, ports.quorum) };
        if let Ok(stream) = greet(port, channel, from, to) {
            greeted += 1;
            // The connection stays open, so that a link that was wrongly replaced is not restored at once.
            held.push_back(stream);
            if held.len() > HELD_MAX {
                held.pop_front();
            }
        }
        sent += 1;
        std::thread::sleep((start + PAUSE * sent).saturating_duration_since(Instant::now()));
    }
    let rate = f64::from(sent) / start.elapsed().as_secs_f64();
    Ok(Findings::note(format!("{sent} sent, {rate:.0} a second; {greeted} were answered with a greeting")))
}

/// Sends a greeting as `from` and, if it is answered, continues the handshake as a server would.
fn greet(port: u16, channel: u8, from: u64, to: u64) -> io::Result<TcpStream> {
    let mut stream = connect(loopback(port))?;
    stream.set_read_timeout(Some(GREETING_LIMIT))?;
    stream.write_all(&greeting(channel, from, to))?;
    stream.read_exact(&mut [0; GREETING_BYTES])?;
    stream.write_all(&[ACCEPTED])?;
    Ok(stream)
}

/// A greeting: magic, version, channel, sender, receiver, and a digest of the ids of all voters.
fn greeting(channel: u8, from: u64, to: u64) -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[..6].copy_from_slice(b"Pole\x00\x01");
    bytes[6] = channel;
    bytes[7..15].copy_from_slice(&from.to_be_bytes());
    bytes[15..23].copy_from_slice(&to.to_be_bytes());
    let voters = (1..=3_u64).flat_map(u64::to_be_bytes);
    // FNV-1a.
    let digest =
        voters.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    bytes[23..].copy_from_slice(&digest.to_be_bytes());
    bytes
}

const GREETING_BYTES: usize = 31;
const ELECTION: u8 = 1;
const QUORUM: u8 = 2;
const ACCEPTED: u8 = 0x06;

/// A greeting without an answer within this time counts as refused.
const GREETING_LIMIT: Duration = Duration::from_millis(20);

/// The number of connections that are kept open.
const HELD_MAX: usize = 200;

/// The pause between two greetings: 400 per second.
const PAUSE: Duration = Duration::from_micros(2500);
const LENGTH: Duration = Duration::from_secs(6);
