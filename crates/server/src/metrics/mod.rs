//! Collects the metrics of a server once, for `mntr`, `/commands/monitor` and `/metrics`.
//!
//! The values come from `status`, the tree and the node. The names are Apache's, because dashboards and alerts for
//! ZooKeeper use them. What Apache counts and Pole does not is left out, since a constant zero would be misleading. A
//! metric has the same name and value in all three places.

mod host;
mod node_stats;
mod page;

use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use host::{directory_bytes, environment, version};
pub(crate) use node_stats::{NodeStats, all_scores, for_each_oracle};
pub(crate) use page::page;

use pole_zab::Phase;

use crate::shared::Shared;
use crate::status::Role;
use crate::tally::Packets;

/// A value, printed as by `mntr`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Integer(i64),
    Float(f64),
    Text(String),
}

/// One line of `mntr`, without the `zk_` before its name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) value: Value,
    /// A counter only grows; everything else is a gauge.
    pub(crate) is_counter: bool,
}

/// The mode of the server in ZooKeeper's terms; `looking` while it does not serve.
pub(crate) fn mode(shared: &Shared) -> &'static str {
    match shared.status.role() {
        Role::Serving { .. } if shared.settings.voters == 1 => "standalone",
        Role::Serving { leader, .. } if leader == shared.settings.me => "leader",
        Role::Serving { .. } => "follower",
        Role::Starting | Role::Looking { .. } if shared.is_read_only() => "read-only",
        Role::Starting | Role::Looking { .. } => "looking",
    }
}

/// The metrics of `mntr`. Without `stats` (the node did not answer), those that do not depend on the node.
pub(crate) fn collect(shared: &Shared, stats: Option<&NodeStats>) -> Vec<Metric> {
    let mut list = MetricList(Vec::new());
    let mode = mode(shared);
    list.text("version", version());
    list.text("server_state", mode);
    if let Some(stats) = stats.filter(|_| mode != "standalone") {
        list.text("peer_state", peer_state(stats.phase));
    }
    add_clients(shared, &mut list);
    add_tree(shared, &mut list);
    add_host(shared, &mut list);
    if let Some(stats) = stats {
        add_node(shared, stats, &mut list);
    }
    list.0
}

fn add_clients(shared: &Shared, list: &mut MetricList) {
    let status = &shared.status;
    let Packets { received, sent, latency } = status.tally.sum();
    list.float("avg_latency", latency.mean_ms());
    list.gauge("min_latency", latency.min_ms);
    list.gauge("max_latency", latency.max_ms);
    list.counter("packets_received", received);
    list.counter("packets_sent", sent);
    list.gauge("num_alive_connections", status.connections.load(Ordering::Relaxed) as u64);
    list.gauge("outstanding_requests", shared.outstanding.load(Ordering::Relaxed) as u64);
    list.counter("connection_rejected", load(&status.refused));
    list.float("connection_drop_probability", 0.0);
}

fn add_tree(shared: &Shared, list: &mut MetricList) {
    let watches = shared.watches.lock().count();
    let tree = shared.tree.read();
    list.gauge("znode_count", tree.node_count() as u64);
    list.gauge("watch_count", watches as u64);
    list.gauge("ephemerals_count", tree.ephemerals_count() as u64);
    list.gauge("approximate_data_size", tree.approximate_data_bytes());
    list.gauge("global_sessions", tree.sessions().count() as u64);
    list.gauge("local_sessions", 0);
}

fn add_host(shared: &Shared, list: &mut MetricList) {
    let (open, most) = host::descriptors();
    for (name, value) in [("open_file_descriptor_count", open), ("max_file_descriptor_count", most)] {
        list.0.extend(value.map(|value| Metric { name, value: Value::Integer(value), is_counter: false }));
    }
    list.gauge("uptime", u64::try_from(shared.clock.uptime().as_millis()).unwrap_or(u64::MAX));
    list.gauge("quorum_size", shared.settings.voters as u64);
    list.counter("looking_count", load(&shared.status.elections));
}

fn add_node(shared: &Shared, stats: &NodeStats, list: &mut MetricList) {
    if stats.phase == Phase::Established && shared.settings.voters > 1 {
        list.gauge("learners", stats.learners as u64);
        list.gauge("followers", stats.learners as u64);
        list.gauge("synced_followers", stats.synced as u64);
        list.gauge("synced_non_voting_followers", 0);
        list.gauge("synced_observers", 0);
        list.gauge("pending_syncs", stats.pending_syncs as u64);
        list.gauge("outstanding_proposals", stats.queues.uncommitted);
        list.gauge("leader_uptime", stats.serving_for.unwrap_or_default().as_us() / 1000);
    }
}

/// Maps our phases to Apache's names for the phases of Zab.
fn peer_state(phase: Phase) -> &'static str {
    match phase {
        Phase::Looking => "looking - election",
        Phase::Greeting | Phase::Promised => "following - discovery",
        Phase::Joining => "following - synchronization",
        Phase::Serving => "following - broadcast",
        Phase::TakingOver | Phase::Gathering | Phase::Promising | Phase::Pulling => "leading - discovery",
        Phase::Synchronising => "leading - synchronization",
        Phase::Established => "leading - broadcast",
    }
}

/// The last part of [`peer_state`].
pub(crate) fn zab_state(phase: Phase) -> &'static str {
    peer_state(phase).rsplit(" - ").next().unwrap_or_default()
}

pub(crate) fn ms(span: pole_types::Span) -> f64 {
    span.as_us() as f64 / 1000.0
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

struct MetricList(Vec<Metric>);

impl MetricList {
    fn gauge(&mut self, name: &'static str, value: u64) {
        self.0.push(Metric { name, value: Value::Integer(signed(value)), is_counter: false });
    }

    fn counter(&mut self, name: &'static str, value: u64) {
        self.0.push(Metric { name, value: Value::Integer(signed(value)), is_counter: true });
    }

    fn float(&mut self, name: &'static str, value: f64) {
        self.0.push(Metric { name, value: Value::Float(value), is_counter: false });
    }

    fn text(&mut self, name: &'static str, value: impl Into<String>) {
        self.0.push(Metric { name, value: Value::Text(value.into()), is_counter: false });
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl std::fmt::Display for Value {
    /// Prints fractions with one to four digits, as Apache does.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{:?}", (value * 10_000.0).round() / 10_000.0),
            Self::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_written_as_apache_writes_them() {
        let text = |value| Value::Float(value).to_string();
        assert_eq!(text(0.0), "0.0");
        assert_eq!(text(96.454_545), "96.4545");
        assert_eq!(text(2.0), "2.0");
    }
}
