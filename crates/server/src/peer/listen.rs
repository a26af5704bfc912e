//! Listening: who comes to a port is a stranger until the handshake has passed.
//!
//! In: connections from anywhere. Out: connections of peers, for their links; notes about all others.
//! Holds: a stranger costs a task and a socket for [`HANDSHAKE_LIMIT`] at most, there are at most [`STRANGERS_MAX`] of
//! them, and none touches a link: a connection replaces another only after its handshake, and where nothing keeps strangers
//! from passing that (neither TLS nor a secret), only if the other end of the old one does not answer any more.

use std::cell::Cell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pole_election::ServerId;
use pole_node::Channel;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::{sleep, timeout};
use tokio_rustls::{TlsAcceptor, TlsStream};

use super::config::PeerError;
use super::dial::HANDSHAKE_LIMIT;
use super::greetings::Greetings;
use super::handshake::{self, Refusal};
use super::hub::Hub;
use super::secret;
use super::stream::{self, Stream};

pub(super) fn bind(address: SocketAddr, channel: &'static str) -> Result<TcpListener, PeerError> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A server that was just stopped leaves connections that linger; its port is free all the same.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|source| PeerError::Listen { channel, address, source })
}

pub(super) async fn keep_listening(hub: Rc<Hub>, listener: TcpListener, channel: Channel) {
    let mut strangers = Strangers::default();
    let refused = Rc::new(Refused::default());
    let mut greetings = Greetings::new(Instant::now());
    loop {
        match listener.accept().await {
            Ok((_, from)) if !greetings.admit(from.ip(), Instant::now()) => {
                hub.counters.limited.fetch_add(1, Ordering::Relaxed);
                refused.tell(&hub, from, &Refusal::TooMany);
            }
            Ok((socket, from)) => {
                let task = spawn_local(let_in(Rc::clone(&hub), Rc::clone(&refused), socket, from, channel));
                if strangers.add(task.abort_handle()) {
                    hub.inbox
                        .note(format!("more than {STRANGERS_MAX} connections without a greeting: dropped the oldest"));
                }
            }
            Err(error) => {
                // Out of descriptors, most likely: those who hold them must get a turn.
                hub.inbox.note(format!("cannot accept connections of peers: {error}"));
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Those whose handshake is under way. If there are too many the oldest goes, and not the newest: a real peer greets at
/// once, so whoever has waited longest is the least likely to be one.
#[derive(Default)]
struct Strangers(VecDeque<AbortHandle>);

impl Strangers {
    /// Whether another had to go.
    fn add(&mut self, stranger: AbortHandle) -> bool {
        self.0.retain(|other| !other.is_finished());
        self.0.push_back(stranger);
        let oldest = if self.0.len() > STRANGERS_MAX { self.0.pop_front() } else { None };
        oldest.inspect(AbortHandle::abort).is_some()
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

async fn let_in(hub: Rc<Hub>, refused: Rc<Refused>, socket: TcpStream, from: SocketAddr, channel: Channel) {
    let silent = |_| Refusal::Silent { limit_ms: HANDSHAKE_LIMIT.as_millis() };
    let greeted = timeout(HANDSHAKE_LIMIT, greet(&hub, socket, channel)).await;
    match greeted.map_err(silent).and_then(|result| result) {
        Ok((peer, stream)) => {
            let link = &hub.links[&(peer, channel)];
            if !hub.keeps_strangers_out() && link.is_alive(&hub).await {
                hub.counters.kept.fetch_add(1, Ordering::Relaxed);
                return refused.tell(&hub, from, &Refusal::Alive { from: peer });
            }
            link.install(&hub, stream);
        }
        Err(refusal) => refused.tell(&hub, from, &refusal),
    }
}

/// Who was refused is told, but a flood of strangers must not flood the log.
#[derive(Default)]
struct Refused {
    /// Since when, and how many since.
    lately: Cell<Option<(Instant, u32)>>,
}

impl Refused {
    fn tell(&self, hub: &Hub, from: SocketAddr, refusal: &Refusal) {
        hub.counters.refused.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let lately = self.lately.get().filter(|(since, _)| now < *since + REFUSALS_PERIOD);
        let untold = self.lately.get().map_or(0, |(_, count)| count.saturating_sub(REFUSALS_TOLD));
        if lately.is_none() && untold > 0 {
            hub.inbox.note(format!("refused {untold} more connections, which are not told one by one"));
        }
        let (since, count) = lately.unwrap_or((now, 0));
        self.lately.set(Some((since, count.saturating_add(1))));
        if count >= REFUSALS_TOLD {
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
    let is_peer = |id| hub.links.contains_key(&(id, channel));
    let Some(tls) = &hub.tls else {
        let mut socket = socket;
        let peer = handshake::accepted(&mut socket, channel, ours, is_peer, secret).await?;
        return Ok((peer, Stream::Plain(socket)));
    };
    let stream = TlsAcceptor::from(tls.acceptor.clone()).accept(socket).await?;
    let mut stream = Box::new(TlsStream::from(stream));
    let peer = handshake::accepted(&mut stream, channel, ours, is_peer, secret).await?;
    tls.check_host(stream.get_ref().1.peer_certificates(), &hub.addresses[&peer].host)?;
    Ok((peer, Stream::Tls(stream)))
}

/// Connections without a handshake, on each port. Far more than an ensemble has peers, few enough to cost nothing.
const STRANGERS_MAX: usize = 64;

/// Connections that the kernel keeps until they are accepted: strangers in a storm must not crowd out a peer.
const BACKLOG: u32 = 1024;

/// Refusals that are told in each [`REFUSALS_PERIOD`]; the rest is counted.
const REFUSALS_TOLD: u32 = 10;

const REFUSALS_PERIOD: Duration = Duration::from_secs(10);

/// After a failure to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
