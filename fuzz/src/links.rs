//! The links of a server as a machine: sequences of handshakes, bytes, ends of streams, replacements and resets.
//!
//! The server is number 2 of three: it dials server 1 and is dialled by server 3. Handshakes, frames and the inbox are
//! those that `pole_server` runs over sockets.
//!
//! Laws: peers with the same secret get through, and nobody else does where there is a secret; where bytes are cut makes
//! no difference; the node takes a prefix of what a connection brought, between its `Up` and its `Down`, and all of it
//! before the `Down`; nothing of a connection that was reset arrives; what is held is bounded.

use std::pin::pin;

use bytes::Bytes;
use pole_election::ServerId;
use pole_node::{Channel, Message};
use pole_server::peer::frames::{Frame, FrameError, FrameReader};
use pole_server::peer::handshake::{self, Greeting};
use pole_server::peer::{Arrival, Inbox, PeerSecret};

use crate::memory::{self, End};

/// Steps, each a byte that says what happens and on which link, two of length, and bytes for it.
pub(crate) fn links(input: &[u8]) {
    let mut server = Server::new();
    for (how, body) in crate::machine::pieces(input) {
        server.step(how, &body);
        server.holds();
    }
    (0..server.links.len()).for_each(|link| server.end(link));
    while server.take() {}
}

struct Server {
    inbox: Inbox,
    links: Vec<Link>,
    /// Gives each handshake its own random number.
    handshakes: u8,
}

struct Link {
    peer: ServerId,
    channel: Channel,
    /// All that were installed; the first has number 1.
    connections: Vec<Connection>,
    /// The number of the present one.
    present: Option<u64>,
    /// The number of the one that the node believes to be open.
    open: Option<u64>,
}

struct Connection {
    reader: FrameReader,
    /// All that it brought, as bytes and as frames.
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    broken: Option<FrameError>,
    /// So many of its messages the node has taken.
    taken: usize,
}

impl Server {
    fn new() -> Self {
        let pairs = [1, 3].map(ServerId).into_iter().flat_map(|id| CHANNELS.map(|channel| (id, channel)));
        let link = |(peer, channel)| Link { peer, channel, connections: Vec::new(), present: None, open: None };
        Self { inbox: Inbox::new(), links: pairs.map(link).collect(), handshakes: 0 }
    }

    fn step(&mut self, how: u8, body: &Bytes) {
        let link = usize::from(how >> 3) % self.links.len();
        let times = if how >= 128 { MANY } else { 1 };
        match how % 8 {
            0 | 1 => (0..times).for_each(|_| self.feed(link, body)),
            2 => {
                let length = u32::try_from(body.len()).expect("two bytes of length");
                let frame = [&length.to_be_bytes()[..], body].concat();
                (0..times).for_each(|_| self.feed(link, &frame));
            }
            3 => self.end(link),
            4 | 5 => self.meet(link, body),
            6 => self.reset(link),
            _ => {
                for _ in 0..times {
                    self.take();
                }
            }
        }
    }

    /// A connection is made, and its handshake is run.
    fn meet(&mut self, link: usize, body: &[u8]) {
        let Some((how, body)) = body.split_first() else { return };
        self.handshakes = self.handshakes.wrapping_add(1);
        let parties = Parties::of(&self.links[link], how % 2 != 0, self.handshakes);
        let rest = match how >> 1 & 3 {
            0 => parties.by_stranger(body),
            1 => parties.by_peer(body, Some(&PeerSecret::new(b"another secret than ours"))),
            _ => parties.by_peer(body, parties.secret.as_ref()),
        };
        if let Some(rest) = rest {
            self.install(link);
            self.feed(link, &rest);
        }
    }

    fn install(&mut self, link: usize) {
        self.end(link);
        let Link { peer, channel, connections, present, .. } = &mut self.links[link];
        let reader = FrameReader::new(*channel, FRAME_BYTES_MAX);
        connections.push(Connection { reader, bytes: Vec::new(), frames: Vec::new(), broken: None, taken: 0 });
        let number = connections.len() as u64;
        *present = Some(number);
        self.inbox.up(*peer, *channel, number);
    }

    /// The link reads, if the inbox has room.
    fn feed(&mut self, link: usize, bytes: &[u8]) {
        if memory::poll(pin!(self.inbox.room())).is_none() {
            return;
        }
        assert!(self.inbox.len() <= MESSAGES_MAX + 2 * self.links.len(), "{} arrivals and room", self.inbox.len());
        let Link { peer, channel, present, .. } = self.links[link];
        let Some(number) = present else { return };
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
        assert!(held <= 2 * (FRAME_BYTES_MAX + READ_BYTES_MAX), "{held} bytes are held for a frame");
    }

    /// The other end closes the connection, or the link does.
    fn end(&mut self, link: usize) {
        let Link { peer, channel, present, .. } = self.links[link];
        if let Some(number) = present {
            self.links[link].close(number);
            self.inbox.down(peer, channel);
        }
    }

