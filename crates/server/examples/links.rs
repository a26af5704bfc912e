//! Measures the cost of links between servers and the accuracy of emulated delays, with two servers on loopback on one
//! thread.
//!
//! `cargo run --release -p pole-server --example links`

use std::collections::BTreeMap;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use pole_node::{Channel, Message};
use pole_server::peer::{Arrival, Delays, Inbox, Listen, PeerAddress, PeerConfig, PeerLimits, Peers, codec, open};
use pole_topology::Link as Line;
use pole_types::{Epoch, ServerId, Voters, Zxid};
use pole_zab::{Entry, Message as Zab, Origin};

fn main() {
    bytes_of_a_batch();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let (mut one, mut two) = linked().await;
        round_trips(&mut one, &mut two).await;
        batches(&mut one, &two).await;
        small(&mut one, &two).await;
        lines(&mut one, &two).await;
    });
}

/// Encoding and decoding only.
fn bytes_of_a_batch() {
    let batch = proposals();
    let mut out = BytesMut::new();
    let encoding = each(20_000, || {
        out.clear();
        codec::encode(black_box(&batch), &mut out);
    });
    let frame = Bytes::copy_from_slice(&out[4..]);
    let decoding = each(20_000, || {
        let _ = black_box(codec::decode(black_box(frame.clone())));
    });
    println!("Propose of 50 x 1 KiB: encode {encoding} ns, decode {decoding} ns");
}

async fn round_trips(one: &mut Server, two: &mut Server) {
    let mut times = Vec::new();
    for seq in 0..20_000 {
        let sent = Instant::now();
        one.send(&Message::Zab(Zab::Ping { seq }));
        two.receive().await;
        two.send(&Message::Zab(Zab::Pong { seq, accepted: Epoch(1) }));
        one.receive().await;
        times.push(sent.elapsed());
    }
    println!("round trip of a Ping: {}", spread(&mut times));
}

async fn batches(one: &mut Server, two: &Server) {
    let (batch, count) = (proposals(), 20_000);
    let started = Instant::now();
    let mut flushing = Duration::ZERO;
    for _ in 0..count {
        let sent = Instant::now();
        one.send(&batch);
        flushing += sent.elapsed();
        two.receive().await;
    }
    let took = started.elapsed();
    let (each, sending) = (took.as_nanos() / count, flushing.as_nanos() / count);
    let entries = 50.0 * count as f64 / took.as_secs_f64();
    println!(
        "Propose of 50 x 1 KiB, sent and heard one by one: {each} ns each (send and flush {sending} ns), {entries:.0} entries/s"
    );
}

async fn small(one: &mut Server, two: &Server) {
    let (bursts, burst) = (2_000, 200);
    let started = Instant::now();
    for _ in 0..bursts {
        (0..burst).for_each(|seq| one.peers.send(two.id, Channel::Quorum, &Message::Zab(Zab::Ping { seq })));
        one.peers.flush();
        for _ in 0..burst {
            two.receive().await;
        }
    }
    let took = started.elapsed();
    let count = f64::from(bursts) * burst as f64;
    println!("small messages in bursts of {burst}: {:.0} messages/s", count / took.as_secs_f64());
}

async fn lines(one: &mut Server, two: &Server) {
    for one_way_us in [50_u64, 1_000, 10_000, 50_000] {
        let rtt_ns = 2_000 * one_way_us;
        let line = Line { rtt_ns, jitter_ppm: 0, loss_ppm: 0, bandwidth_bps: 1 << 40, window_bytes: 1 << 40 };
        one.peers.set_delays(Some(Delays { lines: [(two.id, line)].into(), cut: [].into(), seed: 1 }));
        let mut late = Vec::new();
        for seq in 0..100 {
            let sent = Instant::now();
            one.send(&Message::Zab(Zab::Ping { seq }));
            two.receive().await;
            late.push(sent.elapsed().saturating_sub(Duration::from_micros(one_way_us)));
        }
        println!("a line of {one_way_us} us one way is late by {}", spread(&mut late));
    }
    one.peers.set_delays(None);
}

struct Server {
    id: ServerId,
    peer: ServerId,
    peers: Peers,
    inbox: Inbox,
}

impl Server {
    fn send(&mut self, message: &Message) {
        self.peers.send(self.peer, Channel::Quorum, message);
        self.peers.flush();
    }

    async fn receive(&self) {
        loop {
            self.inbox.arrived().await;
            if let Some(Arrival::Received { .. }) = self.inbox.pop() {
                return;
            }
        }
    }

    async fn linked(&self) {
        loop {
            self.inbox.arrived().await;
            if let Some(Arrival::Up { channel: Channel::Quorum, .. }) = self.inbox.pop() {
                return;
            }
        }
    }
}

async fn linked() -> (Server, Server) {
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let held: Vec<_> = (0..4).map(|_| TcpListener::bind(local).expect("a free port")).collect();
    let ports: Vec<u16> = held.iter().map(|port| port.local_addr().expect("bound").port()).collect();
    drop(held);
    let address = |at: &[u16]| PeerAddress { host: "127.0.0.1".into(), quorum_port: at[0], election_port: at[1] };
    let peers: BTreeMap<_, _> = (1..).map(ServerId).zip(ports.chunks(2).map(address)).collect();
    let mut servers = Vec::new();
    for (me, peer) in [(1, 2), (2, 1)].map(|(me, peer)| (ServerId(me), ServerId(peer))) {
        let PeerAddress { quorum_port, election_port, .. } = peers[&me];
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listen = Listen { quorum: at(quorum_port), election: at(election_port) };
        let inbox = Inbox::new();
        let (tls, delays, limits) = (None, None, PeerLimits::default());
        let config = PeerConfig {
            me,
            members: Voters::new(peers.keys().copied()).into(),
            peers: peers.clone(),
            changing: false,
            listen,
            tls,
            secret: None,
            delays,
            observer_delay: Duration::ZERO,
            limits,
            counters: Default::default(),
        };
        let peers = open(config, inbox.clone()).await.expect("free ports");
        servers.push(Server { id: me, peer, peers, inbox });
    }
    let (two, one) = (servers.pop().expect("two"), servers.pop().expect("one"));
    one.linked().await;
    two.linked().await;
    (one, two)
}

fn proposals() -> Message {
    let entry = |n| Entry { zxid: Zxid::new(Epoch(1), n), origin: Origin::default(), body: vec![7; 1024].into() };
    let (epoch, prev, committed) = (Epoch(1), Zxid::ZERO, Zxid::ZERO);
    Message::Zab(Zab::Propose { epoch, prev, entries: (1..=50).map(entry).collect(), committed, listeners: Vec::new() })
}

fn each(count: u32, mut act: impl FnMut()) -> u128 {
    let started = Instant::now();
    (0..count).for_each(|_| act());
    started.elapsed().as_nanos() / u128::from(count)
}

fn spread(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_nanos() as f64 / 1000.0;
    format!("p10 {:.1} us, p50 {:.1} us, p90 {:.1} us, p99 {:.1} us", at(10), at(50), at(90), at(99))
}
