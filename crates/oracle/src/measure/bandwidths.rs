//! The bandwidth to each peer, measured from bulk transfers: the median of the last few.
//!
//! It is measured because TCP achieves about window / round trip, which is not known from any configuration. Small
//! transfers are ignored, since they measure the round trip rather than the line. The bandwidth assumed before the
//! first transfer is in `View`.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use pole_types::{ServerId, Span};

/// The last bulk transfers to and from each peer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bandwidths {
    /// Bytes per second, newest last.
    peers: BTreeMap<ServerId, VecDeque<u64>>,
}

impl Bandwidths {
    /// Records a transfer of `bytes` that took `took` from its first byte to its last.
    pub fn record(&mut self, peer: ServerId, bytes: u64, took: Span) {
        if bytes < BULK_BYTES || took == Span::ZERO {
            return;
        }
        let window = self.peers.entry(peer).or_default();
        if window.len() == WINDOW {
            window.pop_front();
        }
        let speed = u128::from(bytes) * 1_000_000_000 / u128::from(took.0);
        window.push_back(u64::try_from(speed).unwrap_or(u64::MAX));
    }

    /// All known bandwidths, in bytes per second.
    #[must_use]
    pub fn all(&self) -> BTreeMap<ServerId, u64> {
        self.peers.keys().filter_map(|peer| Some((*peer, self.bytes_per_s(*peer)?))).collect()
    }

    /// The bandwidth to `peer` in bytes per second, or None if there was no bulk transfer. It does not become stale: a
    /// path keeps its bandwidth longer than a link keeps its connection.
    #[must_use]
    pub fn bytes_per_s(&self, peer: ServerId) -> Option<u64> {
        let mut sorted: Vec<u64> = self.peers.get(&peer)?.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }
}

/// The number of transfers kept per peer. The median of five tolerates two that competed with other traffic.
const WINDOW: usize = 5;

/// Below this size a transfer fits into the first TCP windows, and its time is mostly the round trip.
const BULK_BYTES: u64 = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_the_last_transfers_counts_and_small_ones_do_not() {
        let (mut bandwidths, peer) = (Bandwidths::default(), ServerId(2));
        bandwidths.record(peer, 1_000, Span::from_ms(20));
        assert_eq!(bandwidths.bytes_per_s(peer), None);
        for ms in [100, 100, 5_000, 100, 1] {
            bandwidths.record(peer, 1_000_000, Span::from_ms(ms));
        }
        assert_eq!(bandwidths.bytes_per_s(peer), Some(10_000_000));
    }
}
