//! What the dashboard shows: the events of `GET /v1/events`, and the nodes of `GET /v1/nodes`.

use serde::{Deserialize, Serialize};

use crate::{Ensemble, Health, Scores};

/// The event `capabilities`, the first of each stream: what the page may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Capabilities {
    /// The server that answers; null if it is `pole up`, which answers for all of its servers.
    pub server: Option<u64>,
    /// The release of the program that answers.
    pub version: String,
    /// What the page may do: `oracle`, `transfer`, and in `pole up` also `kill`, `pause`, `restart`, `cut`, `link` and
    /// `load`.
    pub actions: Vec<String>,
    /// Whether this caller may read nodes.
    pub nodes: bool,
}

/// The event `snapshot`: one server and what it knows of the others, once a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Snapshot {
    /// When it was made, in milliseconds since 1970.
    pub at_ms: i64,
    /// The time since the snapshot before, which rates and latencies cover; 0 in the first one.
    pub interval_ms: u64,
    /// How long the server has been running.
    pub uptime_ms: u64,
    /// The server itself.
    pub health: Health,
    /// All servers.
    pub ensemble: Ensemble,
    /// How well each server would lead.
    pub scores: Scores,
    /// Reads of the clients of this server.
    pub reads: Measured,
    /// Writes of the clients of this server, from the request to the reply.
    pub writes: Measured,
    /// Writes to the log, with their sync.
    pub fsync: Measured,
    /// The clients and the tree of this server.
    pub clients: Clients,
}

/// How often something happened in an interval, and how long it took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Measured {
    /// Per second.
    pub rate: f64,
    /// The mean; null if nothing happened.
    pub mean_ms: Option<f64>,
    /// The median; null if nothing happened, and in one interval of every five minutes.
    pub p50_ms: Option<f64>,
    /// The 99th percentile; null with the median.
    pub p99_ms: Option<f64>,
}

/// The clients and the tree of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Clients {
    /// Connections of clients to this server.
    pub connections: u64,
    /// Requests without a reply.
    pub outstanding: u64,
    /// Watches that clients of this server have set.
    pub watches: u64,
    /// Sessions of the whole ensemble.
    pub sessions: u64,
    /// Nodes of the tree.
    pub nodes: u64,
    /// Nodes that end with their session.
    pub ephemerals: u64,
    /// The size of paths and data.
    pub data_bytes: u64,
}

/// `GET /v1/nodes`: one node, with a part of its children.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct NodeView {
    /// Its path.
    pub path: String,
    /// Its data as text, at most 64 KiB of it; null if it is not text, or if the node has none.
    pub text: Option<String>,
    /// Its data in hexadecimal digits if it is not text, at most 1 KiB of it.
    pub hex: Option<String>,
    /// Whether `text` or `hex` is only the beginning.
    pub is_cut: bool,
    /// Its metadata.
    pub stat: NodeStat,
    /// Who may do what with it.
    pub acl: Vec<AclEntry>,
    /// Names of children in alphabetical order, from the one after `after` on.
    pub children: Vec<String>,
    /// Whether there are children after these. `after` of the next request is the last of these.
    pub has_more: bool,
}

/// The metadata of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct NodeStat {
    /// The transaction that created it.
    pub czxid: String,
    /// The last transaction that changed its data.
    pub mzxid: String,
    /// The last transaction that created or deleted a child.
    pub pzxid: String,
    /// When it was created, in milliseconds since 1970.
    pub ctime_ms: i64,
    /// When its data was last changed, in milliseconds since 1970.
    pub mtime_ms: i64,
    /// Changes of its data.
    pub version: i32,
    /// Children created and deleted.
    pub cversion: i32,
    /// Changes of its ACL.
    pub aversion: i32,
    /// The session that owns an ephemeral node, in hexadecimal digits; else null.
    pub ephemeral_owner: Option<String>,
    /// The length of its data in bytes.
    pub data_length: i32,
    /// The number of its children.
    pub num_children: i32,
}

/// One entry of an ACL.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AclEntry {
    /// Letters of `cdrwa`: create, delete, read, write, administer.
    pub perms: String,
    /// `world`, `digest`, `ip` or `x509`.
    pub scheme: String,
    /// The identity, without the hash of a password.
    pub id: String,
}
