//! What `pole up` adds to the dashboard: its processes, links and load, and the actions on them.

use serde::{Deserialize, Serialize};

/// The event `up` of `GET /v1/events` at `pole up`: sent when it changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct UpState {
    /// The processes, by id of the server.
    pub servers: Vec<UpServer>,
    /// The links between sites; empty if no delays are emulated.
    pub links: Vec<UpLink>,
    /// The load.
    pub load: UpLoad,
    /// The present step of the tour, if one is played.
    pub tour: Option<UpTour>,
}

/// The process of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct UpServer {
    /// The id of the server.
    pub id: u64,
    /// Its site.
    pub site: String,
    /// `running`, `paused` or `down`.
    pub state: String,
    /// The process, unless it is down.
    pub pid: Option<u32>,
    /// Its address for clients.
    pub client: String,
}

/// An emulated link between two sites.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct UpLink {
    /// One end.
    pub a: String,
    /// The other end.
    pub b: String,
    /// The mean round trip.
    pub rtt_ms: f64,
    /// Whether nothing arrives over it.
    pub cut: bool,
}

/// The load that `pole up` makes, and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct UpLoad {
    /// Writes per second that are due; 0 without a load.
    pub rate: f64,
    /// The site of all clients; null if they are in all sites.
    pub site: Option<String>,
    /// Writes per second that were answered in the last second.
    pub done_rate: f64,
    /// How long they took on average, from the moment they were due.
    pub mean_ms: Option<f64>,
    /// Writes that were answered, since the start.
    pub done: u64,
    /// Writes that were sent again because their connection broke.
    pub repeated: u64,
    /// Writes that had an error, or no answer for 15 seconds.
    pub failed: u64,
}

/// A step of the tour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct UpTour {
    /// Its number, from 1.
    pub step: u32,
    /// The number of steps.
    pub of: u32,
    /// What happens.
    pub text: String,
}

/// `POST /v1/up/kill`, `/v1/up/pause`, `/v1/up/resume` and `/v1/up/restart`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UpChooseServer {
    /// The server.
    pub server: u64,
}

/// `POST /v1/up/load`: replaces the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UpSetLoad {
    /// Writes per second, at most 5,000; 0 ends the load.
    pub rate: f64,
    /// The site of the clients; all sites if not given.
    #[serde(default)]
    pub site: Option<String>,
}

/// `POST /v1/up/link`: changes the round trip between two sites.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UpSetLink {
    /// One end.
    pub a: String,
    /// The other end.
    pub b: String,
    /// The mean round trip, at most 1,000 ms.
    pub rtt_ms: f64,
}

/// `POST /v1/up/cut`: cuts a site off from all others, or reconnects it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UpCutSite {
    /// The site.
    pub site: String,
    /// False reconnects it.
    pub cut: bool,
}
