//! Dialling: keeps one link connected for as long as the process lives.
//!
//! In: a link without a connection. Out: connections that passed the handshake.
//! Who dials: the server with the higher id. One side only, so that two connections never cross; this side, because
//! Apache's election port does it so, and firewalls that were made for it fit.
//! Holds: each link is dialled by a task of its own, so a peer that cannot be reached delays no other (ZK-3756); names
//! are resolved anew each time, so a peer that moved is found (ZK-3320, ZK-4708).

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use pole_node::Channel;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::{TlsConnector, TlsStream};

use super::handshake::{self, Refusal};
use super::hub::Hub;
use super::link::Link;
use super::secret;
use super::stream::{self, Stream};

pub(super) async fn keep_dialled(hub: Rc<Hub>, link: Rc<Link>) {
    let mut pause = REDIAL_FIRST;
    let mut told = None;
    loop {
        let started = Instant::now();
        match dial(&hub, &link).await {
            Ok(stream) => {
                (pause, told) = (REDIAL_FIRST, None);
                link.install(&hub, stream);
                link.gone().await;
            }
            Err(refusal) => {
                let said = format!("cannot link with server {} ({} port): {refusal}", link.peer, link.name());
                if told.as_ref() != Some(&said) {
                    hub.inbox.note(said.clone());
                    told = Some(said);
                }
            }
        }
        // From the start of the attempt: a link that lived long is dialled at once, one that flaps is not.
        sleep_until(started + pause).await;
        pause = (2 * pause).min(REDIAL_MAX);
    }
}

async fn dial(hub: &Hub, link: &Link) -> Result<Stream, Refusal> {
    let address = &hub.addresses[&link.peer];
    let port = match link.channel {
        Channel::Election => address.election_port,
        Channel::Quorum => address.quorum_port,
    };
    // Not under a time limit: a lookup that hangs cannot be taken back, and another beside it would hang too.
    let mut last = Refusal::Io(io::Error::new(io::ErrorKind::NotFound, format!("{} has no address", address.host)));
    for place in lookup_host((address.host.as_str(), port)).await? {
        match connect(hub, link, place, &address.host).await {
            Ok(stream) => return Ok(stream),
            Err(refusal) => last = refusal,
        }
    }
    Err(last)
}

async fn connect(hub: &Hub, link: &Link, place: SocketAddr, host: &str) -> Result<Stream, Refusal> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("no answer from {place}"));
    let socket = timeout(CONNECT_LIMIT, TcpStream::connect(place)).await.map_err(late)??;
    stream::prepare(&socket)?;
    greet(hub, link, socket, host).await
}

async fn greet(hub: &Hub, link: &Link, socket: TcpStream, host: &str) -> Result<Stream, Refusal> {
    let ours = hub.greeting(link.channel, link.peer, secret::nonce()?);
    let secret = hub.secret.as_ref();
    let greeted = async {
        let Some(tls) = &hub.tls else {
            let mut socket = socket;
            handshake::dialled(&mut socket, ours, secret).await?;
            return Ok(Stream::Plain(socket));
        };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(tls.connector.clone()).connect(name, socket).await?;
        let mut stream = Box::new(TlsStream::from(stream));
        handshake::dialled(&mut stream, ours, secret).await?;
        Ok(Stream::Tls(stream))
    };
    let silent = |_| Refusal::Silent { limit_ms: HANDSHAKE_LIMIT.as_millis() };
    timeout(HANDSHAKE_LIMIT, greeted).await.map_err(silent)?
}

/// From one attempt to the next, at first: a peer that restarts is there again in a few of these.
const REDIAL_FIRST: Duration = Duration::from_millis(10);

/// At most: a peer that was long away is found this soon, and asking costs next to nothing.
const REDIAL_MAX: Duration = Duration::from_millis(200);

/// For TCP to connect: several round trips of any distance on earth.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// For the greetings, and TLS before them, on either end.
pub(super) const HANDSHAKE_LIMIT: Duration = Duration::from_secs(2);
