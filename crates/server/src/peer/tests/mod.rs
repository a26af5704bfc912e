//! Tests of links over real loopback sockets: several servers in one process, on one thread.

#[cfg(feature = "emulation")]
mod delays;
mod links;
mod strangers;
mod tls;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use bytes::Bytes;
use pole_node::{Channel, Message};
use pole_types::{ServerId, Voters};
use pole_zab::Message as Zab;
use tokio::task::LocalSet;
use tokio::time::timeout;

use super::*;

/// One server: its links and its inbox.
struct Server {
    config: PeerConfig,
    inbox: Inbox,
    peers: Peers,
}

impl Server {
    async fn open(config: PeerConfig) -> Self {
        let inbox = Inbox::new();
        let peers = open(config.clone(), inbox.clone()).await.expect("free ports");
        Self { config, inbox, peers }
    }

    /// The next arrival of the quorum channel. The state of the election link is ignored.
    async fn next(&self) -> Arrival {
        loop {
            match self.any().await {
                Arrival::Note { .. }
                | Arrival::Up { channel: Channel::Election, .. }
                | Arrival::Down { channel: Channel::Election, .. } => {}
                arrival @ (Arrival::Up { .. } | Arrival::Down { .. } | Arrival::Received { .. }) => return arrival,
            }
        }
    }

    async fn note(&self) -> String {
        loop {
            if let Arrival::Note { text } = self.any().await {
                return text;
            }
        }
    }

    async fn any(&self) -> Arrival {
        timeout(TEST_TIMEOUT, self.inbox.arrived()).await.expect("something arrives");
        match self.inbox.pop().expect("it is there") {
            // How often a link was opened before depends on which server was up first.
            Arrival::Up { peer, channel, number: _ } => Arrival::Up { peer, channel, number: 0 },
            other @ (Arrival::Down { .. } | Arrival::Received { .. } | Arrival::Note { .. }) => other,
        }
    }

    /// Drains arrivals until the quorum link with the peer is up.
    async fn linked(&self, peer: u64) {
        while self.next().await != up(peer) {}
    }

    fn send(&mut self, to: u64, message: &Message) {
        self.peers.send(ServerId(to), Channel::Quorum, message);
    }

    fn address(&self, channel: Channel) -> SocketAddr {
        match channel {
            Channel::Election => self.peers.listen().election,
            Channel::Quorum => self.peers.listen().quorum,
        }
    }
}

/// Runs a test on a runtime like that of the node's thread.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, test);
}

/// The configurations of this many servers on free loopback ports.
fn ensemble(servers: u64) -> Vec<PeerConfig> {
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let held: Vec<_> = (0..2 * servers).map(|_| TcpListener::bind(local).expect("a free port")).collect();
    let ports: Vec<u16> = held.iter().map(|port| port.local_addr().expect("bound").port()).collect();
    let address = |at: &[u16]| PeerAddress { host: "localhost".into(), quorum_port: at[0], election_port: at[1] };
    let peers: BTreeMap<_, _> = (1..).map(ServerId).zip(ports.chunks(2).map(address)).collect();
    let config = |(me, address): (&ServerId, &PeerAddress)| PeerConfig {
        me: *me,
        members: Voters::new(peers.keys().copied()).into(),
        peers: peers.clone(),
        changing: false,
        listen: Listen {
            quorum: (Ipv4Addr::LOCALHOST, address.quorum_port).into(),
            election: (Ipv4Addr::LOCALHOST, address.election_port).into(),
        },
        tls: None,
        secret: None,
        delays: None,
        observer_delay: Duration::ZERO,
        limits: PeerLimits::default(),
        counters: Default::default(),
    };
    peers.iter().map(config).collect()
}

/// Two servers whose quorum link is up.
async fn pair(configs: Vec<PeerConfig>) -> (Server, Server) {
    let [one, two] = configs.try_into().expect("two servers");
    let (one, two) = (Server::open(one).await, Server::open(two).await);
    one.linked(2).await;
    two.linked(1).await;
    (one, two)
}

fn up(peer: u64) -> Arrival {
    Arrival::Up { peer: ServerId(peer), channel: Channel::Quorum, number: 0 }
}

fn down(peer: u64) -> Arrival {
    Arrival::Down { peer: ServerId(peer), channel: Channel::Quorum }
}

fn ping(seq: u64) -> Message {
    Message::Zab(Zab::Ping { seq })
}

fn received(from: u64, message: Message) -> Arrival {
    Arrival::Received { from: ServerId(from), channel: Channel::Quorum, message }
}

fn proposals(count: u32, bytes: usize) -> Message {
    let body = Bytes::from(vec![7; bytes]);
    let entry = |n| pole_zab::Entry {
        zxid: pole_types::Zxid::new(pole_types::Epoch(1), n),
        origin: pole_zab::Origin::default(),
        body: body.clone(),
    };
    let (epoch, prev, committed) = (pole_types::Epoch(1), pole_types::Zxid::ZERO, pole_types::Zxid::ZERO);
    Message::Zab(Zab::Propose {
        epoch,
        prev,
        entries: (1..=count).map(entry).collect(),
        committed,
        listeners: Vec::new(),
    })
}

/// Generous, for an overloaded machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);
