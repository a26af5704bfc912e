//! The handshake of a connection between servers: who connects to whom, on which channel, in which version.
//!
//! Anyone who can reach a port may send anything, so nothing reaches the node before the handshake has succeeded. It
//! yields the id of the other end, or a [`Refusal`] that tells the operator what to do.
//!
//! The dialling end sends its greeting first. The listening end answers with its own, even if it refuses, so that each
//! end can detect and name what does not match. Finally the dialling end confirms that it proceeds: a process that was
//! suspended finds greetings of connections that were abandoned long ago, and those must not replace a live one.
//!
//! ```text
//! dials                                       listens
//!   greeting ─────────────────────────────────>
//!   <───────────────────────────────── greeting, with a secret: its proof
//!   proceed, with a secret: its proof ────────>
//! ```
//!
//! Magic and version come first in all versions, so that any two versions can identify each other. Short, random
//! and oddly encoded bytes are scenario 19 of `docs/scenarios.md`.

use pole_node::Channel;
use pole_types::ServerId;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::secret::{NONCE_BYTES, PROOF_BYTES, PeerSecret, Side};

/// The greeting of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The channel of the connection.
    pub channel: Channel,
    /// The id of the sender.
    pub from: ServerId,
    /// The id of the intended receiver.
    pub to: ServerId,
    /// The fingerprint of the ensemble, see [`ensemble`]. Servers of different ensembles must not connect.
    pub ensemble: u64,
    /// Whether the sender proves that it knows the secret, and requires the same of the other end.
    pub secret: bool,
    /// A random number, so that a proof is valid for one connection only.
    pub nonce: [u8; NONCE_BYTES],
}

/// What a server is to the one that it connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A member of the ensemble. The one with the higher id dials.
    Member,
    /// Not a member, but allowed to follow so that it can become one. Nobody knows its address, so it dials.
    Joining,
    /// Not allowed to connect.
    Stranger,
}

/// Why a connection did not become a link.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error messages document the variants")]
pub enum Refusal {
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
    #[error("is server {from}, which declines the connection; its log says why")]
    Declined { from: ServerId },
    #[error("names itself server {from}, which is not in the server list here")]
    Stranger { from: ServerId },
    #[error("is server {from}, which should wait to be dialled: the higher id dials, and this is server {me}")]
    Direction { from: ServerId, me: ServerId },
    #[error("is server {from} of an ensemble of other servers: compare the server lists and reconfigEnabled of both")]
    Ensemble { from: ServerId },
    #[error(
        "is server {from}, which {theirs} a secret, while this server {ours} one: set pole.peer.secret on all or on none"
    )]
    SecretOnOneSide { from: ServerId, theirs: &'static str, ours: &'static str },
    #[error("names itself server {from} and does not know the secret: a stranger, or pole.peer.secret differs")]
    Secret { from: ServerId },
    #[error("is server {from}, which greets and then sends {got:#04x}, expected {PROCEED:#04x}: damaged")]
    NotProceeding { from: ServerId, got: u8 },
    #[error("names itself server {from}, whose link is alive: a stranger, or two servers with one id")]
    Alive { from: ServerId },
    #[error("comes from an address that opens too many connections")]
    TooMany,
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
        bytes[23..31].copy_from_slice(&self.ensemble.to_be_bytes());
        bytes[31] = u8::from(self.secret);
        bytes[32..].copy_from_slice(&self.nonce);
        bytes
    }

    /// Reads the greeting of the other end on a connection of this channel.
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
        let (ensemble, secret) = (stream.read_u64().await?, stream.read_u8().await? != 0);
        let mut nonce = [0; NONCE_BYTES];
        stream.read_exact(&mut nonce).await?;
        Ok(Self { channel, from, to, ensemble, secret, nonce })
    }
}

