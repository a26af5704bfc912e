//! Greetings under another server's id, on the ports between servers.
//!
//! A living link must not be given up for one of them.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::raw::connect;
use super::target::loopback;
use super::{Attack, Found, Service, Target, nothing};

pub(super) const ATTACK: Attack = Attack::service(
    "peer-greetings",
    "400 forged greetings a second under another server's id, on election and quorum ports",
    Service::new(nothing, strike),
);

fn strike(target: &Target) -> io::Result<Found> {
    // The higher id dials: so a stranger can pass for server 2 or 3 at server 1, and for server 3 at server 2.
    let lies = [(3, 1), (2, 1), (3, 2)];
    let start = Instant::now();
    let mut held: VecDeque<TcpStream> = VecDeque::new();
    let (mut sent, mut greeted) = (0_u32, 0);
    while start.elapsed() < LENGTH {
        let (from, to) = lies[sent as usize % lies.len()];
        let ports = target.ports[to as usize - 1];
        let (channel, port) = if sent / 3 % 2 == 0 { (ELECTION, ports.election) } else { (QUORUM, ports.quorum) };
        if let Ok(stream) = greet(port, channel, from, to) {
            greeted += 1;
            // A link that was replaced must not come back at once because the stranger has left.
            held.push_back(stream);
            if held.len() > HELD_MAX {
                held.pop_front();
            }
        }
        sent += 1;
        std::thread::sleep((start + PAUSE * sent).saturating_duration_since(Instant::now()));
    }
    let rate = f64::from(sent) / start.elapsed().as_secs_f64();
    Ok(Found::note(format!("{sent} sent, {rate:.0} a second; {greeted} were answered with a greeting")))
}

/// Greets as `from`, and goes on as a server would when the answer comes.
fn greet(port: u16, channel: u8, from: u64, to: u64) -> io::Result<TcpStream> {
    let mut stream = connect(loopback(port))?;
    stream.set_read_timeout(Some(GREETING_LIMIT))?;
    stream.write_all(&greeting(channel, from, to))?;
    stream.read_exact(&mut [0; GREETING_BYTES])?;
    stream.write_all(&[GO_ON])?;
    Ok(stream)
}

/// Magic, version, channel, sender, receiver, and a digest of the ids of all voters.
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
const GO_ON: u8 = 0x06;

/// A server that does not answer a stranger within this time has refused it.
const GREETING_LIMIT: Duration = Duration::from_millis(20);

/// Connections that stay open for a while.
const HELD_MAX: usize = 200;

/// 400 a second.
const PAUSE: Duration = Duration::from_micros(2500);
const LENGTH: Duration = Duration::from_secs(6);
