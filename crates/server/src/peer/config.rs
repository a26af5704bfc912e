//! The configuration of the links between servers. It has already been parsed and validated.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use pole_tree::Server;
use pole_types::{Membership, ServerId};

use super::codec::BATCH_BYTES_MAX;
use super::delay::Delays;
use super::secret::PeerSecret;
use crate::tls::{Live, PeerTls};

/// The configuration of the links of one server.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// The id of this server.
    pub me: ServerId,
    /// All servers of the ensemble and their parts.
    pub members: Membership,
    /// The addresses of all servers, possibly including this one.
    pub peers: BTreeMap<ServerId, PeerAddress>,
    /// Whether the members can change. Then servers that are not members may connect too, in order to join.
    pub changing: bool,
    /// The addresses to listen on.
    pub listen: Listen,
    /// Mutual TLS on both ports; `None` for plain TCP.
    pub tls: Option<Live<PeerTls>>,
    /// The shared secret of the ensemble, if there is one.
    pub secret: Option<PeerSecret>,
    /// Emulated delays (`pole.topology`), for tests and `pole up` only.
    pub delays: Option<Delays>,
    /// How long messages to observers wait for others at most.
    pub observer_delay: Duration,
    /// Limits on memory.
    pub limits: PeerLimits,
    /// Counters for the metrics.
    pub counters: Arc<PeerCounters>,
}

/// Counters of the ports for other servers.
#[derive(Debug, Default)]
pub struct PeerCounters {
    /// Connections that did not become a link.
    pub refused: AtomicU64,
    /// Of these, connections closed before the handshake because their address had opened too many.
    pub limited: AtomicU64,
    /// Of these, connections that claimed to be a server whose link is alive.
    pub kept: AtomicU64,
    /// Links closed because too much output was queued for a slow peer.
    pub slow: AtomicU64,
}

/// `server.N=host:quorum_port:election_port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// A host name, which is resolved at each attempt to connect, or an IP address.
    pub host: String,
    /// The port of [`pole_node::Channel::Quorum`].
    pub quorum_port: u16,
    /// The port of [`pole_node::Channel::Election`].
    pub election_port: u16,
}

impl From<&Server> for PeerAddress {
    fn from(server: &Server) -> Self {
        Self { host: server.host.clone(), quorum_port: server.quorum_port, election_port: server.election_port }
    }
}

/// The two addresses that this server listens on. Port 0 means any free port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// For [`pole_node::Channel::Quorum`].
    pub quorum: SocketAddr,
    /// For [`pole_node::Channel::Election`].
    pub election: SocketAddr,
}

/// Limits on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerLimits {
    /// The largest frame that is accepted. A batch has at most [`BATCH_BYTES_MAX`] bytes, or is a single transaction of
    /// at most `jute.maxbuffer` plus what validation adds. It grows with `jute.maxbuffer`, see
    /// [`PeerLimits::for_settings`].
    pub frame_bytes_max: usize,
    /// The largest output queue for a slow peer. Above it the link is closed, and the peer is synchronised from the log
    /// instead. A diff is queued at once and may be as large as `pole.diffRetainMb`, so it must fit, with room for
    /// proposals made meanwhile. Parts of a snapshot share one body and do not count.
    pub outgoing_bytes_max: usize,
}

impl PeerLimits {
    /// The limits for these values of `jute.maxbuffer` and `pole.diffRetainMb`, both in bytes.
    #[must_use]
    pub fn for_settings(max_buffer: usize, diff_retain_bytes: usize) -> Self {
        // Twice, because a transaction repeats paths and adds ACLs and numbers to the request. Lengths have 31 bits.
        let frame = max_buffer.saturating_mul(2).saturating_add(8 * BATCH_BYTES_MAX);
        // An old history may contain larger transactions, from a version without a limit. Memory is allocated only as
        // bytes arrive.
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

/// Why the links could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// Listening on a port failed.
    #[error(
        "cannot listen on the {channel} port {address}: {source}; is another server running there, or is the address not of this machine?"
    )]
    Listen {
        /// `quorum` or `election`.
        channel: &'static str,
        /// The address of the port.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl PeerError {
    /// Whether the port is in use by another process, which is exit code 6.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        match self {
            Self::Listen { source, .. } => source.kind() == io::ErrorKind::AddrInUse,
        }
    }
}

/// The largest transaction of an old history that can still be sent to other servers.
const OLD_TXN_BYTES_MAX: usize = 128 << 20;
