//! What an operator may ask for at any time: another leader, another oracle.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use tokio::time::Instant;

use crate::dice::Dice;
use crate::ensemble::Ensemble;

/// Asks the admin ports of the servers.
#[derive(Debug)]
pub(super) struct Orders {
    admin: Vec<SocketAddr>,
    dice: Dice,
    next: Instant,
    transfers: usize,
    oracles: usize,
    /// How many were taken. The others met a server that was down, apart or not able to.
    taken: usize,
}

impl Orders {
    pub(super) fn new(ensemble: &Ensemble, dice: Dice) -> Self {
        let admin = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let admin = ensemble.servers().iter().map(|server| admin(server.ports().secure)).collect();
        Self { admin, dice, next: Instant::now() + PAUSE_MAX, transfers: 0, oracles: 0, taken: 0 }
    }

    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    /// Asks one server that is not down for one thing. `down` has the numbers of those that are. Returns what was asked
    /// for, in words.
    pub(super) async fn give(&mut self, down: &[usize]) -> String {
        self.next = Instant::now() + self.dice.between(PAUSE_MIN, PAUSE_MAX);
        let up: Vec<usize> = (0..self.admin.len()).filter(|index| !down.contains(&(index + 1))).collect();
        let Some(server) = up.get(self.dice.below(up.len().max(1))).copied() else { return "nobody to ask".into() };
        let (method, path, body) = if self.dice.one_in(2) {
            self.transfers += 1;
            let to = up[self.dice.below(up.len())] + 1;
            ("POST", "/v1/transfer", format!("{{\"to\":{to},\"timeout_ms\":3000}}"))
        } else {
            self.oracles += 1;
            let name = ORACLES[self.dice.below(ORACLES.len())];
            ("PUT", "/v1/oracle", format!("{{\"name\":\"{name}\"}}"))
        };
        let address = self.admin[server];
        let order = format!("server {} is asked: {method} {path} {body}", server + 1);
        // On another thread: the answer may take seconds, in which clients and faults must go on.
        let asked = tokio::task::spawn_blocking(move || ask(address, method, path, &body));
        let taken = tokio::time::timeout(WAIT, asked).await.is_ok_and(|answer| answer.unwrap_or(false));
        self.taken += usize::from(taken);
        format!("{order}: {}", if taken { "taken" } else { "not taken, or not yet" })
    }

    /// How much was asked for, in words.
    pub(super) fn told(&self) -> String {
        let Self { transfers, oracles, taken, .. } = self;
        format!("transfers {transfers}, oracles {oracles}, taken at once {taken}")
    }
}

/// Whether the answer says that it was done.
fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> bool {
    let talk = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_LIMIT)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n"
        );
        stream.write_all((head + body).as_bytes())?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    talk().is_ok_and(|answer| answer.split(' ').nth(1).is_some_and(|code| code.starts_with('2')))
}

/// Oracles that need no parameters.
const ORACLES: &[&str] = &["history", "request", "latency", "worst-case", "consensus"];

const PAUSE_MIN: Duration = Duration::from_secs(4);
const PAUSE_MAX: Duration = Duration::from_secs(12);

/// The faults go on after this, whatever the answer.
const WAIT: Duration = Duration::from_millis(200);

const ANSWER_LIMIT: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: u64 = 1 << 20;
