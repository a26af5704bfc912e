//! The result of a run.

use std::collections::BTreeMap;

use super::Marks;

/// Counters of a run, and its failure if it failed.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The seed of the run.
    pub seed: u64,
    /// The first invariant violation.
    pub failure: Option<String>,
    /// The virtual time that passed, in nanoseconds.
    pub virtual_ns: u64,
    /// Steps of servers.
    pub steps: u64,
    /// Faults injected.
    pub faults: u64,
    /// Elections that ended with an established leader.
    pub elections: u64,
    /// Writes acknowledged to clients.
    pub writes: u64,
    /// Reads and syncs answered.
    pub reads: u64,
    /// Watch events that clients received.
    pub events: u64,
    /// Sessions that a leader expired.
    pub expired: u64,
    /// How often an answer was held back because the leader had not confirmed the session in time.
    pub held: u64,
    /// Transactions committed.
    pub committed: u64,
    /// Connections that clients lost, by reason.
    pub closed: BTreeMap<String, u64>,
    /// Connections lost although neither their server nor a quorum had a fault.
    pub unexcused: u64,
    /// `unexcused`, by reason.
    pub unexcused_by: BTreeMap<String, u64>,
    /// From the end of all faults until all servers served again, in nanoseconds.
    pub recovered_after: u64,
    /// Messages sent between servers, by name.
    pub messages: BTreeMap<&'static str, u64>,
    /// Rare branches that were hit.
    pub marks: Marks,
}
