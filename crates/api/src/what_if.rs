//! Which change would make another server the best leader.

use serde::{Deserialize, Serialize};

/// `GET /v1/whatif`: by the oracle in force, with the measurements of now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WhatIfs {
    /// The oracle in force.
    pub oracle: String,
    /// The server with the best score now; null while too little is measured.
    pub best: Option<u64>,
    /// The changes, least first. Empty if none that is less than twentyfold would do, or the oracle measures nothing.
    pub changes: Vec<WhatIf>,
}

/// A change after which another server would have the best score.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WhatIf {
    /// `rate`: the clients of these servers together write more or less. `round-trip`: the link between two servers is
    /// slower or faster.
    pub kind: String,
    /// The servers.
    pub servers: Vec<u64>,
    /// Their site, if they are all the servers of one.
    pub site: Option<String>,
    /// The value now.
    pub from: f64,
    /// The value from which on the other server would be best.
    pub to: f64,
    /// `1/s` or `ms`.
    pub unit: String,
    /// The server that would be best.
    pub winner: u64,
}