/// Performs the handshake of the dialling end: sends `ours` and checks the answer.
///
/// # Errors
/// If the other end does not match.
pub async fn dial(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ours: Greeting,
    secret: Option<&PeerSecret>,
) -> Result<(), Refusal> {
    stream.write_all(&ours.to_bytes()).await?;
    stream.flush().await?;
    let theirs = Greeting::read(stream, ours.channel).await?;
    if theirs.from != ours.to {
        return Err(Refusal::NotThem { got: theirs.from, expected: ours.to });
    }
    if theirs.to == NO_SERVER && theirs.to != ours.from {
        return Err(Refusal::Declined { from: theirs.from });
    }
    check_match(theirs, ours)?;
    let mut last = vec![PROCEED];
    if let Some(secret) = secret {
        let (dialled, listened) = (ours.to_bytes(), theirs.to_bytes());
        expect_proof(stream, secret, theirs.from, Side::Listens, (&dialled, &listened)).await?;
        last.extend(secret.proof(Side::Dials, &dialled, &listened));
    }
    stream.write_all(&last).await?;
    Ok(stream.flush().await?)
}

/// Performs the handshake of the listening end: reads a greeting, answers it, and returns the id of the other end.
/// Reads nothing beyond the handshake.
///
/// # Errors
/// If the other end is refused.
pub async fn accept(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    channel: Channel,
    ours: impl Fn(ServerId) -> Greeting,
    standing: impl Fn(ServerId) -> Standing,
    secret: Option<&PeerSecret>,
) -> Result<ServerId, Refusal> {
    let read = Greeting::read(stream, channel).await;
    let from = match &read {
        Ok(theirs) => theirs.from,
        // Whatever is not a server gets no answer.
        Err(Refusal::Magic { .. } | Refusal::Io(_)) => return read.map(|theirs| theirs.from),
        Err(_) => NO_SERVER,
    };
    let (greet, ours) = (&ours, ours(from));
    // The proof is sent only in answer to a valid greeting. Others learn only what does not match.
    let verdict = read.and_then(|theirs| check_peer(theirs, ours, standing(theirs.from)).map(|()| theirs));
    // All that a greeting tells may match, and the sender be refused nevertheless.
    let is_declined = matches!(verdict, Err(Refusal::Stranger { .. } | Refusal::Direction { .. }));
    let mut answer = if is_declined { greet(NO_SERVER) } else { ours }.to_bytes().to_vec();
    if let (Ok(theirs), Some(secret)) = (&verdict, secret) {
        answer.extend(secret.proof(Side::Listens, &theirs.to_bytes(), &ours.to_bytes()));
    }
    stream.write_all(&answer).await?;
    stream.flush().await?;
    let theirs = verdict?;
    match stream.read_u8().await? {
        PROCEED => {}
        got => return Err(Refusal::NotProceeding { from, got }),
    }
    if let Some(secret) = secret {
        let greetings = (&theirs.to_bytes(), &ours.to_bytes());
        expect_proof(stream, secret, from, Side::Dials, greetings).await?;
    }
    Ok(from)
}

/// Checks whether the sender of this greeting may be a peer.
fn check_peer(theirs: Greeting, ours: Greeting, standing: Standing) -> Result<(), Refusal> {
    check_match(theirs, ours)?;
    match standing {
        Standing::Stranger => Err(Refusal::Stranger { from: theirs.from }),
        Standing::Member if theirs.from < ours.from => Err(Refusal::Direction { from: theirs.from, me: ours.from }),
        Standing::Member | Standing::Joining => Ok(()),
    }
}

async fn expect_proof(
    stream: &mut (impl AsyncRead + Unpin),
    secret: &PeerSecret,
    from: ServerId,
    side: Side,
    (dialled, listened): (&[u8; GREETING_BYTES], &[u8; GREETING_BYTES]),
) -> Result<(), Refusal> {
    let mut proof = [0; PROOF_BYTES];
    stream.read_exact(&mut proof).await?;
    if secret.is_proof(&proof, side, dialled, listened) { Ok(()) } else { Err(Refusal::Secret { from }) }
}

fn check_match(theirs: Greeting, ours: Greeting) -> Result<(), Refusal> {
    if theirs.to != ours.from {
        return Err(Refusal::NotMe { from: theirs.from, to: theirs.to, me: ours.from });
    }
    if theirs.ensemble != ours.ensemble {
        return Err(Refusal::Ensemble { from: theirs.from });
    }
    if theirs.secret != ours.secret {
        let has = |secret| if secret { "has" } else { "has not" };
        let (theirs_has, ours_has) = (has(theirs.secret), has(ours.secret));
        return Err(Refusal::SecretOnOneSide { from: theirs.from, theirs: theirs_has, ours: ours_has });
    }
    Ok(())
}

