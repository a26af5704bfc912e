//! TCP proxies in user space between servers and clients, whose links can be cut, slowed and reset.
//!
//! Each end that dials another gets its own port that leads there. Every pair of [`Place`]s is therefore a link with
//! two directions, and each direction has a [`Condition`]. A cut direction holds bytes back, including the end of a
//! connection: both sides keep the connection open, as they do when packets are dropped. When the cut ends, the held
//! bytes arrive.
//!
//! Differences from a real network: a connection attempt over a cut link is accepted at once and then silent, instead
//! of unanswered. Loss shows as delay, because TCP retransmits.
//!
//! The proxies run on their own thread and end when the [`Network`] is dropped.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use crate::Failure;
use crate::ensemble::Ensemble;
use crate::rng::Rng;

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The server with this index.
    Server(usize),
    /// A location of clients.
    Site(usize),
}

/// The state of one direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Nothing arrives until the cut ends.
    pub cut: bool,
    /// The delay added to everything.
    pub delay: Duration,
    /// The percentage of chunks that are delayed as if retransmitted.
    pub loss_percent: usize,
    /// The number of resets so far. A change resets all connections of the link.
    resets: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(index) => write!(f, "{}", index + 1),
            Self::Site(index) => write!(f, "clients {}", index + 1),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { cut: true, .. } => write!(f, "cut"),
            Self { delay, loss_percent: 0, .. } => write!(f, "+{} ms", delay.as_millis()),
            Self { loss_percent, .. } => write!(f, "{loss_percent} % lost"),
        }
    }
}

impl Condition {
    /// A direction in which nothing arrives.
    pub const CUT: Self = Self { cut: true, delay: Duration::ZERO, loss_percent: 0, resets: 0 };

