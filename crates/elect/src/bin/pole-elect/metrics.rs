//! `--metrics HOST:PORT`: the counters of a candidate for Prometheus, at `/metrics`.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pole_elect::Candidate;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::failure::Failure;
use crate::log;

/// Listens, and answers in a task of its own.
pub(crate) async fn start(candidate: &Candidate, address: &str) -> Result<(), Failure> {
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| Failure::bad_input(format!("--metrics {address}: {error}")))?;
    if let Ok(address) = listener.local_addr() {
        log::info("metrics", &[("address", &address.to_string())]);
    }
    let candidate = candidate.clone();
    tokio::spawn(async move {
        // One connection at a time: a collector of metrics connects every few seconds.
        loop {
            if let Ok((stream, _)) = listener.accept().await {
                let _ = tokio::time::timeout(LIMIT, answer(stream, &candidate)).await;
            }
        }
    });
    Ok(())
}

async fn answer(mut stream: TcpStream, candidate: &Candidate) -> std::io::Result<()> {
    let mut request = [0; 1024];
    let length = stream.read(&mut request).await?;
    let found = request[..length].starts_with(b"GET /metrics ");
    let (status, body) = if found { ("200 OK", text(candidate)) } else { ("404 Not Found", String::new()) };
    let head = format!(
        "HTTP/1.0 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await
}

fn text(candidate: &Candidate) -> String {
    let (leader, counters) = (candidate.leader(), candidate.counters());
    let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let metrics = [
        ("leading", "gauge", "Whether this candidate leads.", u64::from(leader.leading)),
        ("token", "gauge", "The fencing token of the last known leader.", leader.token().number()),
        ("terms_total", "counter", "Terms that this candidate has led.", load(&counters.terms)),
        ("store_operations_total", "counter", "Operations sent to the store.", load(&counters.operations)),
        ("store_failures_total", "counter", "Operations that failed or timed out.", load(&counters.failures)),
        ("watch_events_total", "counter", "Changes reported by watches.", load(&counters.watched)),
    ];
    let mut text = String::new();
    for (name, kind, help, value) in metrics {
        let name = format!("pole_elect_{name}");
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
    }
    text
}

/// A client that takes longer is disconnected.
const LIMIT: Duration = Duration::from_secs(2);
