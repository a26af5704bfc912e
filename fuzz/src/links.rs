//! Target `peer-link`: the links of a server, driven by handshakes, bytes, ends of streams, replacements and resets.
//!
//! The server is number 2 of three: it dials server 1, and server 3 dials it. Handshakes, frames and the inbox are
//! those that `pole_server` uses on sockets.
//!
//! Properties:
//!
//! - Peers with the same secret complete the handshake. If there is a secret, nobody else does.
//! - The boundaries at which bytes arrive make no difference.
//! - The node receives a prefix of the messages of a connection, between its `Up` and its `Down`. Before a `Down`, it
//!   receives all of them.
//! - Nothing of a connection that was reset arrives.
//! - Buffers are bounded.

use std::pin::pin;

use bytes::Bytes;
use pole_node::{Channel, Message};
use pole_server::peer::frames::{Frame, FrameError, FrameReader};
use pole_server::peer::handshake::{self, Greeting, Standing};
use pole_server::peer::{Arrival, Inbox, PeerSecret};
use pole_types::ServerId;

use crate::memory::{self, End};

/// The input is a sequence of steps ([`crate::machine::steps`]). The selector of a step says what happens, and on
/// which link.
pub(crate) fn links(input: &[u8]) {
    let mut server = Server::new();
    for (selector, body) in crate::machine::steps(input) {
        server.step(selector, &body);
        server.check_inbox();
    }
    (0..server.links.len()).for_each(|link| server.end(link));
    while server.take() {}
}

struct Server {
    inbox: Inbox,
    links: Vec<Link>,
    /// The number of handshakes, from which each gets its own nonce.
    handshakes: u8,
}

struct Link {
    peer: ServerId,
    channel: Channel,
    /// All connections so far; the first has number 1.
    connections: Vec<Connection>,
    /// The number of the current connection.
    current: Option<u64>,
    /// The number of the connection that is open according to the events that the node has received.
    open: Option<u64>,
}

struct Connection {
    reader: FrameReader,
    /// Everything that arrived, as bytes and as frames.
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    broken: Option<FrameError>,
    /// The number of messages that the node has received.
    taken: usize,
}

impl Server {
    fn new() -> Self {
        let pairs = [1, 3].map(ServerId).into_iter().flat_map(|id| CHANNELS.map(|channel| (id, channel)));
        let link = |(peer, channel)| Link { peer, channel, connections: Vec::new(), current: None, open: None };
        Self { inbox: Inbox::new(), links: pairs.map(link).collect(), handshakes: 0 }
    }

    fn step(&mut self, selector: u8, body: &Bytes) {
        let link = usize::from(selector >> 3) % self.links.len();
        let times = if selector >= 128 { MANY } else { 1 };
        match selector % 8 {
            0 | 1 => (0..times).for_each(|_| self.feed(link, body)),
            2 => {
                let length = u32::try_from(body.len()).expect("two bytes of length");
                let frame = [&length.to_be_bytes()[..], body].concat();
                (0..times).for_each(|_| self.feed(link, &frame));
            }
            3 => self.end(link),
            4 | 5 => self.connect(link, body),
            6 => self.reset(link),
            _ => {
                for _ in 0..times {
                    self.take();
                }
            }
        }
    }

    /// Makes a connection and runs its handshake, with a peer or a stranger.
    fn connect(&mut self, link: usize, body: &[u8]) {
        let Some((selector, body)) = body.split_first() else { return };
        self.handshakes = self.handshakes.wrapping_add(1);
        let handshake = Handshake::new(&self.links[link], selector % 2 != 0, self.handshakes);
        let rest = match selector >> 1 & 3 {
            0 => handshake.with_stranger(body),
            1 => handshake.with_peer(body, Some(&PeerSecret::new(b"another secret than ours"))),
            _ => handshake.with_peer(body, handshake.secret.as_ref()),
        };
        if let Some(rest) = rest {
            self.install(link);
            self.feed(link, &rest);
        }
    }

    fn install(&mut self, link: usize) {
        self.end(link);
        let Link { peer, channel, connections, current, .. } = &mut self.links[link];
        let reader = FrameReader::new(*channel, FRAME_BYTES_MAX);
        connections.push(Connection { reader, bytes: Vec::new(), frames: Vec::new(), broken: None, taken: 0 });
        let number = connections.len() as u64;
        *current = Some(number);
        self.inbox.up(*peer, *channel, number);
    }

