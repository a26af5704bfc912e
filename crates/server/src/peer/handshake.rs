//! The first bytes of a connection: who speaks to whom, on which channel, in which version.
//!
//! In: what the other end sent. Out: its id, or a [`Refusal`] that says what to do.
//! Why: whoever reaches a port may send anything; nothing reaches the node before this has passed.
//! How: the end that dials speaks first, the other answers with the same record of itself, also when it refuses. So each
//! end finds out by itself, and can name, what does not fit. Last the end that dials says that it goes on: a process
//! that was frozen finds greetings of connections that were given up long ago, and none may replace a living one.
//! Holds: magic and version come first and never move, so that any two versions can name each other.
//! Source: ZAB.md, scenario 19 (short, random and oddly encoded bytes on the election port).

use pole_election::ServerId;
use pole_node::Channel;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What an end says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) channel: Channel,
    pub(super) from: ServerId,
    pub(super) to: ServerId,
    /// Of the ids of all voters: ensembles must not mix.
    pub(super) ensemble: u64,
}

/// Why a connection did not become a link.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("expected the greeting of a Pole server, got the bytes {got:02x?}: not a server, or the wrong port")]
    Magic { got: [u8; MAGIC.len()] },
    #[error("speaks version {theirs} of the links between servers, this server speaks {ours}: run releases that agree")]
    Version { theirs: u16, ours: u16 },
    #[error("greets on channel {got}, expected {expected} ({name}): quorum and election ports are mixed up")]
    Channel { got: u8, expected: u8, name: &'static str },
    #[error("is a server {from} that looks for server {to}, but this is server {me}: check the server list and myid")]
    NotMe { from: ServerId, to: ServerId, me: ServerId },
    #[error("answers as server {got}, expected server {expected}: check the server list and the other's myid")]
    NotThem { got: ServerId, expected: ServerId },
    #[error("names itself server {from}, which is not in the server list here")]
    Stranger { from: ServerId },
    #[error("is server {from}, which should wait to be dialled: the higher id dials, and this is server {me}")]
    Direction { from: ServerId, me: ServerId },
    #[error("is server {from} of an ensemble of other servers: compare the server lists of both")]
    Ensemble { from: ServerId },
    #[error("is server {from}, which greets and then sends {got:#04x}, expected {GO_ON:#04x}: damaged")]
    GoesOn { from: ServerId, got: u8 },
    #[error("said nothing complete for {limit_ms} ms")]
    Silent { limit_ms: u128 },
    #[error("is not who it says: {0}")]
    Certificate(#[from] crate::tls::Error),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl Greeting {
    pub(super) fn to_bytes(self) -> [u8; GREETING_BYTES] {
        self.in_version(VERSION)
    }

    fn in_version(self, version: u16) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&version.to_be_bytes());
        bytes[6] = channel_byte(self.channel);
        bytes[7..15].copy_from_slice(&self.from.0.to_be_bytes());
        bytes[15..23].copy_from_slice(&self.to.0.to_be_bytes());
        bytes[23..].copy_from_slice(&self.ensemble.to_be_bytes());
        bytes
    }

    /// What the other end sent on a connection of this channel.
    async fn read(stream: &mut (impl AsyncRead + Unpin), channel: Channel) -> Result<Self, Refusal> {
        let mut head = [0; HEAD_BYTES];
        stream.read_exact(&mut head).await?;
        let [magic @ .., high, low] = head;
        if magic != MAGIC {
            return Err(Refusal::Magic { got: magic });
        }
        let theirs = u16::from_be_bytes([high, low]);
        if theirs != VERSION {
            return Err(Refusal::Version { theirs, ours: VERSION });
        }
        let (got, expected) = (stream.read_u8().await?, channel_byte(channel));
        if got != expected {
            let name = match channel {
                Channel::Election => "election",
                Channel::Quorum => "quorum",
            };
            return Err(Refusal::Channel { got, expected, name });
        }
        let (from, to) = (ServerId(stream.read_u64().await?), ServerId(stream.read_u64().await?));
        Ok(Self { channel, from, to, ensemble: stream.read_u64().await? })
    }
}

/// The end that dials: `ours` goes out, and the answer must fit it.
pub(super) async fn dialled(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), ours: Greeting) -> Result<(), Refusal> {
    stream.write_all(&ours.to_bytes()).await?;
    stream.flush().await?;
    let theirs = Greeting::read(stream, ours.channel).await?;
    if theirs.from != ours.to {
        return Err(Refusal::NotThem { got: theirs.from, expected: ours.to });
    }
    fits(theirs, ours)?;
    stream.write_u8(GO_ON).await?;
    Ok(stream.flush().await?)
}

/// The end that listens: reads a greeting, answers it, returns who is there.
pub(super) async fn accepted(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ours: impl Fn(ServerId) -> Greeting,
    is_peer: impl Fn(ServerId) -> bool,
) -> Result<ServerId, Refusal> {
    let channel = ours(NOBODY).channel;
    let read = Greeting::read(stream, channel).await;
    let from = match &read {
        Ok(theirs) => theirs.from,
        // Something that is no server gets no answer.
        Err(Refusal::Magic { .. } | Refusal::Io(_)) => return read.map(|theirs| theirs.from),
        Err(_) => NOBODY,
    };
    let ours = ours(from);
    stream.write_all(&ours.to_bytes()).await?;
    stream.flush().await?;
    let theirs = read?;
    fits(theirs, ours)?;
    if !is_peer(from) {
        return Err(Refusal::Stranger { from });
    }
    if from < ours.from {
        return Err(Refusal::Direction { from, me: ours.from });
    }
    match stream.read_u8().await? {
        GO_ON => Ok(from),
        got => Err(Refusal::GoesOn { from, got }),
    }
}

