//! What the `pole` command prints with `--json`, where that is not the answer of a server.
//!
//! `docs/commands.schema.json` is generated from these types.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// `pole check FILE`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ConfigurationChecked {
    /// The file.
    pub file: String,
    /// Whether a server would start with it.
    pub valid: bool,
    /// The server that it was checked for; null for a server without others.
    pub server: Option<u64>,
    /// How many servers vote.
    pub voters: usize,
    /// What is wrong, unknown, without effect, or suspicious.
    pub findings: Vec<Finding>,
    /// The settings that differ from the other file, if one was given.
    pub changes: Option<Vec<SettingChange>>,
}

/// One finding in a configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Finding {
    /// `error` or `warning`.
    pub level: String,
    /// `syntax`, `unknown-key`, `no-effect`, `repeated-key`, `bad-value`, `rule`, or `environment` for what the
    /// configuration names and this machine lacks.
    pub about: String,
    /// The file.
    pub file: String,
    /// The line, counted from 1; 0 if it is not about one.
    pub line: usize,
    /// The key; empty if it is not about one.
    pub key: String,
    /// Its value; a placeholder for a secret.
    pub value: String,
    /// What it is, and what to do.
    pub why: String,
}

/// A setting that two configurations differ in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SettingChange {
    /// The key.
    pub key: String,
    /// Its value in the other file, or the default.
    pub before: Option<String>,
    /// Its value in the checked file, or the default.
    pub after: Option<String>,
    /// `restart`, `restart-each`, `restart-together`, `move-files`, `new-address` or `initial-value`.
    pub effect: String,
    /// What has to be done.
    pub what_to_do: String,
}

/// `pole convert`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Converted {
    /// The file that was read.
    pub from: String,
    /// The file that was written, and means the same.
    pub to: String,
    /// What the new file does not have, or is suspicious in both.
    pub warnings: Vec<String>,
}

/// `pole check DIR`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct DataChecked {
    /// The data directory.
    pub directory: String,
    /// The directory of the log.
    pub log_directory: String,
    /// Why a server would not start with it; null if it would.
    pub error: Option<String>,
    /// Oldest first.
    pub snapshots: Vec<SnapshotChecked>,
    /// Oldest first.
    pub logs: Vec<LogChecked>,
    /// What a start would repair, remove or write first.
    pub planned: Vec<String>,
    /// Null if it cannot be known.
    pub history: Option<HistoryChecked>,
    /// The state that a start would restore; null if it cannot be known.
    pub content: Option<ContentChecked>,
}

/// `pole check FILE`, where the file is a backup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BackupChecked {
    /// The file.
    pub file: String,
    /// Why it cannot be restored; null if it can.
    pub error: Option<String>,
    /// The last transaction in it; null if it does not name it.
    pub zxid: Option<String>,
    /// What it contains; null if it cannot be read.
    pub content: Option<ContentChecked>,
}

/// `pole backup`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BackedUp {
    /// The file.
    pub file: String,
    /// The last transaction in it.
    pub zxid: String,
    /// Its size.
    pub bytes: u64,
}

/// `pole restore --admin`: the answer of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Restored {
    /// `restore`.
    pub command: String,
    /// Why it failed; null if it did not.
    pub error: Option<String>,
    /// The last transaction of the ensemble after it.
    pub last_zxid: String,
    /// The last transaction in the backup, if it names it.
    pub snapshot_zxid: Option<String>,
    /// Nodes that were created.
    pub created: u64,
    /// Nodes whose data or ACL was changed.
    pub changed: u64,
    /// Nodes that were deleted.
    pub deleted: u64,
    /// Ephemeral nodes, which were left alone.
    pub ephemerals: u64,
}

/// `pole restore --config`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Installed {
    /// The snapshot from which the next start restores the state.
    pub snapshot: String,
    /// Its last transaction.
    pub zxid: String,
    /// The next leader opens an epoch above this one.
    pub accepted_epoch: u32,
    /// Where the files are that were there before.
    pub moved_to: Vec<String>,
}