    /// Bytes arrive on a link. They are dropped if the inbox is full.
    fn feed(&mut self, link: usize, bytes: &[u8]) {
        if memory::poll(pin!(self.inbox.room())).is_none() {
            return;
        }
        assert!(
            self.inbox.len() <= MESSAGES_MAX + 2 * self.links.len(),
            "{} arrivals, and still not full",
            self.inbox.len()
        );
        let Link { peer, channel, current, .. } = self.links[link];
        let Some(number) = current else { return };
        let connection = self.links[link].connection(number);
        connection.bytes.extend_from_slice(bytes);
        connection.reader.buffer().extend_from_slice(bytes);
        loop {
            match connection.reader.next_frame() {
                Ok(None) => break,
                Ok(Some(frame)) => {
                    if let Frame::Message { message, bytes } = &frame {
                        self.inbox.received(peer, channel, message.clone(), *bytes);
                    }
                    connection.frames.push(frame);
                }
                Err(broken) => {
                    connection.broken = Some(broken);
                    return self.end(link);
                }
            }
        }
        let held = connection.reader.buffer().capacity();
        assert!(held <= 2 * (FRAME_BYTES_MAX + READ_BYTES_MAX), "{held} bytes are buffered for a frame");
    }

    /// The connection is closed, by either end.
    fn end(&mut self, link: usize) {
        let Link { peer, channel, current, .. } = self.links[link];
        if let Some(number) = current {
            self.links[link].close(number);
            self.inbox.down(peer, channel);
        }
    }

    /// The node resets the link.
    fn reset(&mut self, link: usize) {
        let Link { peer, channel, current, .. } = self.links[link];
        if let Some(number) = current {
            self.links[link].close(number);
        }
        self.links[link].open = None;
        self.inbox.forget(peer, channel);
    }

    /// The node receives the next arrival, if there is one.
    fn take(&mut self) -> bool {
        let Some(arrival) = self.inbox.pop() else {
            assert!(self.inbox.is_empty());
            return false;
        };
        match arrival {
            Arrival::Up { peer, channel, number } => {
                let link = self.link(peer, channel);
                assert_eq!(link.open.replace(number), None, "the link is already open");
                assert_eq!(link.current, Some(number), "the connection has ended");
            }
            Arrival::Down { peer, channel } => {
                let link = self.link(peer, channel);
                let number = link.open.take().expect("the link is open");
                assert_ne!(link.current, Some(number), "the connection has not ended");
                let connection = link.connection(number);
                assert_eq!(connection.taken, connection.messages().count(), "messages were lost");
            }
            Arrival::Received { from, channel, message } => {
                let link = self.link(from, channel);
                let number = link.open.expect("a message on a closed link");
                let connection = link.connection(number);
                assert_eq!(connection.messages().nth(connection.taken), Some(&message));
                connection.taken += 1;
            }
            Arrival::Note { text } => panic!("unexpected note: {text}"),
        }
        true
    }

    fn link(&mut self, peer: ServerId, channel: Channel) -> &mut Link {
        self.links.iter_mut().find(|link| (link.peer, link.channel) == (peer, channel)).expect("one of ours")
    }

    fn check_inbox(&self) {
        for Link { peer, channel, open, current, .. } in &self.links {
            for number in open.iter().chain(current) {
                assert_eq!(self.inbox.is_open(*peer, *channel, *number), *open == Some(*number));
            }
        }
    }
}

impl Link {
    fn connection(&mut self, number: u64) -> &mut Connection {
        &mut self.connections[number as usize - 1]
    }

    /// Ends the current connection. Asserts that its bytes, read at once, give the same frames and the same error.
    fn close(&mut self, number: u64) {
        let mut whole = FrameReader::new(self.channel, FRAME_BYTES_MAX);
        self.current = None;
        let connection = self.connection(number);
        whole.buffer().extend_from_slice(&connection.bytes);
        for frame in &connection.frames {
            assert_eq!(whole.next_frame().as_ref(), Ok(&Some(frame.clone())));
        }
        assert_eq!(whole.next_frame().err(), connection.broken);
    }
}