    /// A direction with an added delay.
    #[must_use]
    pub fn slow(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    /// How much later a chunk arrives at most, except for a cut.
    #[must_use]
    pub fn longest_delay(&self) -> Duration {
        self.delay + if self.loss_percent > 0 { RETRANSMISSION } else { Duration::ZERO }
    }

    /// A direction on which this percentage of chunks is retransmitted.
    #[must_use]
    pub fn lossy(loss_percent: usize) -> Self {
        Self { loss_percent, ..Self::default() }
    }
}

/// All links between the servers of an ensemble and its clients.
#[derive(Debug)]
pub struct Network {
    directions: Directions,
    runtime: Handle,
    /// Dropped to end the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

type Directions = Arc<Mutex<BTreeMap<(Place, Place), watch::Sender<Condition>>>>;

impl Network {
    /// Starts the proxy thread, without any links.
    pub fn start() -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|why| Failure::Check(format!("cannot start a runtime: {why}")))?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            // Ends when the sender is dropped.
            let _ = runtime.block_on(stopped);
        });
        Ok(Self { directions: Directions::default(), runtime: handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Routes every link between the servers of an ensemble through proxies, by rewriting their configuration. The
    /// servers must not have been started yet.
    pub fn between(ensemble: &Ensemble) -> Result<Self, Failure> {
        let network = Self::start()?;
        let servers = ensemble.servers();
        let local = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        // The `server.N` line for the second server in the configuration of the first, by their ids.
        let mut lines: BTreeMap<(usize, usize), String> = BTreeMap::new();
        for (from, one) in servers.iter().enumerate() {
            for (to, other) in servers.iter().enumerate().filter(|(to, _)| *to != from) {
                let open =
                    |port| network.open(Place::Server(from), Place::Server(to), local(port)).map(|entry| entry.port());
                let (quorum, election) = (open(other.ports().quorum)?, open(other.ports().election)?);
                lines.insert((one.id(), other.id()), format!("server.{}=127.0.0.1:{quorum}:{election}", other.id()));
            }
        }
        ensemble.configure(|server, text| {
            let line = |line: &str| {
                let number = line.strip_prefix("server.").and_then(|rest| rest.split('=').next()?.parse().ok());
                let other = number.and_then(|number| lines.get(&(server.id(), number)));
                other.map_or_else(|| line.to_owned(), Clone::clone) + "\n"
            };
            text.lines().map(line).collect()
        })?;
        Ok(network)
    }

    /// Opens a proxy from one place to an address at another, and returns the address on which the proxy listens.
    pub fn open(&self, from: Place, to: Place, address: SocketAddr) -> Result<SocketAddr, Failure> {
        let failed = |why: std::io::Error| Failure::Check(format!("cannot open a proxy to {address}: {why}"));
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let entry = listener.local_addr().map_err(failed)?;
        let (there, back) = (self.direction(from, to), self.direction(to, from));
        self.runtime.spawn(async move {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            for seed in 0.. {
                // The process may be out of descriptors for a moment.
                let Ok((near, _)) = listener.accept().await else { continue };
                tokio::spawn(proxy(near, address, there.clone(), back.clone(), seed));
            }
        });
        Ok(entry)
    }

    /// Changes the condition of one direction, from now on.
    pub fn set(&self, from: Place, to: Place, condition: Condition) {
        if let Some(direction) = self.lock().get(&(from, to)) {
            direction.send_modify(|now| *now = Condition { resets: now.resets, ..condition });
        }
    }

    /// Resets every connection between two places. New ones can be opened at once.
    pub fn reset(&self, one: Place, other: Place) {
        let directions = self.lock();
        for pair in [(one, other), (other, one)] {
            if let Some(direction) = directions.get(&pair) {
                direction.send_modify(|now| now.resets += 1);
            }
        }
    }

    fn direction(&self, from: Place, to: Place) -> watch::Receiver<Condition> {
        let mut directions = self.lock();
        directions.entry((from, to)).or_insert_with(|| watch::Sender::new(Condition::default())).subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Place, Place), watch::Sender<Condition>>> {
        self.directions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Serves one connection from its acceptance to its end.
async fn proxy(
    mut near: TcpStream,
    address: SocketAddr,
    mut there: watch::Receiver<Condition>,
    mut back: watch::Receiver<Condition>,
    seed: u64,
) {
    // Read before connecting: the far end may see the connection before we do, and a reset must count from then on.
    let resets = (there.borrow().resets, back.borrow().resets);
    // The TCP handshake needs both directions. If the client gives up before that, the far end never sees the connection.
    let mut early = BytesMut::new();
    let both_open =
        async { there.wait_for(|now| !now.cut).await.is_ok() && back.wait_for(|now| !now.cut).await.is_ok() };
    tokio::select! {
        biased;
        true = both_open => {}
        () = closed(&mut near, &mut early) => return,
        else => return,
    }
    let Ok(mut far) = TcpStream::connect(address).await else { return reset(&near) };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let broken = {
        let ((near_in, near_out), (far_in, far_out)) = (near.split(), far.split());
        let (there_too, back_too) = (there.clone(), back.clone());
        let both = async {
            tokio::join!(
                pump(near_in, far_out, early, there_too, seed),
                pump(far_in, near_out, BytesMut::new(), back_too, !seed)
            );
        };
        tokio::select! {
            () = both => false,
            _ = there.wait_for(|now| now.resets != resets.0) => true,
            _ = back.wait_for(|now| now.resets != resets.1) => true,
        }
    };
    if broken {
        reset(&near);
        reset(&far);
    }
}

/// Returns when the stream has ended. Bytes that arrive before are kept, up to a limit.
async fn closed(stream: &mut TcpStream, early: &mut BytesMut) {
    while early.len() < CHUNK_BYTES {
        if stream.read_buf(early).await.unwrap_or(0) == 0 {
            return;
        }
    }
    std::future::pending().await
}

/// Copies bytes in one direction until the connection ends, beginning with those already read. Each chunk is written
/// once it is due and the direction is open.
async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    early: BytesMut,
    condition: watch::Receiver<Condition>,
    seed: u64,
) {
    let (send, mut chunks) = mpsc::channel::<(Instant, Bytes)>(CHUNKS_MAX);
    let mut gate = condition.clone();
    let read = async move {
        let mut rng = Rng::new(seed);
        let mut due = Instant::now();
        if !early.is_empty() && send.send((due, early.freeze())).await.is_err() {
            return;
        }
        loop {
            let mut chunk = BytesMut::with_capacity(CHUNK_BYTES);
            // A read error ends the direction like a regular end of stream: an empty chunk marks it.
            let count = from.read_buf(&mut chunk).await.unwrap_or(0);
            let now = *condition.borrow();
            let lost = now.loss_percent > 0 && rng.below(100) < now.loss_percent;
            due = due.max(Instant::now() + now.delay + if lost { RETRANSMISSION } else { Duration::ZERO });
            if send.send((due, chunk.freeze())).await.is_err() || count == 0 {
                return;
            }
        }
    };
    let write = async move {
        while let Some((due, chunk)) = chunks.recv().await {
            if due > Instant::now() {
                sleep_until(due).await;
            }
            if gate.wait_for(|now| !now.cut).await.is_err() {
                return;
            }
            if chunk.is_empty() {
                let _ = to.shutdown().await;
                return;
            }
            // The other end has closed; the opposite direction notices that by itself.
            if to.write_all(&chunk).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(read, write);
}

/// Makes the kernel send a reset when the stream is closed.
fn reset(stream: &TcpStream) {
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// Times [`CHUNK_BYTES`], the limit on the bytes in flight in one direction of a connection. Beyond it, the sender
/// waits.
const CHUNKS_MAX: usize = 128;
const CHUNK_BYTES: usize = 16 << 10;

/// The minimum retransmission timeout of TCP on Linux.
const RETRANSMISSION: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    const A: Place = Place::Server(0);
    const B: Place = Place::Server(1);

    /// Opens a link from A to B and returns both ends of a connection over it.
    async fn link(network: &Network) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let entry = network.open(A, B, listener.local_addr().unwrap()).unwrap();
        let near = TcpStream::connect(entry).await.unwrap();
        (near, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn bytes_held_back_by_a_cut_arrive_afterwards() {
        let network = Network::start().unwrap();
        let (mut near, mut far) = link(&network).await;
        network.set(A, B, Condition::CUT);
        near.write_all(b"held").await.unwrap();
        let mut bytes = [0; 4];
        assert!(timeout(Duration::from_millis(100), far.read_exact(&mut bytes)).await.is_err());
        // The other direction is open.
        far.write_all(b"back").await.unwrap();
        near.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"back");
        network.set(A, B, Condition::default());
        far.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"held");
    }

    #[tokio::test]
    async fn a_cut_hides_the_end_of_a_connection() {
        let network = Network::start().unwrap();
        let (near, mut far) = link(&network).await;
        network.set(A, B, Condition::CUT);
        drop(near);
        let mut bytes = [0; 1];
        assert!(timeout(Duration::from_millis(100), far.read(&mut bytes)).await.is_err());
        network.set(A, B, Condition::default());
        assert_eq!(far.read(&mut bytes).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_connection_given_up_during_a_cut_never_arrives_and_one_that_waits_does() {
        let network = Network::start().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let entry = network.open(A, B, listener.local_addr().unwrap()).unwrap();
        network.set(B, A, Condition::CUT);
        for (bytes, waits) in [(b"no", false), (b"go", true)] {
            let mut near = TcpStream::connect(entry).await.unwrap();
            near.write_all(bytes).await.unwrap();
            if waits {
                network.set(B, A, Condition::default());
                let mut got = [0; 2];
                listener.accept().await.unwrap().0.read_exact(&mut got).await.unwrap();
                assert_eq!(&got, b"go");
            } else {
                near.shutdown().await.unwrap();
                // The proxy closes its side once it has noticed.
                assert_eq!(near.read(&mut [0; 1]).await.unwrap(), 0);
            }
        }
    }

    #[tokio::test]
    async fn bytes_over_a_slow_link_arrive_later() {
        let network = Network::start().unwrap();
        let (mut near, mut far) = link(&network).await;
        network.set(A, B, Condition::slow(Duration::from_millis(80)));
        let start = Instant::now();
        near.write_all(b"a").await.unwrap();
        far.read_exact(&mut [0; 1]).await.unwrap();
        assert!(start.elapsed() >= Duration::from_millis(80));
    }

    #[tokio::test]
    async fn a_reset_ends_both_sides() {
        let network = Network::start().unwrap();
        let (mut near, mut far) = link(&network).await;
        network.reset(B, A);
        assert!(near.read(&mut [0; 1]).await.is_err());
        assert!(far.read(&mut [0; 1]).await.is_err());
    }
}
