//! Decides when to write a snapshot of our own state: after a number of transactions or bytes of log.
//!
//! As in Apache ZooKeeper, the limit in bytes is drawn anew for each snapshot, between half of the configured limit and
//! the limit, so that servers that log the same do not all write snapshots at the same time. The draw is a hash of this
//! server and its position, so that a simulation is reproducible.

use pole_types::Zxid;

use crate::Config;

/// The transactions applied since the last snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SinceCheckpoint {
    transactions: u64,
    bytes: u64,
    /// The position of the last snapshot.
    at: Zxid,
}

impl SinceCheckpoint {
    /// Starts counting at a snapshot at this position.
    pub(crate) fn after(at: Zxid) -> Self {
        Self { at, ..Self::default() }
    }

    pub(crate) fn count(&mut self, transactions: u64, bytes: u64) {
        self.transactions += transactions;
        self.bytes += bytes;
    }

    pub(crate) fn is_due(&self, config: &Config) -> bool {
        let is_large = config.snapshot_bytes.is_some_and(|limit| self.bytes > self.bytes_max(limit, config));
        self.transactions >= config.snapshot_every || is_large
    }

    /// The number of bytes that triggers this snapshot: at least half of `limit`, at most `limit`.
    fn bytes_max(&self, limit: u64, config: &Config) -> u64 {
        let half = limit / 2;
        half + mix(self.at.0 ^ config.me.0.rotate_left(48) ^ u64::from(config.incarnation).rotate_left(16))
            % half.max(1)
    }
}

/// Mixes all bits of a number (splitmix64).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use pole_types::{ServerId, Voters};

    use super::*;

    fn config(me: u64, limit: Option<u64>) -> Config {
        Config { snapshot_bytes: limit, ..Config::new(ServerId(me), Voters::new([ServerId(1), ServerId(2)])) }
    }

    #[test]
    fn a_snapshot_is_due_between_half_of_the_limit_and_the_limit() {
        for at in 1..200 {
            let mut since = SinceCheckpoint::after(Zxid(at));
            since.count(1, 500);
            assert!(!since.is_due(&config(1, Some(1000))));
            since.count(1, 500);
            assert!(since.is_due(&config(1, Some(1000))));
            assert!(!since.is_due(&config(1, None)));
        }
    }

    #[test]
    fn servers_draw_different_sizes() {
        let drawn = |me, at| SinceCheckpoint::after(Zxid(at)).bytes_max(1 << 20, &config(me, None));
        let differing = (1..=100).filter(|at| drawn(1, *at).abs_diff(drawn(2, *at)) > 1 << 14).count();
        assert!(differing > 80, "{differing}");
    }
}