impl Connection {
    fn messages(&self) -> impl Iterator<Item = &Message> {
        self.frames.iter().filter_map(|frame| match frame {
            Frame::Message { message, .. } => Some(message),
            Frame::Probe | Frame::ProbeAnswer => None,
        })
    }
}

/// The handshake of a new connection.
struct Handshake {
    channel: Channel,
    /// The server that dials.
    higher: ServerId,
    /// The server that listens.
    lower: ServerId,
    /// The secret of our end.
    secret: Option<PeerSecret>,
    nonce: u8,
}

impl Handshake {
    fn new(link: &Link, with_secret: bool, nonce: u8) -> Self {
        let (higher, lower) = (link.peer.max(ME), link.peer.min(ME));
        let secret = with_secret.then(|| PeerSecret::new(b"the secret of the ensemble"));
        Self { channel: link.channel, higher, lower, secret, nonce }
    }

    fn greeting(&self, from: ServerId, to: ServerId, secret: Option<&PeerSecret>, nonce: u8) -> Greeting {
        let ensemble = handshake::ensemble([1, 2, 3].map(ServerId));
        Greeting { channel: self.channel, from, to, ensemble, secret: secret.is_some(), nonce: [nonce; 16] }
    }

    async fn dialled(&self, mut end: End, secret: Option<&PeerSecret>, nonce: u8) -> Result<ServerId, String> {
        let ours = self.greeting(self.higher, self.lower, secret, nonce);
        let verdict = handshake::dial(&mut end, ours, secret).await;
        end.outgoing.close();
        verdict.map(|()| self.lower).map_err(|refusal| refusal.to_string())
    }

    async fn accepted(&self, mut end: End, secret: Option<&PeerSecret>, nonce: u8) -> Result<ServerId, String> {
        let ours = |to| self.greeting(self.lower, to, secret, nonce);
        let standing = |id: ServerId| match id != self.lower && (1..=3).contains(&id.0) {
            true => Standing::Member,
            false => Standing::Stranger,
        };
        let verdict = handshake::accept(&mut end, self.channel, ours, standing, secret).await;
        end.outgoing.close();
        verdict.map_err(|refusal| refusal.to_string())
    }

    /// Runs our end of the handshake.
    async fn ours(&self, end: End) -> Result<ServerId, String> {
        let secret = self.secret.as_ref();
        if self.higher == ME {
            self.dialled(end, secret, self.nonce).await
        } else {
            self.accepted(end, secret, self.nonce).await
        }
    }

    /// Runs both ends as servers. `cuts` says how many bytes arrive at a time. It is also the data that the other end
    /// sends after the handshake, which is returned if the handshake succeeds.
    fn with_peer(&self, cuts: &[u8], theirs: Option<&PeerSecret>) -> Option<Vec<u8>> {
        let (dialling, listening) = self.run(cuts, theirs);
        let fits = match (&self.secret, theirs) {
            (None, None) => true,
            (Some(ours), Some(theirs)) => std::ptr::eq(ours, theirs),
            (Some(_), None) | (None, Some(_)) => false,
        };
        assert_eq!((dialling.is_ok(), listening.is_ok()), (fits, fits), "{dialling:?} {listening:?}");
        fits.then(|| cuts.to_vec())
    }

    fn run(&self, cuts: &[u8], theirs: Option<&PeerSecret>) -> (Result<ServerId, String>, Result<ServerId, String>) {
        let (near, far) = memory::connection();
        let wires = [near.outgoing.clone(), far.outgoing.clone()];
        let ours = self.secret.as_ref();
        let secrets = if self.higher == ME { (ours, theirs) } else { (theirs, ours) };
        let mut dialling = pin!(self.dialled(near, secrets.0, self.nonce));
        let mut listening = pin!(self.accepted(far, secrets.1, !self.nonce));
        let (mut dialled, mut accepted) = (None, None);
        let mut cuts = cuts.iter().map(|cut| usize::from(*cut)).chain(std::iter::repeat(usize::MAX));
        loop {
            dialled = dialled.or_else(|| memory::poll(dialling.as_mut()));
            accepted = accepted.or_else(|| memory::poll(listening.as_mut()));
            if let (Some(dialled), Some(accepted)) = (&dialled, &accepted) {
                return (dialled.clone(), accepted.clone());
            }
            let cut = cuts.next().unwrap_or(usize::MAX).max(1);
            for wire in &wires {
                wire.release(cut);
            }
        }
    }

