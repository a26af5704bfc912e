//! What the admin port answers.
//!
//! Ids of servers are numbers, zxids are hexadecimal texts as ZooKeeper's tools print them, durations are milliseconds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// `GET /v1/health`: the state of one server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Health {
    /// The server that answers.
    pub id: u64,
    /// `leader`, `follower`, `looking`, `read-only` or `standalone`.
    pub mode: String,
    /// The leader, if there is one with a quorum.
    pub leader: Option<u64>,
    /// The epoch of the leader, or the last one.
    pub epoch: u32,
    /// The last transaction applied here.
    pub zxid: String,
    /// Whether there is a leader with a quorum.
    pub quorum: bool,
    /// The release of the server.
    pub version: String,
}

/// `GET /v1/ensemble`: all servers, as far as the server that answers knows them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Ensemble {
    /// The leader, if there is one with a quorum.
    pub leader: Option<u64>,
    /// The epoch of the leader, or the last one.
    pub epoch: u32,
    /// What makes a good leader.
    pub oracle: OracleInForce,
    /// All servers: those that vote, then observers, each by id.
    pub servers: Vec<Server>,
    /// Which failures the ensemble survives.
    pub quorum: Quorum,
}

/// Which failures an ensemble survives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Quorum {
    /// The servers that vote.
    pub voters: Vec<u64>,
    /// The number of servers that may fail, in addition to those that are down, in any combination.
    pub survives: u64,
    /// The fewest servers whose failure would end it; empty if there is no quorum.
    pub fatal: Vec<u64>,
}

/// `GET /v1/oracle`: the oracle that the ensemble uses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OracleInForce {
    /// The name by which it was chosen.
    pub name: String,
    /// The transaction that chose it; `0x0` if it comes from the configuration.
    pub version: String,
    /// Its parameters.
    pub params: BTreeMap<String, String>,
}

/// One server of an ensemble.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Server {
    /// Its id.
    pub id: u64,
    /// Where it stands, if that is configured.
    pub site: Option<String>,
    /// `leader`, `follower`, `looking`, `read-only` or `standalone`; null if it does not answer.
    pub mode: Option<String>,
    /// The end of its history, if it ever reported one.
    pub zxid: Option<String>,
    /// The round trips that it measured, in milliseconds, by server.
    pub rtt_ms: BTreeMap<u64, f64>,
    /// Writes of its clients per second.
    pub write_rate: Option<f64>,
    /// The median of its writes to the log, in milliseconds, if it ever reported one.
    pub fsync_p50_ms: Option<f64>,
    /// The 99th percentile of the same.
    pub fsync_p99_ms: Option<f64>,
    /// The bandwidth to and from other servers where a bulk transfer was measured, in megabits per second.
    pub bandwidth_mbit: BTreeMap<u64, f64>,
    /// By how much earlier its clients are answered because it counts acknowledgements itself instead of waiting for the
    /// leader to announce a commit, in milliseconds; null if it does not.
    pub direct_saving_ms: Option<f64>,
    /// Whether it answers.
    pub alive: bool,
}

/// `GET /v1/scores`: how well each server would lead, by every oracle.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Scores {
    /// The oracle in force.
    pub active: String,
    /// `before-resignation` (the leader would stay as a follower) or `after-crash` (it would be gone).
    pub kind: String,
    /// The scores, by the name of the oracle.
    pub oracles: BTreeMap<String, OracleScores>,
}

/// The scores of all servers by one oracle.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OracleScores {
    /// `lower` or `higher`.
    pub better: String,
    /// The unit of the scores, such as `ms`.
    pub unit: String,
    /// The server that would be elected.
    pub winner: Option<u64>,
    /// The scores, by server.
    pub servers: BTreeMap<u64, ServerScore>,
}

/// The score of one server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ServerScore {
    /// The score; null while too little is measured.
    pub score: Option<f64>,
    /// Whether there is a score.
    pub known: bool,
    /// The measurements behind it; names end with their unit.
    pub inputs: BTreeMap<String, f64>,
}

/// One element of `GET /v1/election`: an election or a hand-over, as the server that answers saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Election {
    /// The epoch that it opened, or would have.
    pub epoch: u64,
    /// When it began, in milliseconds since 1970.
    pub at_ms: i64,
    /// `start`, `leader-lost`, `quorum-lost`, `resigned`, `transfer` or `retry`.
    pub cause: String,
    /// The oracle that scored the winner; null for a hand-over.
    pub oracle: Option<String>,
    /// The unit of its scores; empty if they have none or the oracle is not known.
    pub unit: String,
    /// `lower` or `higher`; empty if the oracle is not known.
    pub better: String,
    /// The transaction that chose the oracle.
    pub oracle_version: Option<String>,
    /// The servers that took part.
    pub participants: Vec<u64>,
    /// The candidates, best first.
    pub proposals: Vec<Proposal>,
    /// Rounds before this one that chose a leader who could not lead.
    pub failed_rounds: u32,
    /// The chosen leader.
    pub winner: Option<u64>,
    /// What decided; null for a hand-over, which the previous leader decided.
    pub decided_by: Option<String>,
    /// The second best.
    pub runner_up: Option<u64>,
    /// By how much the winner was better, in the unit of the oracle; null if no number decided.
    pub margin: Option<f64>,
    /// What happened when.
    pub steps: Vec<Step>,
    /// `open`, `established` or `failed`.
    pub ended: String,
    /// Why it failed; else empty.
    pub reason: String,
    /// What happened, in a few words.
    pub headline: String,
    /// Why it was called and what decided, in sentences.
    pub explanation: String,
}

/// A candidate in an election.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Proposal {
    /// The candidate.
    pub id: u64,
    /// Its score; null if it had none, or by an oracle unknown here.
    pub score: Option<f64>,
    /// Whether it had a score.
    pub known: bool,
    /// The end of its history.
    pub zxid: String,
    /// Whether it was able to lead, as far as was known.
    pub able: bool,
    /// The measurements behind its score; names end with their unit.
    pub inputs: BTreeMap<String, f64>,
}

/// A step of an election.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Step {
    /// Its name.
    pub step: String,
    /// Milliseconds since the beginning.
    pub ms: f64,
}

/// The answer to `PUT /v1/oracle`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OracleChosen {
    /// The transaction that chose it.
    pub version: String,
}

/// The answer to `POST /v1/transfer`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Transferred {
    /// The leader now.
    pub leader: u64,
    /// How long writes waited, in milliseconds.
    pub pause_ms: f64,
}

/// The members of the ensemble: the answer to `GET` and `PUT /v1/members`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Members {
    /// The transaction that set them; `0x0` if they come from the configuration file.
    pub version: String,
    /// Whether they can be changed at run time (`reconfigEnabled`).
    pub changeable: bool,
    /// All members, sorted by id; none if the server stands alone.
    pub members: Vec<Member>,
}

/// A member of the ensemble.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Member {
    /// Its id.
    pub id: u64,
    /// `participant` if it votes, or `observer`.
    pub role: String,
    /// Its line in the configuration, without the key: `host:quorumPort:electionPort:role;address:clientPort`.
    pub line: String,
    /// The weight of its vote; none if it does not vote.
    pub weight: Option<u32>,
    /// The group that its vote belongs to, if there are groups.
    pub group: Option<u64>,
}

/// The answer to every request that is refused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Refusal {
    /// A sentence for people.
    pub error: String,
    /// A code for programs: `bad-value`, `no-quorum`, `not-found`, `denied`, `timeout` or `conflict`.
    pub code: String,
}
