//! What a run has to say.

use std::collections::BTreeMap;

use super::Marks;

/// The figures of a run, and its failure if it failed.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What went wrong first.
    pub failure: Option<String>,
    /// How much virtual time passed, in nanoseconds.
    pub virtual_ns: u64,
    /// Steps of servers.
    pub steps: u64,
    /// Faults injected.
    pub faults: u64,
    /// Elections that ended with an established leader.
    pub elections: u64,
    /// Writes that clients know to be done.
    pub writes: u64,
    /// Reads and syncs answered.
    pub reads: u64,
    /// Events of watches that clients heard.
    pub events: u64,
    /// Sessions that a leader ended.
    pub expired: u64,
    /// How often a client had to wait because it must not be told that all is well.
    pub held: u64,
    /// Transactions committed.
    pub committed: u64,
    /// Connections that clients lost, by reason.
    pub closed: BTreeMap<String, u64>,
    /// Connections lost although their server had met no fault and kept its quorum.
    pub unexcused: u64,
    /// The same, by reason.
    pub unexcused_by: BTreeMap<String, u64>,
    /// From the end of the faults until everything served again, in nanoseconds.
    pub healed_after: u64,
    /// Messages sent between servers, by name.
    pub messages: BTreeMap<&'static str, u64>,
    /// Rare branches.
    pub marks: Marks,
}