    /// The other end sends arbitrary bytes: its own, bytes received from us, and bytes recorded from servers that
    /// know the secret. If the handshake succeeds, the bytes sent after it are returned.
    fn with_stranger(&self, script: &[u8]) -> Option<Vec<u8>> {
        let (near, far) = memory::connection();
        let mut verdict = None;
        {
            let mut ours = pin!(self.ours(near));
            let recorded = self.record();
            let mut script = script.iter().copied();
            while let Some(item) = script.next() {
                verdict = verdict.or_else(|| memory::poll(ours.as_mut()));
                let (first, count) = (script.next().unwrap_or(0), script.next().unwrap_or(0));
                let piece =
                    |bytes: &[u8]| -> Vec<u8> { bytes.iter().skip(first.into()).take(count.into()).copied().collect() };
                let bytes = match item % 4 {
                    0 => script.by_ref().take(first.into()).collect(),
                    1 => piece(&far.incoming.sent()),
                    2 => piece(&recorded.0),
                    _ => piece(&recorded.1),
                };
                far.outgoing.send(&bytes);
                far.outgoing.release(usize::MAX);
            }
            far.outgoing.close();
            verdict = verdict.or_else(|| memory::poll(ours.as_mut()));
        }
        let verdict = verdict.expect("the stream is at its end");
        let (sent, got) = (far.outgoing.sent(), far.incoming.sent());
        assert_eq!(self.replay(&sent, 1), (verdict.clone(), got.clone(), far.outgoing.unread()), "byte by byte");
        assert_eq!(self.replay(&sent, usize::MAX), (verdict.clone(), got, far.outgoing.unread()), "in one piece");
        assert!(self.secret.is_none() || verdict.is_err(), "a stranger completed the handshake");
        verdict.is_ok().then(|| far.outgoing.unread())
    }

    /// Runs our end on these bytes, `cut` at a time. Returns its result, the bytes that it sends, and the bytes that
    /// it does not read.
    fn replay(&self, bytes: &[u8], cut: usize) -> (Result<ServerId, String>, Vec<u8>, Vec<u8>) {
        let (near, far) = memory::connection();
        far.outgoing.send(bytes);
        far.outgoing.close();
        let mut ours = pin!(self.ours(near));
        loop {
            if let Some(verdict) = memory::poll(ours.as_mut()) {
                return (verdict, far.incoming.sent(), far.outgoing.unread());
            }
            assert_ne!(far.outgoing.release(cut), 0, "the stream is at its end");
        }
    }

    /// The bytes of both ends in a handshake that succeeds, with other nonces: those of the dialling end, then those
    /// of the listening end.
    fn record(&self) -> (Vec<u8>, Vec<u8>) {
        let (near, far) = memory::connection();
        let wires = (near.outgoing.clone(), far.outgoing.clone());
        let secret = self.secret.as_ref();
        let mut dialling = pin!(self.dialled(near, secret, self.nonce ^ 0x55));
        let mut listening = pin!(self.accepted(far, secret, self.nonce ^ 0xaa));
        let mut dialled = None;
        loop {
            dialled = dialled.or_else(|| memory::poll(dialling.as_mut()));
            if memory::poll(listening.as_mut()).is_some() {
                return (wires.0.sent(), wires.1.sent());
            }
            wires.0.release(usize::MAX);
            wires.1.release(usize::MAX);
        }
    }
}

const ME: ServerId = ServerId(2);

const CHANNELS: [Channel; 2] = [Channel::Election, Channel::Quorum];

const FRAME_BYTES_MAX: usize = 1 << 12;

/// The most bytes that arrive at once: the read size of a quorum link, and the body of a step.
const READ_BYTES_MAX: usize = 2 << 16;

/// The limit of messages in the inbox up to which links read on.
const MESSAGES_MAX: usize = 4096;

/// The number of repetitions of a step that is meant to fill the inbox.
const MANY: usize = 64;