/// The fingerprint of an ensemble: FNV-1a over the ids of its servers, in order.
#[must_use]
pub fn ensemble(members: impl IntoIterator<Item = ServerId>) -> u64 {
    let mut ids: Vec<u64> = members.into_iter().map(|id| id.0).collect();
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

/// The version of greetings and frames. It must change with any byte of either.
pub(super) const VERSION: u16 = 7;

const HEAD_BYTES: usize = MAGIC.len() + 2;

pub(super) const GREETING_BYTES: usize = 32 + NONCE_BYTES;

/// The last byte of the handshake without a secret, sent by the dialling end.
pub(super) const PROCEED: u8 = 0x06;

/// Not the id of any server, since ids start at 1.
const NO_SERVER: ServerId = ServerId(0);

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting(from: u64, to: u64) -> Greeting {
        let ensemble = ensemble([1, 2, 3].map(ServerId));
        let nonce = [7; NONCE_BYTES];
        Greeting { channel: Channel::Election, from: ServerId(from), to: ServerId(to), ensemble, secret: false, nonce }
    }

    fn with_proceed(greeting: Greeting) -> Vec<u8> {
        [&greeting.to_bytes()[..], &[PROCEED]].concat()
    }

    /// The result of server 1 for these bytes, and its answer.
    async fn at_server_1(bytes: &[u8]) -> (Result<ServerId, String>, Vec<u8>) {
        let (mut near, mut far) = tokio::io::duplex(1024);
        far.write_all(bytes).await.expect("room");
        far.shutdown().await.expect("open");
        let standing = |id: ServerId| match id.0 {
            2..=3 => Standing::Member,
            _ => Standing::Stranger,
        };
        let verdict = accept(&mut near, Channel::Election, |to| greeting(1, to.0), standing, None).await;
        drop(near);
        let mut answer = Vec::new();
        far.read_to_end(&mut answer).await.expect("readable");
        (verdict.map_err(|refusal| refusal.to_string()), answer)
    }

    #[test]
    fn the_bytes_of_a_greeting_are_fixed() {
        let bytes = Greeting { ensemble: 0x0a0b, ..greeting(3, 1) }.to_bytes();
        let expected = b"Pole\x00\x07\x01\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\x0a\x0b\0";
        assert_eq!(bytes[..32], *expected);
        assert_eq!(bytes[32..], [7; NONCE_BYTES]);
    }

    #[tokio::test]
    async fn a_peer_is_let_in_and_answered() {
        let (verdict, answer) = at_server_1(&with_proceed(greeting(3, 1))).await;
        assert_eq!((verdict, answer), (Ok(ServerId(3)), greeting(1, 3).to_bytes().to_vec()));
    }

    #[tokio::test]
    async fn another_version_is_refused_with_both_versions_and_tells_ours() {
        let (verdict, answer) = at_server_1(&greeting(3, 1).in_version(8)).await;
        let message = verdict.expect_err("refused");
        assert!(message.contains("speaks version 8") && message.contains("this server speaks 7"), "{message}");
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
        let bytes = with_proceed(greeting(3, 1));
        for length in 0..bytes.len() {
            assert!(at_server_1(&bytes[..length]).await.0.is_err(), "{length}");
        }
    }

    #[tokio::test]
    async fn ids_that_do_not_fit_are_refused() {
        let other = Greeting { ensemble: 1, ..greeting(3, 1) };
        let wrong_port = Greeting { channel: Channel::Quorum, ..greeting(3, 1) };
        for (bytes, message) in [
            (greeting(3, 2).to_bytes(), "looks for server 2"),
            (greeting(9, 1).to_bytes(), "not in the server list"),
            (greeting(1, 1).to_bytes(), "not in the server list"),
            (other.to_bytes(), "an ensemble of other servers"),
            (Greeting { secret: true, ..greeting(3, 1) }.to_bytes(), "set pole.peer.secret on all or on none"),
            (wrong_port.to_bytes(), "mixed up"),
        ] {
            let refusal = at_server_1(&bytes).await.0.expect_err(message);
            assert!(refusal.contains(message), "{refusal}");
        }
    }

    /// The results of server 1 and of server 3, which server 1 dials although its id is lower.
    async fn lower_dials(standing: Standing) -> (Result<(), String>, Result<ServerId, String>) {
        let (mut near, mut far) = tokio::io::duplex(1024);
        let listening = async {
            let verdict = accept(&mut near, Channel::Election, |to| greeting(3, to.0), |_| standing, None).await;
            drop(near);
            verdict
        };
        let (dialled, accepted) = tokio::join!(dial(&mut far, greeting(1, 3), None), listening);
        (dialled.map_err(|refusal| refusal.to_string()), accepted.map_err(|refusal| refusal.to_string()))
    }

    #[tokio::test]
    async fn a_server_that_joins_may_dial_those_above_it_and_a_member_is_declined_clearly() {
        assert_eq!(lower_dials(Standing::Joining).await, (Ok(()), Ok(ServerId(1))));
        for (standing, reason) in [(Standing::Member, "should wait to be dialled"), (Standing::Stranger, "not in the")]
        {
            let (dialled, accepted) = lower_dials(standing).await;
            assert!(dialled.as_ref().is_err_and(|why| why.contains("declines")), "{dialled:?}");
            assert!(accepted.as_ref().is_err_and(|why| why.contains(reason)), "{accepted:?}");
        }
    }

    /// The results of both ends with these secrets.
    async fn meet(dials: &PeerSecret, listens: &PeerSecret) -> (Result<(), String>, Result<ServerId, String>) {
        let (mut near, mut far) = tokio::io::duplex(1024);
        let with_secret = |from, to| Greeting { secret: true, nonce: [from as u8; NONCE_BYTES], ..greeting(from, to) };
        let standing = |id: ServerId| if id.0 == 3 { Standing::Member } else { Standing::Stranger };
        let listening = accept(&mut near, Channel::Election, |to| with_secret(1, to.0), standing, Some(listens));
        let dialling = async {
            let message = dial(&mut far, with_secret(3, 1), Some(dials)).await;
            drop(far);
            message
        };
        let (listening, dialling) = tokio::join!(listening, dialling);
        (dialling.map_err(|refusal| refusal.to_string()), listening.map_err(|refusal| refusal.to_string()))
    }

    #[tokio::test]
    async fn ends_that_know_the_same_secret_are_linked_and_others_are_not() {
        let (one, other) = (PeerSecret::new(b"0123456789abcdef"), PeerSecret::new(b"fedcba9876543210"));
        assert_eq!(meet(&one, &one).await, (Ok(()), Ok(ServerId(3))));
        let (dialling, listening) = meet(&other, &one).await;
        assert!(dialling.expect_err("refused").contains("does not know the secret"));
        assert!(listening.is_err(), "it is left without an answer");
    }

    #[tokio::test]
    async fn a_stranger_that_repeats_what_it_heard_is_refused() {
        let secret = PeerSecret::new(b"0123456789abcdef");
        let theirs = Greeting { secret: true, ..greeting(3, 1) };
        let ours =
            |nonce| move |to: ServerId| Greeting { secret: true, nonce: [nonce; NONCE_BYTES], ..greeting(1, to.0) };
        // A proof for another nonce of server 1, the proof of the other side, and none at all.
        let before = ours(1)(ServerId(3)).to_bytes();
        let now = ours(2)(ServerId(3)).to_bytes();
        for proof in [
            secret.proof(Side::Dials, &theirs.to_bytes(), &before),
            secret.proof(Side::Listens, &theirs.to_bytes(), &now),
            [0; PROOF_BYTES],
        ] {
            let (mut near, mut far) = tokio::io::duplex(1024);
            far.write_all(&[&theirs.to_bytes()[..], &[PROCEED], &proof].concat()).await.expect("room");
            let verdict = accept(&mut near, Channel::Election, ours(2), |_| Standing::Member, Some(&secret)).await;
            let message = verdict.expect_err("refused").to_string();
            assert!(message.contains("does not know the secret"), "{message}");
        }
    }
}
