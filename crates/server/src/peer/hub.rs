//! The state that all links of a server share.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::topology::Link as Line;
use pole_node::Channel;
use pole_types::ServerId;
use tokio::net::TcpStream;

use super::alarm::Alarm;
use super::config::{PeerAddress, PeerConfig, PeerCounters, PeerLimits};
use super::delay::Delays;
use super::handshake::{self, Greeting};
use super::inbox::Inbox;
use super::link::Link;
use super::secret::{NONCE_BYTES, PeerSecret};
use super::stream;
use crate::tls::{Live, PeerTls};

#[derive(Debug)]
pub(super) struct Hub {
    pub(super) me: ServerId,
    ensemble: u64,
    pub(super) addresses: BTreeMap<ServerId, PeerAddress>,
    pub(super) tls: Option<Live<PeerTls>>,
    pub(super) secret: Option<PeerSecret>,
    pub(super) limits: PeerLimits,
    pub(super) counters: Arc<PeerCounters>,
    pub(super) inbox: Inbox,
    pub(super) alarm: Alarm,
    pub(super) links: BTreeMap<(ServerId, Channel), Rc<Link>>,
    delays: RefCell<Option<Delays>>,
    /// Whether it was already reported that the congestion control cannot be set.
    congestion_warned: Cell<bool>,
}

impl Hub {
    pub(super) fn new(config: PeerConfig, inbox: Inbox) -> Self {
        let PeerConfig { me, members, peers, listen: _, tls, secret, delays, limits, counters } = config;
        let addresses: BTreeMap<_, _> = peers.into_iter().filter(|(id, _)| members.are_linked(me, *id)).collect();
        let channels = [Channel::Election, Channel::Quorum];
        let keys = addresses.keys().flat_map(|peer| channels.map(|channel| (*peer, channel)));
        let links = keys.map(|(peer, channel)| ((peer, channel), Rc::new(Link::new(peer, channel)))).collect();
        let ensemble = handshake::ensemble(members.iter());
        let (delays, alarm, congestion_warned) = (RefCell::new(delays), Alarm::new(), Cell::new(false));
        Self { me, ensemble, addresses, tls, secret, limits, counters, inbox, alarm, links, delays, congestion_warned }
    }

    /// The greeting of this server for a new connection.
    pub(super) fn greeting(&self, channel: Channel, to: ServerId, nonce: [u8; NONCE_BYTES]) -> Greeting {
        Greeting { channel, from: self.me, to, ensemble: self.ensemble, secret: self.secret.is_some(), nonce }
    }

    /// Whether only servers of the ensemble can pass the handshake.
    pub(super) fn authenticates_peers(&self) -> bool {
        self.tls.is_some() || self.secret.is_some()
    }

    /// The emulated line to a peer.
    pub(super) fn line(&self, peer: ServerId) -> Option<Line> {
        self.delays.borrow().as_ref().and_then(|delays| delays.lines.get(&peer).copied())
    }

    /// Whether the emulated line to a peer is cut.
    pub(super) fn is_cut(&self, peer: ServerId) -> bool {
        self.delays.borrow().as_ref().is_some_and(|delays| delays.cut.contains(&peer))
    }

    /// The seed of the jitter of one connection, the same in every run with the same configuration.
    pub(super) fn seed(&self, peer: ServerId, connection: u64) -> u64 {
        let seed = self.delays.borrow().as_ref().map_or(0, |delays| delays.seed);
        seed ^ self.me.0.rotate_left(48) ^ peer.0.rotate_left(32) ^ connection
    }

    pub(super) fn set_delays(&self, delays: Option<Delays>) {
        self.delays.replace(delays);
        self.links.values().for_each(|link| link.set_line(self));
    }

    pub(super) fn prepare_for_delay(&self, socket: &TcpStream) {
        if let Err(error) = stream::prepare_for_delay(socket)
            && !self.congestion_warned.replace(true)
        {
            let note = "measurements over emulated lines may show the pauses of the system's congestion control";
            self.inbox.note(format!("cubic congestion control cannot be set ({error}): {note}"));
        }
    }
}
