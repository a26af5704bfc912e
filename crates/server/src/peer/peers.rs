//! The links of one server, as the node's thread uses them.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use pole_node::{Channel, Message};
use pole_types::ServerId;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, spawn_local};

use super::config::{Listen, PeerConfig, PeerError};
use super::delay::Delays;
use super::hub::Hub;
use super::inbox::Inbox;
use super::{dial, listen};

/// All links of one server. Dropping it closes them and frees the ports.
///
/// Call [`Peers::send`] and [`Peers::reset`] for the node's effects, then [`Peers::flush`] once. Arrivals are taken
/// from the [`Inbox`] one at a time.
#[derive(Debug)]
pub struct Peers {
    hub: Rc<Hub>,
    listen: Listen,
    /// Links with messages queued since the last flush.
    unflushed: BTreeSet<(ServerId, Channel)>,
    tasks: Vec<AbortHandle>,
}

/// Opens both ports and starts to dial. Must be called on a `LocalSet`, on which all links then run.
///
/// # Errors
/// If listening on one of the ports fails; see [`PeerError::is_in_use`].
pub async fn open(config: PeerConfig, inbox: Inbox) -> Result<Peers, PeerError> {
    let Listen { quorum, election } = config.listen;
    let quorum = listen::bind(quorum, "quorum")?;
    let election = listen::bind(election, "election")?;
    let at = |listener: &TcpListener, channel, asked: SocketAddr| {
        let unknown = |source: io::Error| PeerError::Listen { channel, address: asked, source };
        listener.local_addr().map_err(unknown)
    };
    let listen = Listen {
        quorum: at(&quorum, "quorum", config.listen.quorum)?,
        election: at(&election, "election", config.listen.election)?,
    };
    let hub = Rc::new(Hub::new(config, inbox));
    let mut tasks = vec![
        spawn_local(listen::keep_listening(Rc::clone(&hub), quorum, Channel::Quorum)).abort_handle(),
        spawn_local(listen::keep_listening(Rc::clone(&hub), election, Channel::Election)).abort_handle(),
    ];
    for link in hub.links.values().filter(|link| link.peer < hub.me) {
        tasks.push(spawn_local(dial::keep_connected(Rc::clone(&hub), Rc::clone(link))).abort_handle());
    }
    Ok(Peers { hub, listen, unflushed: BTreeSet::new(), tasks })
}

impl Peers {
    /// Queues a message; [`Peers::flush`] writes it. It is dropped if the link is down or there is no such peer.
    pub fn send(&mut self, to: ServerId, channel: Channel, message: &Message) {
        if let Some(link) = self.hub.links.get(&(to, channel)) {
            link.send(&self.hub, message);
            self.unflushed.insert((to, channel));
        }
    }

    /// Writes the queued messages of each link, as far as its socket has room. A task writes the rest.
    pub fn flush(&mut self) {
        for key in std::mem::take(&mut self.unflushed) {
            self.hub.links[&key].flush(&self.hub);
        }
    }

    /// Closes a link without an event. Nothing of it arrives any more, including what is in the inbox. It is reopened
    /// when possible.
    pub fn reset(&mut self, peer: ServerId, channel: Channel) {
        if let Some(link) = self.hub.links.get(&(peer, channel)) {
            link.reset(&self.hub);
        }
    }

    /// Changes the emulated delays of messages sent from now on.
    pub fn set_delays(&mut self, delays: Option<Delays>) {
        self.hub.set_delays(delays);
    }

    /// The addresses that this server listens on.
    #[must_use]
    pub fn listen(&self) -> Listen {
        self.listen
    }

    /// Writes as much as the sockets accept, stops listening and dialling, and closes all links, which arrive as
    /// `Down`.
    pub fn close_all(&mut self) {
        self.flush();
        self.tasks.drain(..).for_each(|task| task.abort());
        self.hub.links.values().for_each(|link| link.end(&self.hub));
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.close_all();
    }
}
