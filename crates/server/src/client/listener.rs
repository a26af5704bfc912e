//! The client port: accepts connections, plain or with TLS, and spawns a task for each.
//!
//! Connections are limited per address (`maxClientCnxns`), in total (`maxCnxns`), by the file descriptors left for
//! clients, and by the number without a session (`pole.client.greetingsMax`). After a failed accept the listener pauses
//! and goes on.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use pole_jute::Id;
use pole_node::CloseReason;
use pole_tree::Caller;
use rustls::ServerConfig;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{BufWriter, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::warn;

use super::connection::{Connection, End, Outcome};
use super::handle::Handle;
use super::migration;
use crate::limits::Limit;
use crate::log::{self, target::CLIENT};
use crate::metrics::Counter;
use crate::shared::Shared;
use crate::threads::Loops;
use crate::tls::Live;

/// A port that clients connect to.
pub(crate) struct Listener {
    shared: Arc<Shared>,
    listener: TcpListener,
    tls: Option<Live<Arc<ServerConfig>>>,
    /// Connections by address.
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Listener {
    /// Opens the port. Must be called on the runtime that will serve it.
    pub(crate) fn bind(
        shared: &Arc<Shared>,
        address: SocketAddr,
        backlog: i32,
        tls: Option<Live<Arc<ServerConfig>>>,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(backlog)?;
        let listener = TcpListener::from_std(socket.into())?;
        Ok(Self { shared: Arc::clone(shared), listener, tls, counts: Arc::default() })
    }

    /// The local address, with the port that the system chose if 0 was configured.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Accepts connections and distributes them over the threads. Never returns.
    pub(crate) async fn run(self, threads: Loops) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => self.accept(stream, address, &threads),
                Err(error) => {
                    warn!(target: CLIENT, %error, "accept_failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn accept(&self, stream: TcpStream, address: SocketAddr, threads: &Loops) {
        let permit = match ConnectionPermit::new(&self.shared, &self.counts, address.ip()) {
            Ok(permit) => permit,
            Err(limit) => {
                self.shared.status.refused.fetch_add(1, Ordering::Relaxed);
                self.shared.status.limits.add(limit, 1);
                log::connection_refused(address, limit);
                return;
            }
        };
        if self.tls.is_none() {
            let is_local = address.ip().to_canonical().is_loopback();
            let counter = if is_local { Counter::NonMtlsLocalConnCount } else { Counter::NonMtlsRemoteConnCount };
            self.shared.status.counters.add(counter, 1);
        }
        let _ = stream.set_nodelay(true);
        let tls = self.tls.as_ref().map(|tls| TlsAcceptor::from(tls.get()));
        let (shared, to) = (Arc::clone(&self.shared), threads.clone());
        // The socket is deregistered from this thread's event loop and registered with that of its own thread.
        let Ok(stream) = stream.into_std() else { return };
        threads.spawn(async move {
            let Ok(stream) = TcpStream::from_std(stream) else { return };
            match tls {
                None => migration::serve_new(shared, to, stream, address, permit).await,
                // Boxed, because a task has room for the larger of both, and TLS needs more.
                Some(tls) => Box::pin(serve_tls(&shared, stream, address, &tls, permit)).await,
            }
        });
    }
}

/// The write half with TLS, buffered so that the records of several frames go out with one system call.
pub(super) type TlsWriter = WriteHalf<TlsStream<BufWriter<TcpStream>>>;

async fn serve_tls(
    shared: &Arc<Shared>,
    stream: TcpStream,
    address: SocketAddr,
    tls: &TlsAcceptor,
    permit: ConnectionPermit,
) {
    let handle = Arc::new(Handle::new(shared, address, Caller { ids: vec![ip_id(address)] }, None));
    shared.greetings.add(&handle);
    shared.status.handshakes.fetch_add(1, Ordering::Relaxed);
    let handshake = handshake(shared, &handle, stream, tls).await;
    shared.status.handshakes.fetch_sub(1, Ordering::Relaxed);
    let stream = match handshake {
        Ok(stream) => stream,
        Err(end) => return log::tls_refused(shared, address, &end),
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    if let Some(certificate) = certificate.filter(|_| shared.settings.verify_client_host)
        && let Err(error) = crate::tls::check_address(certificate, address.ip())
    {
        return log::tls_refused(shared, address, &End::Socket(io::Error::other(error)));
    }
    if let Some(Ok(id)) = certificate.map(crate::tls::principal) {
        handle.add_identities(pole_tree::identities("x509", &id, &shared.settings.limits.authentication.providers));
    }
    let (reader, writer) = tokio::io::split(stream);
    let connection = Connection::new(Arc::clone(shared), handle, reader, Some(writer));
    if let Outcome::Ended(end) = connection.run().await {
        log::connection_ended(shared, address, &end);
    }
    drop(permit);
}

/// Performs the TLS handshake, within its own time limit and that of the whole greeting.
async fn handshake(
    shared: &Shared,
    handle: &Handle,
    stream: TcpStream,
    tls: &TlsAcceptor,
) -> Result<TlsStream<BufWriter<TcpStream>>, End> {
    let limit = shared.settings.handshake_max;
    let mut accept = pin!(tokio::time::timeout(limit, tls.accept(BufWriter::new(stream))));
    loop {
        let wants = handle.wants(&[], shared.clock.now());
        if let Some(reason) = wants.close {
            return Err(reason.into());
        }
        let deadline = wants.deadline.unwrap_or(handle.since);
        tokio::select! {
            accepted = &mut accept => return match accepted {
                Ok(stream) => Ok(stream?),
                Err(_) => Err(CloseReason::SlowGreeting.into()),
            },
            () = handle.wake.notified() => {}
            () = tokio::time::sleep_until(shared.clock.instant(deadline).into()) => {}
        }
    }
}

pub(super) fn ip_id(address: SocketAddr) -> Id {
    Id { scheme: "ip".into(), id: address.ip().to_canonical().to_string() }
}

/// Connections that have not sent their first request, oldest first.
///
/// Each uses a descriptor without having authenticated, so their number is limited: when there are too many, the oldest
/// is closed.
#[derive(Debug)]
pub(crate) struct Greetings {
    waiting: Mutex<VecDeque<Weak<Handle>>>,
    max: usize,
}

impl Greetings {
    pub(crate) fn new(max: usize) -> Self {
        Self { waiting: Mutex::default(), max: max.max(1) }
    }

    pub(super) fn add(&self, handle: &Arc<Handle>) {
        let mut waiting = self.waiting.lock();
        waiting.push_back(Arc::downgrade(handle));
        if waiting.len() <= self.max {
            return;
        }
        // Most have sent their first request by now, or have ended.
        waiting.retain(|handle| handle.upgrade().is_some_and(|handle| handle.is_greeting()));
        if waiting.len() > self.max
            && let Some(oldest) = waiting.pop_front().and_then(|handle| handle.upgrade())
        {
            oldest.close(CloseReason::GreetingLimit);
        }
    }
}

/// A permit for one connection. It counts against the limits until it is dropped.
pub(super) struct ConnectionPermit {
    shared: Arc<Shared>,
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
}

impl ConnectionPermit {
    /// Fails with the limit that is reached. A limit of 0 means none.
    fn new(shared: &Arc<Shared>, counts: &Arc<Mutex<HashMap<IpAddr, usize>>>, address: IpAddr) -> Result<Self, Limit> {
        let (settings, in_all) = (&shared.settings, &shared.status.connections);
        let mut table = counts.lock();
        let count = table.get(&address).copied().unwrap_or(0);
        if settings.connections_per_address_max > 0 && count >= settings.connections_per_address_max {
            return Err(Limit::ClientConnections);
        }
        let connections = in_all.load(Ordering::Relaxed);
        if settings.connections_max > 0 && connections >= settings.connections_max {
            return Err(Limit::Connections);
        }
        if connections >= shared.descriptors_for_clients {
            return Err(Limit::Descriptors);
        }
        table.insert(address, count + 1);
        in_all.fetch_add(1, Ordering::Relaxed);
        Ok(Self { shared: Arc::clone(shared), counts: Arc::clone(counts), address })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.shared.status.connections.fetch_sub(1, Ordering::Relaxed);
        self.shared.status.counters.add(Counter::ConnectionDropCount, 1);
        let mut table = self.counts.lock();
        if let Some(count) = table.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                table.remove(&self.address);
            }
        }
    }
}

/// Pause after a failed accept, long enough for some connections to end when descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_the_last_descriptors_to_the_server() {
        let mut shared = Shared::configured("");
        shared.descriptors_for_clients = 2;
        let (shared, counts) = (Arc::new(shared), Arc::default());
        let connect = |from: &str| ConnectionPermit::new(&shared, &counts, from.parse().expect("an address"));
        let (_first, second) = (connect("10.0.0.1"), connect("10.0.0.2"));
        assert_eq!(connect("10.0.0.3").err(), Some(Limit::Descriptors));
        drop(second);
        assert!(connect("10.0.0.3").is_ok());
    }

    #[test]
    fn of_too_many_connections_without_a_request_the_oldest_gives_way() {
        let shared = Shared::configured("");
        let greetings = Greetings::new(2);
        let handle = || Arc::new(Handle::new(&shared, ([10, 0, 0, 1], 9).into(), Caller::default(), None));
        let connections = [handle(), handle(), handle()];
        connections.iter().for_each(|handle| greetings.add(handle));
        let closed = connections.map(|handle| handle.wants(&[], handle.since).close);
        assert_eq!(closed, [Some(CloseReason::GreetingLimit), None, None]);
    }
}
