//! What a store promises, as data: printed by `pole-elect status` and checked by the election at its start.

use std::time::Duration;

/// The promises of a store and their limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promises {
    /// The name of the store, as in its URL.
    pub store: &'static str,
    /// Whether a read sees every change that was acknowledged before it.
    pub linearizable_reads: bool,
    /// Whose clock decides that a lease has expired.
    pub judge: Judge,
    /// Whether a swap checks leases in the same transaction. If not, the adapter uses that a lease that is gone stays
    /// gone; see [`crate::store`].
    pub transactions: bool,
    /// When acknowledged changes can be lost, so that revisions and tokens go back.
    pub can_go_back: GoesBack,
    /// The shortest time-to-live that the store grants.
    pub ttl_min: Duration,
    /// The longest time-to-live that the store grants.
    pub ttl_max: Duration,
    /// How much earlier than the granted time a lease may end, because the time of the last renewal is known to only
    /// one server of the store. Subtracted from every deadline.
    pub early: Duration,
    /// The latest end of an abandoned lease, in multiples of its granted time, rounded up (Consul: 2).
    pub late_factor: u32,
    /// A further time after the end of a lease until the take-over can succeed (ZooKeeper: a tick).
    pub late: Duration,
    /// What else an operator must know, one sentence.
    pub note: &'static str,
}

/// The clock that decides about the end of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Judge {
    /// One clock of the store, or of its leader, that measures spans.
    StoreMonotonic,
    /// The wall clock of the server. If it is set forward, leases end early by as much.
    StoreWall,
    /// Each client, which waits for the whole time without a renewal before it takes over.
    Clients,
}

/// When a store can lose what it acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GoesBack {
    /// Only if an operator restores a backup or recreates the storage.
    Restore,
    /// Also when a replica takes over that did not have everything (asynchronous replication).
    Failover,
    /// Also when the server restarts.
    Restart,
}