fn fits(theirs: Greeting, ours: Greeting) -> Result<(), Refusal> {
    if theirs.to != ours.from {
        return Err(Refusal::NotMe { from: theirs.from, to: theirs.to, me: ours.from });
    }
    if theirs.ensemble != ours.ensemble {
        return Err(Refusal::Ensemble { from: theirs.from });
    }
    Ok(())
}

/// A fingerprint of the ensemble: FNV-1a over the ids of its voters, in order.
pub(super) fn ensemble(voters: impl IntoIterator<Item = ServerId>) -> u64 {
    let mut ids: Vec<u64> = voters.into_iter().map(|id| id.0).collect();
    ids.sort_unstable();
    let bytes = ids.iter().flat_map(|id| id.to_be_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn channel_byte(channel: Channel) -> u8 {
    match channel {
        Channel::Election => 1,
        Channel::Quorum => 2,
    }
}

const MAGIC: [u8; 4] = *b"Pole";

/// The version of greeting and frames. A change of any byte of either is a new one.
pub(super) const VERSION: u16 = 2;

const HEAD_BYTES: usize = MAGIC.len() + 2;

pub(super) const GREETING_BYTES: usize = 31;

/// The last byte of the handshake, from the end that dials.
pub(super) const GO_ON: u8 = 0x06;

/// No server has this id: ids are from 1.
const NOBODY: ServerId = ServerId(0);

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting(from: u64, to: u64) -> Greeting {
        let ensemble = ensemble([1, 2, 3].map(ServerId));
        Greeting { channel: Channel::Election, from: ServerId(from), to: ServerId(to), ensemble }
    }

    fn going_on(greeting: Greeting) -> Vec<u8> {
        [&greeting.to_bytes()[..], &[GO_ON]].concat()
    }

    /// What server 1 says to these bytes, and what it answers.
    async fn at_server_1(bytes: &[u8]) -> (Result<ServerId, String>, Vec<u8>) {
        let (mut near, mut far) = tokio::io::duplex(1024);
        far.write_all(bytes).await.expect("room");
        far.shutdown().await.expect("open");
        let verdict = accepted(&mut near, |to| greeting(1, to.0), |id| (2..=3).contains(&id.0)).await;
        drop(near);
        let mut answer = Vec::new();
        far.read_to_end(&mut answer).await.expect("readable");
        (verdict.map_err(|refusal| refusal.to_string()), answer)
    }

    #[test]
    fn the_bytes_of_a_greeting_are_fixed() {
        let bytes = Greeting { ensemble: 0x0a0b, ..greeting(3, 1) }.to_bytes();
        let expected = b"Pole\x00\x01\x01\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\x0a\x0b";
        assert_eq!(&bytes, expected);
    }

    #[tokio::test]
    async fn a_peer_is_let_in_and_answered() {
        let (verdict, answer) = at_server_1(&going_on(greeting(3, 1))).await;
        assert_eq!((verdict, answer), (Ok(ServerId(3)), greeting(1, 3).to_bytes().to_vec()));
    }

    #[tokio::test]
    async fn another_version_is_refused_with_both_versions_and_told_ours() {
        let (verdict, answer) = at_server_1(&greeting(3, 1).in_version(7)).await;
        let said = verdict.expect_err("refused");
        assert!(said.contains("speaks version 7") && said.contains("this server speaks 1"), "{said}");
        assert_eq!(answer, greeting(1, 0).to_bytes());
    }

    #[tokio::test]
    async fn what_is_no_greeting_is_refused_without_an_answer() {
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"ruok", b"", b"Pol", &[0xff; 100]] {
            let (verdict, answer) = at_server_1(bytes).await;
            assert!(verdict.is_err(), "{bytes:?}");
            assert_eq!(answer, [0; 0], "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn every_truncation_of_a_greeting_is_refused() {
        let bytes = going_on(greeting(3, 1));
        for length in 0..bytes.len() {
            assert!(at_server_1(&bytes[..length]).await.0.is_err(), "{length}");
        }
    }

    #[tokio::test]
    async fn ids_that_do_not_fit_are_refused() {
        let other = Greeting { ensemble: 1, ..greeting(3, 1) };
        let wrong_port = Greeting { channel: Channel::Quorum, ..greeting(3, 1) };
        for (bytes, said) in [
            (greeting(3, 2).to_bytes(), "looks for server 2"),
            (greeting(9, 1).to_bytes(), "not in the server list"),
            (greeting(1, 1).to_bytes(), "not in the server list"),
            (other.to_bytes(), "an ensemble of other servers"),
            (wrong_port.to_bytes(), "mixed up"),
        ] {
            let refusal = at_server_1(&bytes).await.0.expect_err(said);
            assert!(refusal.contains(said), "{refusal}");
        }
    }
}
