//! The client port: takes connections in, plain or with TLS, and starts a task for each.
//!
//! Holds: no more connections from one address than `maxClientCnxns` allows, and no more in all than `maxCnxns`; a
//! failing accept (too many open files) pauses and goes on.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use pole_jute::Id;
use pole_tree::Caller;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::connection::{Connection, Outcome};
use super::handle::Handle;
use super::visit;
use crate::log;
use crate::shared::Shared;
use crate::threads::Loops;

/// A port that clients connect to.
pub(crate) struct Listener {
    shared: Arc<Shared>,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    /// Connections by address.
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Listener {
    /// Opens the port. Must be called on the runtime that will serve it.
    pub(crate) fn bind(
        shared: &Arc<Shared>,
        address: SocketAddr,
        backlog: i32,
        tls: Option<TlsAcceptor>,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(backlog)?;
        let listener = TcpListener::from_std(socket.into())?;
        Ok(Self { shared: Arc::clone(shared), listener, tls, counts: Arc::default() })
    }

    /// Where it listens: the port chosen by the system if 0 was asked for.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Takes connections in, for ever, and spreads them over the threads.
    pub(crate) async fn run(self, threads: Loops) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => self.accept(stream, address, &threads),
                Err(error) => {
                    log::warn("accept_failed", &[("error", &error.to_string())]);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn accept(&self, stream: TcpStream, address: SocketAddr, threads: &Loops) {
        let guest = match Guest::enter(&self.shared, &self.counts, address.ip()) {
            Ok(guest) => guest,
            Err(limit) => {
                self.shared.status.refused.fetch_add(1, Ordering::Relaxed);
                log::warn("too_many_connections", &[("from", &address.ip().to_string()), ("allowed", limit)]);
                return;
            }
        };
        let _ = stream.set_nodelay(true);
        let (shared, tls, to) = (Arc::clone(&self.shared), self.tls.clone(), threads.clone());
        // It leaves the loop that accepted it, and joins the one of its thread.
        let Ok(stream) = stream.into_std() else { return };
        threads.spawn(async move {
            let Ok(stream) = TcpStream::from_std(stream) else { return };
            match tls {
                None => visit::begin(shared, to, stream, address, guest).await,
                Some(tls) => serve_tls(&shared, stream, address, &tls, guest).await,
            }
        });
    }
}

async fn serve_tls(shared: &Arc<Shared>, stream: TcpStream, address: SocketAddr, tls: &TlsAcceptor, guest: Guest) {
    let stream = match tokio::time::timeout(HANDSHAKE_LIMIT, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            log::info("tls_refused", &[("from", &address.to_string()), ("error", &error.to_string())]);
            return;
        }
        Err(_) => return,
    };
    let mut caller = Caller { ids: vec![ip_id(address)] };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    if let Some(Ok(id)) = certificate.map(crate::tls::principal) {
        if shared.settings.x509_super_user.as_ref() == Some(&id) {
            caller.ids.push(Id { scheme: "super".into(), id: id.clone() });
        }
        caller.ids.push(Id { scheme: "x509".into(), id });
    }
    let (reader, writer) = tokio::io::split(stream);
    let handle = Handle::new(shared.next_client(), address, shared.clock.now(), None);
    let connection = Connection::new(Arc::clone(shared), handle.into(), reader, Some(writer), caller);
    if let Outcome::Ended(end) = connection.run().await {
        log::connection_ended(address, &end);
    }
    drop(guest);
}

pub(super) fn ip_id(address: SocketAddr) -> Id {
    Id { scheme: "ip".into(), id: address.ip().to_canonical().to_string() }
}

/// A connection that counts, and counts against its address, for as long as it lasts.
pub(super) struct Guest {
    shared: Arc<Shared>,
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
}

impl Guest {
    /// Fails with the key of the limit that is reached; 0 is no limit.
    fn enter(
        shared: &Arc<Shared>,
        counts: &Arc<Mutex<HashMap<IpAddr, usize>>>,
        address: IpAddr,
    ) -> Result<Self, &'static str> {
        let (settings, in_all) = (&shared.settings, &shared.status.connections);
        let mut table = counts.lock();
        let count = table.entry(address).or_default();
        if settings.connections_per_address_max > 0 && *count >= settings.connections_per_address_max {
            return Err("maxClientCnxns");
        }
        if settings.connections_max > 0 && in_all.load(Ordering::Relaxed) >= settings.connections_max {
            return Err("maxCnxns");
        }
        *count += 1;
        in_all.fetch_add(1, Ordering::Relaxed);
        Ok(Self { shared: Arc::clone(shared), counts: Arc::clone(counts), address })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.shared.status.connections.fetch_sub(1, Ordering::Relaxed);
        let mut table = self.counts.lock();
        if let Some(count) = table.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                table.remove(&self.address);
            }
        }
    }
}

/// Long enough for some connections to end when the system has no more to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A client that takes longer for its handshake is none.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
