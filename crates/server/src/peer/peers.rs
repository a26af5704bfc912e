//! The links of one server, as the node's thread uses them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use pole_node::{Channel, Message};
use pole_types::{Membership, ServerId};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, spawn_local};

use super::batching::Batching;
use super::config::{Listen, PeerAddress, PeerConfig, PeerError};
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
    /// Links with messages queued since the last flush, without those that wait.
    unflushed: BTreeSet<(ServerId, Channel)>,
    batching: Batching,
    /// The tasks that listen.
    tasks: Vec<AbortHandle>,
    /// The tasks that dial members, and the address that each was started for.
    dialling: BTreeMap<(ServerId, Channel), (PeerAddress, AbortHandle)>,
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
    let (members, addresses) = (config.members.clone(), config.peers.clone());
    let batching = Batching::new(config.observer_delay);
    let hub = Rc::new(Hub::new(config, inbox));
    let tasks = vec![
        spawn_local(listen::keep_listening(Rc::clone(&hub), quorum, Channel::Quorum)).abort_handle(),
        spawn_local(listen::keep_listening(Rc::clone(&hub), election, Channel::Election)).abort_handle(),
    ];
    let mut peers = Peers { hub, listen, unflushed: BTreeSet::new(), batching, tasks, dialling: BTreeMap::new() };
    peers.set_members(&members, addresses);
    Ok(peers)
}

impl Peers {
    /// Connects to these members from now on. Connections to others stay until they end, since their servers may not have
    /// heard yet that they do not belong to the ensemble any more.
    pub fn set_members(&mut self, members: &Membership, addresses: BTreeMap<ServerId, PeerAddress>) {
        self.batching.set_members(members);
        let me = self.hub.me;
        let linked: BTreeMap<_, _> = addresses.into_iter().filter(|(id, _)| members.are_linked(me, *id)).collect();
        self.dialling.retain(|(peer, _), (address, task)| {
            let stays = linked.get(peer) == Some(address);
            if !stays {
                task.abort();
            }
            stays
        });
        self.hub.set_addresses(linked.clone());
        for (peer, address) in linked {
            for channel in [Channel::Election, Channel::Quorum] {
                let link = self.hub.link_or_new(peer, channel);
                self.dialling.entry((peer, channel)).or_insert_with(|| {
                    let task = spawn_local(dial::keep_connected(Rc::clone(&self.hub), link, address.clone()));
                    (address.clone(), task.abort_handle())
                });
            }
        }
    }

    /// Queues a message; [`Peers::flush`] writes it, perhaps a little later if it is for an observer. It is dropped if the link
    /// is down or there is no such peer.
    pub fn send(&mut self, to: ServerId, channel: Channel, message: &Message) {
        if let Some(link) = self.hub.link(to, channel) {
            link.send(&self.hub, message);
            if !self.batching.waits(to, channel, message, Instant::now) {
                self.unflushed.insert((to, channel));
            }
        }
    }

    /// This server has forwarded requests of its clients, which wait for the answers.
    pub fn forwarded(&mut self, from: ServerId) {
        self.batching.forwarded(from, Instant::now());
    }

    /// When [`Peers::flush`] has to be called next for messages that wait.
    #[must_use]
    pub fn next_flush(&self) -> Option<Instant> {
        self.batching.deadline()
    }

    /// Writes the queued messages of each link, as far as its socket has room. A task writes the rest. Returns whether there
    /// were any.
    pub fn flush(&mut self) -> bool {
        let mut unflushed = std::mem::take(&mut self.unflushed);
        if self.batching.deadline().is_some() {
            unflushed.extend(self.batching.due(Instant::now()).map(|id| (id, Channel::Quorum)));
        }
        for key in &unflushed {
            if let Some(link) = self.hub.link(key.0, key.1) {
                link.flush(&self.hub);
            }
        }
        !unflushed.is_empty()
    }

    /// Closes a link without an event. Nothing of it arrives any more, including what is in the inbox. It is reopened
    /// when possible.
    pub fn reset(&mut self, peer: ServerId, channel: Channel) {
        if let Some(link) = self.hub.link(peer, channel) {
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
        let dialling = std::mem::take(&mut self.dialling).into_values().map(|(_, task)| task);
        self.tasks.drain(..).chain(dialling).for_each(|task| task.abort());
        self.hub.links().iter().for_each(|link| link.end(&self.hub));
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.close_all();
    }
}
