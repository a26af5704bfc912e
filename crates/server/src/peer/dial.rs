//! Dials other servers: keeps each link connected as long as the process runs.
//!
//! The server with the higher id dials. Only one side does, so that two connections never cross; it is the same side as
//! on Apache's election port, so that existing firewall rules fit. The other side dials only if nobody has dialled it for
//! [`LOWER_DIALS_AFTER`]: if it is not a member there yet, its address is not known there. A member is refused then.
//!
//! Each link is dialled by its own task, so an unreachable peer delays no other (ZK-3756). Names are resolved at each
//! attempt, so a peer whose address changed is found (ZK-3320, ZK-4708).

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use pole_node::Channel;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::{TlsConnector, TlsStream};

use super::config::PeerAddress;
use super::handshake::{self, Refusal};
use super::hub::Hub;
use super::link::Link;
use super::secret;
use super::stream::{self, Stream};
use crate::tls::Live;

pub(super) async fn keep_connected(hub: Rc<Hub>, link: Rc<Link>, address: PeerAddress) {
    let is_higher = link.peer < hub.me;
    let (first, longest) = if is_higher { (REDIAL_FIRST, REDIAL_MAX) } else { (LOWER_DIALS_AFTER, LOWER_DIALS_AFTER) };
    if !is_higher && !hub.is_changing() {
        return;
    }
    let mut pause = first;
    let mut last_note = None;
    loop {
        // The other end may have connected.
        link.gone().await;
        if !is_higher {
            sleep(LOWER_DIALS_AFTER).await;
            if link.is_connected() {
                continue;
            }
        }
        let started = Instant::now();
        if hub.is_cut(link.peer) {
            sleep_until(started + longest).await;
            continue;
        }
        match dial(&hub, &link, &address).await {
            Ok(stream) => {
                (pause, last_note) = (first, None);
                link.install(&hub, stream);
                link.gone().await;
            }
            Err(refusal) => {
                let note = format!("cannot link with server {} ({} port): {refusal}", link.peer, link.name());
                if last_note.as_ref() != Some(&note) {
                    hub.inbox.note(note.clone());
                    last_note = Some(note);
                }
            }
        }
        // Counted from the start of the attempt, so that a link that lasted long is redialled at once, but a flapping
        // one is not.
        sleep_until(started + pause).await;
        pause = (2 * pause).min(longest);
    }
}

async fn dial(hub: &Hub, link: &Link, address: &PeerAddress) -> Result<Stream, Refusal> {
    let port = match link.channel {
        Channel::Election => address.election_port,
        Channel::Quorum => address.quorum_port,
    };
    // Without a timeout: a lookup that hangs cannot be cancelled, and a second one would hang too.
    let mut last = Refusal::Io(io::Error::new(io::ErrorKind::NotFound, format!("{} has no address", address.host)));
    for resolved in lookup_host((address.host.as_str(), port)).await? {
        match connect(hub, link, resolved, &address.host).await {
            Ok(stream) => return Ok(stream),
            Err(refusal) => last = refusal,
        }
    }
    Err(last)
}

async fn connect(hub: &Hub, link: &Link, address: SocketAddr, host: &str) -> Result<Stream, Refusal> {
    let timed_out = |_| io::Error::new(io::ErrorKind::TimedOut, format!("no answer from {address}"));
    let socket = timeout(CONNECT_LIMIT, TcpStream::connect(address)).await.map_err(timed_out)??;
    stream::prepare(&socket)?;
    greet(hub, link, socket, host).await
}

async fn greet(hub: &Hub, link: &Link, socket: TcpStream, host: &str) -> Result<Stream, Refusal> {
    let ours = hub.greeting(link.channel, link.peer, secret::nonce()?);
    let secret = hub.secret.as_ref();
    let greeted = async {
        let Some(tls) = hub.tls.as_ref().map(Live::get) else {
            let mut socket = socket;
            handshake::dial(&mut socket, ours, secret).await?;
            return Ok(Stream::Plain(socket));
        };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(tls.connector).connect(name, socket).await?;
        let mut stream = Box::new(TlsStream::from(stream));
        handshake::dial(&mut stream, ours, secret).await?;
        Ok(Stream::Tls(stream))
    };
    let timed_out = |_| Refusal::Silent { limit_ms: HANDSHAKE_LIMIT.as_millis() };
    timeout(HANDSHAKE_LIMIT, greeted).await.map_err(timed_out)?
}

/// The first pause between attempts. A peer that restarts is back within a few of them.
const REDIAL_FIRST: Duration = Duration::from_millis(10);

/// The longest pause between attempts, and so the time to find a peer that was away for long. An attempt costs little.
const REDIAL_MAX: Duration = Duration::from_millis(200);

/// How long the server with the lower id waits to be dialled. Its peer dials within a fraction of that if it knows it.
const LOWER_DIALS_AFTER: Duration = Duration::from_secs(1);

/// Timeout of a TCP connect: several round trips over any distance on earth.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// Timeout of the handshake, including TLS, on both ends.
pub(super) const HANDSHAKE_LIMIT: Duration = Duration::from_secs(2);
