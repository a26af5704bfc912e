//! What the admin port takes. An unknown field is refused.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// `PUT /v1/oracle`: the oracle of the whole ensemble.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ChooseOracle {
    /// Its name, or a short form with a parameter such as `latency/10ms`.
    pub name: String,
    /// Its parameters.
    #[serde(default)]
    pub params: Option<BTreeMap<String, Param>>,
}

/// The value of a parameter: a text, or a number that means the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Param {
    /// A text.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// Any other number.
    Real(f64),
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Whole(number) => number.fmt(f),
            Self::Real(number) => number.fmt(f),
        }
    }
}

/// `PUT /v1/score`: the score that a probe gives this server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SetScore {
    /// Higher is better.
    pub value: f64,
    /// For how long it counts, in milliseconds; 30 s if not given.
    #[serde(default)]
    pub ttl_ms: Option<u64>,
}

/// `PUT /v1/members`: changes the members of the ensemble.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ChangeMembers {
    /// Servers to add, or to replace: lines as in the configuration, `server.4=host:2888:3888:observer;2181`.
    pub join: Vec<String>,
    /// The ids of servers to remove.
    pub leave: Vec<u64>,
    /// The version of the members that the change is meant for; any if not given.
    pub version: Option<String>,
}

/// `POST /v1/transfer`: hands leadership over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Transfer {
    /// The next leader; the server with the best score if not given.
    pub to: Option<u64>,
    /// How long to wait for it, in milliseconds; 5 s if not given.
    pub timeout_ms: Option<u64>,
}