    /// The node closes the link.
    fn reset(&mut self, link: usize) {
        let Link { peer, channel, present, .. } = self.links[link];
        if let Some(number) = present {
            self.links[link].close(number);
        }
        self.links[link].open = None;
        self.inbox.forget(peer, channel);
    }

    /// The node takes an arrival, if there is one.
    fn take(&mut self) -> bool {
        let Some(arrival) = self.inbox.pop() else {
            assert!(self.inbox.is_empty());
            return false;
        };
        match arrival {
            Arrival::Up { peer, channel, number } => {
                let link = self.link(peer, channel);
                assert_eq!(link.open.replace(number), None, "it is open");
                assert_eq!(link.present, Some(number), "it is over");
            }
            Arrival::Down { peer, channel } => {
                let link = self.link(peer, channel);
                let number = link.open.take().expect("it is closed");
                assert_ne!(link.present, Some(number), "it is not over");
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
            Arrival::Note { text } => panic!("nobody said {text}"),
        }
        true
    }

    fn link(&mut self, peer: ServerId, channel: Channel) -> &mut Link {
        self.links.iter_mut().find(|link| (link.peer, link.channel) == (peer, channel)).expect("one of ours")
    }

    fn holds(&self) {
        for Link { peer, channel, open, present, .. } in &self.links {
            for number in open.iter().chain(present) {
                assert_eq!(self.inbox.is_open(*peer, *channel, *number), *open == Some(*number));
            }
        }
    }
}

impl Link {
    fn connection(&mut self, number: u64) -> &mut Connection {
        &mut self.connections[number as usize - 1]
    }

    /// The present connection is over. It brought what it would have brought in one piece.
    fn close(&mut self, number: u64) {
        let mut whole = FrameReader::new(self.channel, FRAME_BYTES_MAX);
        self.present = None;
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

/// Who meets on a new connection.
struct Parties {
    channel: Channel,
    /// Dials.
    higher: ServerId,
    /// Listens.
    lower: ServerId,
    /// Ours.
    secret: Option<PeerSecret>,
    nonce: u8,
}

impl Parties {
    fn of(link: &Link, with_secret: bool, nonce: u8) -> Self {
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
        let verdict = handshake::dialled(&mut end, ours, secret).await;
        end.outgoing.close();
        verdict.map(|()| self.lower).map_err(|refusal| refusal.to_string())
    }

    async fn accepted(&self, mut end: End, secret: Option<&PeerSecret>, nonce: u8) -> Result<ServerId, String> {
        let ours = |to| self.greeting(self.lower, to, secret, nonce);
        let is_peer = |id: ServerId| id != self.lower && (1..=3).contains(&id.0);
        let verdict = handshake::accepted(&mut end, self.channel, ours, is_peer, secret).await;
        end.outgoing.close();
        verdict.map_err(|refusal| refusal.to_string())
    }

    /// Our end of the connection.
    async fn ours(&self, end: End) -> Result<ServerId, String> {
        let secret = self.secret.as_ref();
        if self.higher == ME {
            self.dialled(end, secret, self.nonce).await
        } else {
            self.accepted(end, secret, self.nonce).await
        }
    }

    /// Both ends are servers. `cuts` says how many bytes travel at a time, and is what the other end sends afterwards.
    fn by_peer(&self, cuts: &[u8], theirs: Option<&PeerSecret>) -> Option<Vec<u8>> {
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

    /// The other end sends what it likes: bytes of its own, what it got from us, and what it recorded of servers that know
    /// the secret. What it sends behind a handshake that passed is returned.
    fn by_stranger(&self, script: &[u8]) -> Option<Vec<u8>> {
        let (near, far) = memory::connection();
        let mut verdict = None;
        {
            let mut ours = pin!(self.ours(near));
            let recorded = self.recorded();
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
        assert_eq!(self.again(&sent, 1), (verdict.clone(), got.clone(), far.outgoing.unread()), "byte by byte");
        assert_eq!(self.again(&sent, usize::MAX), (verdict.clone(), got, far.outgoing.unread()), "in one piece");
        assert!(self.secret.is_none() || verdict.is_err(), "a stranger got through");
        verdict.is_ok().then(|| far.outgoing.unread())
    }

    /// What our end makes of these bytes, what it says, and what it leaves unread.
    fn again(&self, bytes: &[u8], cut: usize) -> (Result<ServerId, String>, Vec<u8>, Vec<u8>) {
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

    /// What both ends say in a handshake that passes, with other random numbers: who dials, who listens.
    fn recorded(&self) -> (Vec<u8>, Vec<u8>) {
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

/// What a read brings at most: the room that a quorum link makes, and a step of this target.
const READ_BYTES_MAX: usize = 2 << 16;

/// Messages that wait in the inbox at most, when links go on reading.
const MESSAGES_MAX: usize = 4096;

/// How often a step is repeated that would fill the inbox.
const MANY: usize = 64;
