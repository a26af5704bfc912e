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
    changing: bool,
    /// The addresses of the members that this server has links to.
    addresses: RefCell<BTreeMap<ServerId, PeerAddress>>,
    pub(super) tls: Option<Live<PeerTls>>,
    pub(super) secret: Option<PeerSecret>,
    pub(super) limits: PeerLimits,
    pub(super) counters: Arc<PeerCounters>,
    pub(super) inbox: Inbox,
    pub(super) alarm: Alarm,
    /// The links to members, and to other servers that are connected.
    links: RefCell<BTreeMap<(ServerId, Channel), Rc<Link>>>,
    delays: RefCell<Option<Delays>>,
    /// Whether it was already reported that the congestion control cannot be set.
    congestion_warned: Cell<bool>,
}

impl Hub {
    pub(super) fn new(config: PeerConfig, inbox: Inbox) -> Self {
        let PeerConfig { me, members, changing, tls, secret, delays, limits, counters, .. } = config;
        Self {
            me,
            // Members that change come and go one by one, so servers that differ must be able to talk.
            ensemble: if changing { 0 } else { handshake::ensemble(members.iter()) },
            changing,
            addresses: RefCell::default(),
            tls,
            secret,
            limits,
            counters,
            inbox,
            alarm: Alarm::new(),
            links: RefCell::default(),
            delays: RefCell::new(delays),
            congestion_warned: Cell::new(false),
        }
    }

    /// The link to a peer.
    pub(super) fn link(&self, peer: ServerId, channel: Channel) -> Option<Rc<Link>> {
        self.links.borrow().get(&(peer, channel)).cloned()
    }

    pub(super) fn links(&self) -> Vec<Rc<Link>> {
        self.links.borrow().values().cloned().collect()
    }

    /// The link to a peer, which is created if there is none.
    pub(super) fn link_or_new(&self, peer: ServerId, channel: Channel) -> Rc<Link> {
        self.forget_unused();
        let mut links = self.links.borrow_mut();
        Rc::clone(links.entry((peer, channel)).or_insert_with(|| Rc::new(Link::new(peer, channel))))
    }

    /// Whether a server that wants to connect may: a member, or, if members can change, a few others.
    pub(super) fn admits(&self, peer: ServerId) -> bool {
        if self.is_member(peer) {
            return true;
        }
        let links = self.links.borrow();
        let is_joining = |link: &&Rc<Link>| !self.is_member(link.peer) && link.peer != peer && link.is_connected();
        self.changing && peer != self.me && links.values().filter(is_joining).count() < 2 * JOINING_MAX
    }

    /// Whether the members can change.
    pub(super) fn is_changing(&self) -> bool {
        self.changing
    }

    pub(super) fn is_member(&self, peer: ServerId) -> bool {
        self.addresses.borrow().contains_key(&peer)
    }

    /// The address of a member.
    pub(super) fn address(&self, peer: ServerId) -> Option<PeerAddress> {
        self.addresses.borrow().get(&peer).cloned()
    }

    /// Sets the members that this server has links to. Links to others stay while they are connected.
    pub(super) fn set_addresses(&self, addresses: BTreeMap<ServerId, PeerAddress>) {
        self.addresses.replace(addresses);
        self.forget_unused();
    }

    /// Removes the links of servers that are not members and have gone, so that strangers under ever new ids leave nothing
    /// behind. A link that is about to get a connection is held by the task that accepted it.
    fn forget_unused(&self) {
        let is_used = |link: &Rc<Link>| link.is_connected() || Rc::strong_count(link) > 1;
        self.links.borrow_mut().retain(|(peer, _), link| self.is_member(*peer) || is_used(link));
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
        self.links().iter().for_each(|link| link.set_line(self));
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

/// How many servers that are not members may be connected at a time, in order to join or because they were removed.
const JOINING_MAX: usize = 8;