/// `pole bench`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BenchResult {
    /// The servers, as they were given.
    pub servers: Vec<String>,
    /// How many sessions there were.
    pub clients: u32,
    /// How many requests each of them had under way at most.
    pub outstanding: usize,
    /// The requests a second that were asked for; null for as many as possible.
    pub rate: Option<u32>,
    /// The size of a node.
    pub size_bytes: usize,
    /// The shares of the kinds of requests.
    pub mix: String,
    /// How long was measured.
    pub seconds: u64,
    /// The requests that were answered.
    pub requests: u64,
    /// The requests that failed.
    pub errors: u64,
    /// Why the last of them failed.
    pub last_error: Option<String>,
    /// The answers a second.
    pub per_second: f64,
    /// The longest time between two answers, of all clients together.
    pub longest_gap_ms: f64,
    /// The same by kind of request.
    pub kinds: Vec<Measured>,
}

/// One kind of request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Measured {
    /// `read`, `write` or `create`; the latter creates and deletes in turn.
    pub kind: String,
    /// The requests that were answered.
    pub requests: u64,
    /// The requests that failed.
    pub errors: u64,
    /// The answers a second.
    pub per_second: f64,
    /// The latency of the median. With a rate, latencies count from the time at which a request was due.
    pub p50_ms: f64,
    /// The latency that 90 % do not exceed.
    pub p90_ms: f64,
    /// The latency that 99 % do not exceed.
    pub p99_ms: f64,
    /// The latency that 99.9 % do not exceed.
    pub p999_ms: f64,
    /// The highest latency.
    pub max_ms: f64,
}

/// A snapshot of a data directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SnapshotChecked {
    /// The name of the file.
    pub file: String,
    /// The last transaction in it.
    pub zxid: String,
    /// The size of the file.
    pub bytes: u64,
    /// Why it cannot be used; null if it can.
    pub damage: Option<String>,
}

/// A log file of a data directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LogChecked {
    /// The name of the file.
    pub file: String,
    /// Its first transaction.
    pub first: String,
    /// Its last transaction; null if there is none.
    pub last: Option<String>,
    /// How many there are.
    pub transactions: u64,
    /// Their size.
    pub bytes: u64,
    /// What follows the last transaction; null if nothing does.
    pub damage: Option<String>,
}

/// The history of a data directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct HistoryChecked {
    /// The last epoch that the server promised to take part in.
    pub accepted_epoch: u32,
    /// The last epoch whose history it adopted.
    pub current_epoch: u32,
    /// The last transaction.
    pub last_zxid: String,
    /// The snapshot that a start would restore.
    pub snapshot: Option<String>,
    /// How many transactions it would apply to that.
    pub replayed: u64,
    /// Up to here the server knew that transactions are committed; null if Pole has not written to the directory.
    pub committed: Option<String>,
}

/// The state in a data directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ContentChecked {
    /// The number of znodes.
    pub nodes: usize,
    /// The number of ephemeral ones among them.
    pub ephemerals: usize,
    /// The number of sessions.
    pub sessions: usize,
    /// The size of paths and data.
    pub bytes: u64,
    /// The digest that the four-letter word `hash` shows, as a decimal number.
    pub digest: String,
    /// The number of znodes by the schemes in their ACLs.
    pub schemes: BTreeMap<String, usize>,
}

/// `pole migrate check`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MigrationChecked {
    /// The configuration.
    pub file: String,
    /// The server that it is for; null for a server without others.
    pub server: Option<u64>,
    /// Whether a Pole server would start with this configuration on this data.
    pub ready: bool,
    /// What this server of Apache does now; null if it does not run.
    pub running: Option<ApacheRunning>,
    /// What is wrong with the configuration, unknown or without effect.
    pub findings: Vec<Finding>,
    /// The files; null if the configuration names none that can be used.
    pub data: Option<DataChecked>,
    /// What would be different, or lost, and what to do about it.
    pub differences: Vec<String>,
}

/// A server of Apache ZooKeeper that runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ApacheRunning {
    /// The release.
    pub version: String,
    /// `leader`, `follower`, `observer`, `standalone` or `read-only`.
    pub mode: String,
    /// Its last transaction.
    pub zxid: String,
}

/// `pole migrate take-over`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TakenOver {
    /// The last transaction of Apache, which the copy has.
    pub zxid: String,
    /// Its epoch; the first leader of Pole opens a higher one.
    pub epoch: u32,
    /// The number of znodes.
    pub nodes: usize,
    /// The number of sessions.
    pub sessions: usize,
    /// The digest that the four-letter word `hash` of Pole shows, as a decimal number; the same for every copy.
    pub digest: String,
    /// The directories that have the whole history now.
    pub directories: Vec<String>,
}
