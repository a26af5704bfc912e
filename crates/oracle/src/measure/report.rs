//! The report that a server sends to the others in each measurement heartbeat.
//!
//! The encoding is in `node`. A report comes from a peer, so `Measurements::record_report` clamps its values.

use alloc::collections::BTreeMap;

use pole_election::{Rank, Standing};
use pole_types::{ServerId, Span, Zxid};

/// The heartbeat of one server: its measurements, its position in the history, and its own ranks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Report {
    /// Write requests of its own clients, in thousandths per second (θr).
    pub rate_milli: u64,
    /// Its position in the agreement.
    pub standing: Standing,
    /// The number of bytes that would bring each peer up to date with this server: of log if it reaches back far
    /// enough, otherwise of a snapshot. Only the server that has the log can tell, because byte counts differ between
    /// servers.
    pub lacking: BTreeMap<ServerId, u64>,
    /// Bytes per second to and from each peer, where a bulk transfer was measured.
    pub bandwidths: BTreeMap<ServerId, u64>,
    /// Its own smoothed round trips, by peer (RTT_i). They show who is nearest to it after it is gone.
    pub round_trips: BTreeMap<ServerId, Span>,
    /// The median of its fsync times, for scores.
    pub fsync_p50: Span,
    /// The 99th percentile of its fsync times, for timeouts.
    pub fsync_p99: Span,
    /// Its rank in an election after the leader's crash.
    pub after_crash: Gossip,
    /// Its rank if the leader resigned.
    pub before_resignation: Gossip,
}

/// A rank with the configuration that produced it, since ranks of different oracles are not compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gossip {
    /// The server's rank according to its own measurements.
    pub rank: Rank,
    /// The version of the oracle configuration: the zxid that committed it, or zero if it came from files.
    pub version: Zxid,
    /// The oracle and its parameters, see [`Oracle::fingerprint`](crate::Oracle::fingerprint).
    pub fingerprint: u64,
}

impl Gossip {
    /// Gossip without a rank.
    #[must_use]
    pub fn unknown(version: Zxid, fingerprint: u64) -> Self {
        Self { rank: Rank::Unknown, version, fingerprint }
    }
}
