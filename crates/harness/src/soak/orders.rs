//! Requests of an operator at random times: leadership transfers and changes of the oracle.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use tokio::time::Instant;

use crate::ensemble::Ensemble;
use crate::rng::Rng;

/// Sends requests to the admin ports of the servers.
#[derive(Debug)]
pub(super) struct Orders {
    admin: Vec<SocketAddr>,
    rng: Rng,
    next: Instant,
    transfers: usize,
    oracles: usize,
    /// The number of accepted requests. Others were sent to a server that was down, disconnected or unable to comply.
    accepted: usize,
}

impl Orders {
    pub(super) fn new(ensemble: &Ensemble, rng: Rng) -> Self {
        let admin = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let admin = ensemble.servers().iter().map(|server| admin(server.ports().secure)).collect();
        Self { admin, rng, next: Instant::now() + PAUSE_MAX, transfers: 0, oracles: 0, accepted: 0 }
    }

    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    /// Sends one request to a random server that is not down. `down` has the numbers of the servers that are. Returns
    /// a description of the request and its result.
    pub(super) async fn give(&mut self, down: &[usize]) -> String {
        self.next = Instant::now() + self.rng.between(PAUSE_MIN, PAUSE_MAX);
        let up: Vec<usize> = (0..self.admin.len()).filter(|index| !down.contains(&(index + 1))).collect();
        let Some(server) = up.get(self.rng.below(up.len().max(1))).copied() else { return "nobody to ask".into() };
        let (method, path, body) = if self.rng.one_in(2) {
            self.transfers += 1;
            let to = up[self.rng.below(up.len())] + 1;
            ("POST", "/v1/transfer", format!("{{\"to\":{to},\"timeout_ms\":3000}}"))
        } else {
            self.oracles += 1;
            let name = ORACLES[self.rng.below(ORACLES.len())];
            ("PUT", "/v1/oracle", format!("{{\"name\":\"{name}\"}}"))
        };
        let address = self.admin[server];
        let order = format!("server {} is asked: {method} {path} {body}", server + 1);
        // On another thread, because the reply may take seconds, and clients and faults must go on.
        let reply = tokio::task::spawn_blocking(move || ask(address, method, path, &body));
        let accepted = tokio::time::timeout(WAIT, reply).await.is_ok_and(|answer| answer.unwrap_or(false));
        self.accepted += usize::from(accepted);
        format!("{order}: {}", if accepted { "taken" } else { "not taken, or not yet" })
    }

    /// The counts, as text.
    pub(super) fn summary(&self) -> String {
        let Self { transfers, oracles, accepted, .. } = self;
        format!("transfers {transfers}, oracles {oracles}, taken at once {accepted}")
    }
}

/// Sends an HTTP request. Returns whether the status code is 2xx.
fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> bool {
    let exchange = || -> std::io::Result<String> {
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
    exchange().is_ok_and(|answer| answer.split(' ').nth(1).is_some_and(|code| code.starts_with('2')))
}

/// Oracles that need no parameters.
const ORACLES: &[&str] = &["history", "request", "latency", "worst-case", "consensus"];

const PAUSE_MIN: Duration = Duration::from_secs(4);
const PAUSE_MAX: Duration = Duration::from_secs(12);

/// The soak continues after this time, with or without a reply.
const WAIT: Duration = Duration::from_millis(200);

const ANSWER_LIMIT: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: u64 = 1 << 20;
