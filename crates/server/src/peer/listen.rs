//! Listens for connections of other servers. A connection is not trusted until its handshake has succeeded.
//!
//! A connection without a handshake costs a task and a socket for [`HANDSHAKE_LIMIT`] at most, and there are at most
//! [`PENDING_MAX`] of them. It does not affect links: a connection replaces another only after its handshake. Where
//! anyone can pass that, because there is neither TLS nor a secret, it does so only if the other end of the old
//! connection does not answer any more. Refused connections are reported in notes.

use std::cell::Cell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pole_node::Channel;
use pole_types::ServerId;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::{sleep, timeout};
use tokio_rustls::{TlsAcceptor, TlsStream};

use super::config::PeerError;
use super::dial::HANDSHAKE_LIMIT;
use super::handshake::{self, Refusal, Standing};
use super::hub::Hub;
use super::rate_limit::RateLimit;
use super::secret;
use super::stream::{self, Stream};
use crate::tls::Live;

pub(super) fn bind(address: SocketAddr, channel: &'static str) -> Result<TcpListener, PeerError> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Connections of a server that was just stopped may still linger in TIME_WAIT.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|source| PeerError::Listen { channel, address, source })
}

pub(super) async fn keep_listening(hub: Rc<Hub>, listener: TcpListener, channel: Channel) {
    let mut pending = PendingHandshakes::default();
    let refusals = Rc::new(RefusalLog::default());
    let mut rate_limit = RateLimit::new(Instant::now());
    loop {
        match listener.accept().await {
            Ok((_, from)) if !rate_limit.admit(from.ip(), Instant::now()) => {
                hub.counters.limited.fetch_add(1, Ordering::Relaxed);
                refusals.report(&hub, from, &Refusal::TooMany);
            }
            Ok((socket, from)) => {
                let task = spawn_local(admit(Rc::clone(&hub), Rc::clone(&refusals), socket, from, channel));
                if pending.add(task.abort_handle()) {
                    hub.inbox
                        .note(format!("more than {PENDING_MAX} connections without a greeting: dropped the oldest"));
                }
            }
            Err(error) => {
                // Most likely out of descriptors: the tasks that hold them must get a chance to run.
                hub.inbox.note(format!("cannot accept connections of peers: {error}"));
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Connections whose handshake is in progress. If there are too many, the oldest is dropped and not the newest: a real
/// peer greets at once, so the oldest is the least likely to be one.
#[derive(Default)]
struct PendingHandshakes(VecDeque<AbortHandle>);

impl PendingHandshakes {
    /// Adds a connection, and returns whether another one had to be dropped.
    fn add(&mut self, task: AbortHandle) -> bool {
        self.0.retain(|other| !other.is_finished());
        self.0.push_back(task);
        let oldest = if self.0.len() > PENDING_MAX { self.0.pop_front() } else { None };
        oldest.inspect(AbortHandle::abort).is_some()
    }
}

impl Drop for PendingHandshakes {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

async fn admit(hub: Rc<Hub>, refusals: Rc<RefusalLog>, socket: TcpStream, from: SocketAddr, channel: Channel) {
    let timed_out = |_| Refusal::Silent { limit_ms: HANDSHAKE_LIMIT.as_millis() };
    let greeted = timeout(HANDSHAKE_LIMIT, greet(&hub, socket, channel)).await;
    match greeted.map_err(timed_out).and_then(|result| result) {
        Ok((peer, stream)) => {
            let link = hub.link_or_new(peer, channel);
            if !hub.authenticates_peers() && link.is_alive(&hub).await {
                hub.counters.kept.fetch_add(1, Ordering::Relaxed);
                return refusals.report(&hub, from, &Refusal::Alive { from: peer });
            }
            link.install(&hub, stream);
        }
        Err(refusal) => refusals.report(&hub, from, &refusal),
    }
}

/// Reports refused connections, but limits the rate so that they cannot flood the log.
#[derive(Default)]
struct RefusalLog {
    /// The start of the current period, and the refusals since then.
    period: Cell<Option<(Instant, u32)>>,
}

impl RefusalLog {
    fn report(&self, hub: &Hub, from: SocketAddr, refusal: &Refusal) {
        hub.counters.refused.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let period = self.period.get().filter(|(since, _)| now < *since + REFUSALS_PERIOD);
        let omitted = self.period.get().map_or(0, |(_, count)| count.saturating_sub(REFUSALS_LOGGED_MAX));
        if period.is_none() && omitted > 0 {
            hub.inbox.note(format!("refused {omitted} more connections, which are not logged one by one"));
        }
        let (since, count) = period.unwrap_or((now, 0));
        self.period.set(Some((since, count.saturating_add(1))));
        if count >= REFUSALS_LOGGED_MAX {
            return;
        }
        let broke_off = |error| format!("broke off ({error})");
        let what = if let Refusal::Io(error) = refusal { broke_off(error) } else { refusal.to_string() };
        hub.inbox.note(format!("refused a connection from {from}: it {what}"));
    }
}

async fn greet(hub: &Hub, socket: TcpStream, channel: Channel) -> Result<(ServerId, Stream), Refusal> {
    stream::prepare(&socket)?;
    let nonce = secret::nonce()?;
    let ours = |to| hub.greeting(channel, to, nonce);
    let secret = hub.secret.as_ref();
    let standing = |id| match (hub.is_member(id), hub.admits(id)) {
        (true, _) => Standing::Member,
        (false, true) => Standing::Joining,
        (false, false) => Standing::Stranger,
    };
    let Some(tls) = hub.tls.as_ref().map(Live::get) else {
        let mut socket = socket;
        let peer = handshake::accept(&mut socket, channel, ours, standing, secret).await?;
        return Ok((peer, Stream::Plain(socket)));
    };
    let stream = TlsAcceptor::from(tls.acceptor.clone()).accept(socket).await?;
    let mut stream = Box::new(TlsStream::from(stream));
    let peer = handshake::accept(&mut stream, channel, ours, standing, secret).await?;
    // The host of a server that joins is not known yet. Its certificate was checked.
    if let Some(address) = hub.address(peer) {
        tls.check_host(stream.get_ref().1.peer_certificates(), &address.host)?;
    }
    Ok((peer, Stream::Tls(stream)))
}

/// Connections without a handshake, per port. Far more than an ensemble has peers, at negligible cost.
const PENDING_MAX: usize = 64;

/// Pending connections in the kernel: a flood of connections must not crowd out a peer.
const BACKLOG: u32 = 1024;

/// Refusals reported per [`REFUSALS_PERIOD`]; further ones are only counted.
const REFUSALS_LOGGED_MAX: u32 = 10;

const REFUSALS_PERIOD: Duration = Duration::from_secs(10);

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
