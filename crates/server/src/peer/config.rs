//! What the links are told at their start. Parsed elsewhere, once; here it is trusted.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use pole_election::ServerId;

use super::codec::BATCH_BYTES_MAX;
use super::delay::Delays;
use super::secret::PeerSecret;
use crate::tls::PeerTls;

/// The settings of the links of one server.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// This server.
    pub me: ServerId,
    /// All servers that vote; this one may be among them.
    pub peers: BTreeMap<ServerId, PeerAddress>,
    /// Where this server is dialled.
    pub listen: Listen,
    /// Mutual TLS on both ports, or plain TCP.
    pub tls: Option<PeerTls>,
    /// What all servers know and strangers do not.
    pub secret: Option<PeerSecret>,
    /// Emulated lines (`pole.topology`): for tests and `pole up` only.
    pub delays: Option<Delays>,
    /// Bounds.
    pub limits: PeerLimits,
    /// What strangers did, for the metrics.
    pub counters: Arc<PeerCounters>,
}

/// What happened at the ports for other servers.
#[derive(Debug, Default)]
pub struct PeerCounters {
    /// Connections that did not become a link.
    pub refused: AtomicU64,
    /// Those of them that were closed without a greeting, because their address had opened too many.
    pub limited: AtomicU64,
    /// Those of them that named a server whose link is alive.
    pub kept: AtomicU64,
    /// Links that were closed because too much waited for a slow peer.
    pub slow: AtomicU64,
}

/// `server.N=host:quorum_port:election_port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// A name, which is resolved anew at each dial, or an address.
    pub host: String,
    /// The port of [`pole_node::Channel::Quorum`].
    pub quorum_port: u16,
    /// The port of [`pole_node::Channel::Election`].
    pub election_port: u16,
}

/// The two addresses of this server. Port 0: any that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// For [`pole_node::Channel::Quorum`].
    pub quorum: SocketAddr,
    /// For [`pole_node::Channel::Election`].
    pub election: SocketAddr,
}

/// Bounds, each with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerLimits {
    /// The largest frame that is believed. A batch has at most [`BATCH_BYTES_MAX`], or a single transaction, which has
    /// at most `jute.maxbuffer` and what validation adds. A server with a larger `jute.maxbuffer` raises it:
    /// [`PeerLimits::for_settings`].
    pub frame_bytes_max: usize,
    /// The most that is kept for a peer that reads too slowly; above it the link is closed, and the peer is
    /// synchronised from the log instead. A difference is put in at once and may be as large as `pole.diffRetainMb`,
    /// so it must fit, with room for what is proposed meanwhile. Parts of a snapshot share one body and do not count.
    pub outgoing_bytes_max: usize,
}

impl PeerLimits {
    /// The bounds that go with `jute.maxbuffer` and `pole.diffRetainMb`, both in bytes.
    #[must_use]
    pub fn for_settings(max_buffer: usize, diff_retain_bytes: usize) -> Self {
        // Twice: a transaction repeats paths and adds ACLs and numbers to what the client sent. Lengths have 31 bits.
        let frame = max_buffer.saturating_mul(2).saturating_add(8 * BATCH_BYTES_MAX);
        // A history may hold larger transactions, of a version that did not limit them. Memory is taken as bytes arrive.
        let frame = frame.max(OLD_TXN_BYTES_MAX).min(i32::MAX as usize);
        let outgoing = diff_retain_bytes.saturating_add(64 << 20).saturating_add(frame);
        Self { frame_bytes_max: frame, outgoing_bytes_max: outgoing }
    }
}

impl Default for PeerLimits {
    fn default() -> Self {
        Self::for_settings(pole_jute::MAX_BUFFER_DEFAULT, 256 << 20)
    }
}

/// Why the links cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// A port cannot be listened on.
    #[error(
        "cannot listen on the {channel} port {address}: {source}; is another server running there, or is the address not of this machine?"
    )]
    Listen {
        /// `quorum` or `election`.
        channel: &'static str,
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

impl PeerError {
    /// Whether somebody else has the port: exit code 6.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        match self {
            Self::Listen { source, .. } => source.kind() == io::ErrorKind::AddrInUse,
        }
    }
}

/// The largest transaction of a history that is still sent to others.
const OLD_TXN_BYTES_MAX: usize = 128 << 20;
