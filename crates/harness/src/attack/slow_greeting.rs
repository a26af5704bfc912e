//! Thousands of connections that send their connect request, or a TLS handshake, byte by byte.
//!
//! The whole greeting has one deadline. A server must close each connection by then, however often a byte arrives.

use std::io::{self, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use pole_client::{connect_frame, connect_request};

use super::raw::connect;
use super::target::loopback;
use super::{Attack, EnsembleAttack, Findings, Target, no_preparation};

pub(super) const ATTACK: Attack = Attack::on_ensemble(
    "slow-greeting",
    "5,000 connections that send a byte of their greeting now and then, a tenth of them in a TLS handshake",
    EnsembleAttack { new_sessions: false, ..EnsembleAttack::new(no_preparation, run) },
);

fn run(target: &Target) -> io::Result<Findings> {
    let mut slow = Vec::new();
    let mut refused = 0;
    for number in 0..CONNECTIONS {
        let ports = target.ports[number % target.ports.len()];
        let port = if number % 10 == 0 { ports.secure } else { ports.client };
        match connect(loopback(port)) {
            Ok(stream) => slow.push(SlowConnection { stream, secure: number % 10 == 0, sent: 0 }),
            Err(_) => refused += 1,
        }
    }
    let opened = slow.len();
    let start = Instant::now();
    let mut next = start;
    while !slow.is_empty() && start.elapsed() < LIMIT {
        slow.retain_mut(SlowConnection::send_byte);
        next += PAUSE;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let left = slow.len();
    let secure = slow.iter().filter(|slow| slow.secure).count();
    let note = format!("{opened} opened, {refused} refused, {left} left after {:.1} s", start.elapsed().as_secs_f64());
    Ok(Findings::note(note).require(left == 0, || {
        format!("{left} connections ({secure} with TLS) without a session are open after {LIMIT:?}")
    }))
}

struct SlowConnection {
    stream: TcpStream,
    secure: bool,
    sent: usize,
}

impl SlowConnection {
    /// Sends the next byte. Returns false if the server has closed the connection.
    fn send_byte(&mut self) -> bool {
        let greeting = connect_frame(&connect_request(Duration::from_secs(10)));
        // The last byte is never sent. With TLS, the bytes are the header of a record with a ClientHello, and zeros.
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

/// Whether the server has closed the connection. Any byte from it counts as closed too, because none is expected.
fn is_closed(stream: &TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return true;
    }
    let peeked = stream.peek(&mut [0]);
    let _ = stream.set_nonblocking(false);
    !matches!(peeked, Err(why) if why.kind() == io::ErrorKind::WouldBlock)
}

/// The header of a handshake record of 512 bytes. The version is TLS 1.0, as in every first record.
const CLIENT_HELLO: [u8; 5] = [22, 3, 1, 2, 0];

const CONNECTIONS: usize = 5000;

/// The pause between two bytes of a connection.
const PAUSE: Duration = Duration::from_millis(500);

/// All connections must be closed by then. Longer than any sensible deadline for a greeting, shorter than a greeting
/// takes at this pace.
const LIMIT: Duration = Duration::from_secs(20);
