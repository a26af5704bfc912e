//! Thousands of connections that send a byte of their greeting now and then, on the plain and on the secure port.
//!
//! Each must be closed by one deadline for the whole greeting, however often a byte comes.

use std::io::{self, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::raw::{connect, introduction};
use super::target::loopback;
use super::{Attack, Found, Service, Target, nothing};

pub(super) const ATTACK: Attack = Attack::service(
    "slow-greeting",
    "5,000 connections that send a byte of their greeting now and then, a tenth of them in a TLS handshake",
    Service { newcomers: false, ..Service::new(nothing, strike) },
);

fn strike(target: &Target) -> io::Result<Found> {
    let mut slow = Vec::new();
    let mut refused = 0;
    for number in 0..CONNECTIONS {
        let ports = target.ports[number % target.ports.len()];
        let port = if number % 10 == 0 { ports.secure } else { ports.client };
        match connect(loopback(port)) {
            Ok(stream) => slow.push(Slow { stream, secure: number % 10 == 0, sent: 0 }),
            Err(_) => refused += 1,
        }
    }
    let opened = slow.len();
    let start = Instant::now();
    let mut next = start;
    while !slow.is_empty() && start.elapsed() < LIMIT {
        slow.retain_mut(Slow::goes_on);
        next += PAUSE;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let left = slow.len();
    let secure = slow.iter().filter(|slow| slow.secure).count();
    let note = format!("{opened} opened, {refused} refused, {left} left after {:.1} s", start.elapsed().as_secs_f64());
    Ok(Found::note(note).unless(left == 0, || {
        format!("{left} connections ({secure} with TLS) without a session are open after {LIMIT:?}")
    }))
}

struct Slow {
    stream: TcpStream,
    secure: bool,
    sent: usize,
}

impl Slow {
    /// Sends one byte more. False when the server has closed.
    fn goes_on(&mut self) -> bool {
        let greeting = introduction(Duration::from_secs(10));
        // The last byte is never sent. Of TLS: the head of a record with a ClientHello, and zeros.
        let byte = match (self.secure, self.sent) {
            (true, 0..5) => CLIENT_HELLO[self.sent],
            (true, _) => 0,
            (false, sent) => greeting[sent.min(greeting.len() - 2)],
        };
        if !self.secure && self.sent + 1 >= greeting.len() {
            return !is_closed(&self.stream);
        }
        self.sent += 1;
        self.stream.write_all(&[byte]).is_ok() && !is_closed(&self.stream)
    }
}

/// Whether the other end has closed. Nothing that it sends is expected.
fn is_closed(stream: &TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return true;
    }
    let peeked = stream.peek(&mut [0]);
    let _ = stream.set_nonblocking(false);
    !matches!(peeked, Err(why) if why.kind() == io::ErrorKind::WouldBlock)
}

/// A record of the handshake, of TLS 1.0 as all begin, of 512 bytes.
const CLIENT_HELLO: [u8; 5] = [22, 3, 1, 2, 0];

const CONNECTIONS: usize = 5000;

/// Between two bytes of a connection.
const PAUSE: Duration = Duration::from_millis(500);

/// By then all must be closed. Longer than any deadline for a greeting should be, shorter than a greeting takes at this pace.
const LIMIT: Duration = Duration::from_secs(20);
