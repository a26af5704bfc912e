//! The answers of the admin port that are formatted for people.
//!
//! Missing and null fields are treated as absent, and unknown fields are ignored: the command and the server may be
//! of different releases. `--json` prints the answer unchanged and does not use these types.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// `/v1/ensemble`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Ensemble {
    pub(crate) leader: Option<u64>,
    pub(crate) epoch: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) oracle: OracleInForce,
    #[serde(deserialize_with = "or_default")]
    pub(crate) servers: Vec<Server>,
}

/// The oracle that the ensemble uses.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OracleInForce {
    #[serde(deserialize_with = "or_default")]
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) params: BTreeMap<String, serde_json::Value>,
}

/// One server, as known to the server that answered.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Server {
    pub(crate) id: u64,
    pub(crate) site: Option<String>,
    pub(crate) mode: Option<String>,
    pub(crate) zxid: Option<String>,
    /// To each other server.
    #[serde(deserialize_with = "or_default")]
    pub(crate) rtt_ms: BTreeMap<u64, Option<f64>>,
    /// Writes of its clients per second.
    pub(crate) write_rate: Option<f64>,
    pub(crate) alive: Option<bool>,
}

/// `/v1/health`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Health {
    pub(crate) id: u64,
    pub(crate) leader: Option<u64>,
}

/// `/v1/scores`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Scores {
    #[serde(deserialize_with = "or_default")]
    pub(crate) oracles: BTreeMap<String, OracleScores>,
}

/// The scores of all servers by one oracle.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OracleScores {
    #[serde(deserialize_with = "or_default")]
    pub(crate) better: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) unit: String,
    pub(crate) winner: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) servers: BTreeMap<u64, ServerScore>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ServerScore {
    pub(crate) score: Option<f64>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) known: bool,
    /// The measurements behind the score.
    #[serde(deserialize_with = "or_default")]
    pub(crate) inputs: BTreeMap<String, f64>,
}

/// One element of `/v1/election`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Election {
    pub(crate) epoch: Option<u64>,
    pub(crate) at_ms: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) cause: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) oracle: String,
    pub(crate) oracle_version: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) participants: Vec<u64>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) proposals: Vec<Proposal>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) failed_rounds: u64,
    pub(crate) winner: Option<u64>,
    pub(crate) decided_by: Option<String>,
    pub(crate) runner_up: Option<u64>,
    pub(crate) margin: Option<f64>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) steps: Vec<Step>,
    pub(crate) ended: Option<String>,
    pub(crate) reason: Option<String>,
}

/// A candidate in an election.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Proposal {
    pub(crate) id: u64,
    pub(crate) score: Option<f64>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) known: bool,
    pub(crate) zxid: Option<String>,
    pub(crate) able: Option<bool>,
    /// The measurements behind the score.
    #[serde(deserialize_with = "or_default")]
    pub(crate) inputs: BTreeMap<String, f64>,
}

/// A step of an election, and the time since its start.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Step {
    #[serde(deserialize_with = "or_default")]
    pub(crate) step: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) ms: f64,
}

/// The answer to PUT `/v1/oracle`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OracleSet {
    #[serde(deserialize_with = "or_default")]
    pub(crate) version: String,
}

/// The answer to POST `/v1/transfer`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Transferred {
    pub(crate) leader: Option<u64>,
    pub(crate) pause_ms: Option<f64>,
}

/// The answer to any rejected request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Refusal {
    #[serde(deserialize_with = "or_default")]
    pub(crate) error: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) code: String,
}

/// Null counts as absent: a hand-over has no oracle and no proposals.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
