//! What a server tells the others in each measurement heartbeat.
//!
//! Not here: its bytes on the wire (`node`). A report comes from a peer: `Measurements::hear` clamps what it must.

use alloc::collections::BTreeMap;

use pole_election::{Rank, ServerId, Span, Standing, Zxid};

/// One server's heartbeat: what it measured, where it stands, how it ranks itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Report {
    /// Write requests of its own clients, in thousandths a second (θr).
    pub rate_milli: u64,
    /// Where it stands in the agreement.
    pub standing: Standing,
    /// The bytes that would bring each peer level with it: of its log where that reaches back so far, else of a
    /// snapshot. Only who holds the log can tell; no count of bytes is the same on two servers for long.
    pub lacking: BTreeMap<ServerId, u64>,
    /// Bytes a second to and from each peer, where a bulk transfer has shown them.
    pub bandwidths: BTreeMap<ServerId, u64>,
    /// Its own smoothed round trips, by peer (RTT_i). They say who is nearest to it once it is gone.
    pub round_trips: BTreeMap<ServerId, Span>,
    /// The median of its fsyncs: what a write usually waits for its disk.
    pub fsync_p50: Span,
    /// The 99th percentile of its fsyncs: for timeouts.
    pub fsync_p99: Span,
    /// Its rank in an election after the leader's crash.
    pub after_crash: Gossip,
    /// Its rank if the leader resigned.
    pub before_resignation: Gossip,
}

/// A rank, and under which configuration it was made: ranks of different oracles are not compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gossip {
    /// The server's rank by its own measurements.
    pub rank: Rank,
    /// The version of the oracle configuration: zxid of its committed transaction, zero = from files.
    pub version: Zxid,
    /// The oracle and its parameters, see `Oracle::fingerprint`.
    pub fingerprint: u64,
}

impl Gossip {
    /// The word that there is no rank yet.
    #[must_use]
    pub fn unknown(version: Zxid, fingerprint: u64) -> Self {
        Self { rank: Rank::Unknown, version, fingerprint }
    }
}
