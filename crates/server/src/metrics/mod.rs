//! Figures of a server: what `mntr`, `/commands/monitor` and `/metrics` tell, gathered once for all three.
//!
//! In: what everyone may know (`status`), the tree, and what the node says when asked. Out: names and values.
//! Why Apache's names: dashboards and alarms of ZooKeeper read them. What Apache counts and we do not have is left out:
//! a zero that is never counted would be a lie.
//! Holds: a figure has the same name and value wherever it is read.

mod host;
mod inside;
mod page;

use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use host::{directory_bytes, environment, version};
pub(crate) use inside::{Inside, with_each_oracle};
pub(crate) use page::page;

use pole_zab::Phase;

use crate::shared::Shared;
use crate::status::Role;
use crate::tally::Packets;

/// A value as `mntr` prints it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Whole(i64),
    Real(f64),
    Text(String),
}

/// One line of `mntr`, without the `zk_` before its name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) value: Value,
    /// Whether it only grows.
    pub(crate) grows: bool,
}

/// Where the server stands, in ZooKeeper's words; `looking` while it does not serve.
pub(crate) fn mode(shared: &Shared) -> &'static str {
    match shared.status.role() {
        Role::Serving { .. } if shared.settings.voters == 1 => "standalone",
        Role::Serving { leader, .. } if leader == shared.settings.me => "leader",
        Role::Serving { .. } => "follower",
        Role::Starting | Role::Looking { .. } if shared.is_read_only() => "read-only",
        Role::Starting | Role::Looking { .. } => "looking",
    }
}

/// All that `mntr` tells. Without an answer of the node, what is known without it.
pub(crate) fn figures(shared: &Shared, inside: Option<&Inside>) -> Vec<Figure> {
    let mut list = List(Vec::new());
    let mode = mode(shared);
    list.text("version", version());
    list.text("server_state", mode);
    if let Some(inside) = inside.filter(|_| mode != "standalone") {
        list.text("peer_state", peer_state(inside.phase));
    }
    of_clients(shared, &mut list);
    of_tree(shared, &mut list);
    of_host(shared, &mut list);
    if let Some(inside) = inside {
        of_node(shared, inside, &mut list);
    }
    list.0
}

fn of_clients(shared: &Shared, list: &mut List) {
    let status = &shared.status;
    let Packets { received, sent, latency } = status.tally.sum();
    list.real("avg_latency", latency.mean_ms());
    list.whole("min_latency", latency.min_ms);
    list.whole("max_latency", latency.max_ms);
    list.count("packets_received", received);
    list.count("packets_sent", sent);
    list.whole("num_alive_connections", status.connections.load(Ordering::Relaxed) as u64);
    list.whole("outstanding_requests", shared.outstanding.load(Ordering::Relaxed) as u64);
    list.count("connection_rejected", load(&status.refused));
    list.real("connection_drop_probability", 0.0);
}

fn of_tree(shared: &Shared, list: &mut List) {
    let watches = shared.watches.lock().count();
    let tree = shared.tree.read();
    list.whole("znode_count", tree.node_count() as u64);
    list.whole("watch_count", watches as u64);
    list.whole("ephemerals_count", tree.ephemerals_count() as u64);
    list.whole("approximate_data_size", tree.approximate_data_bytes());
    list.whole("global_sessions", tree.sessions().count() as u64);
    list.whole("local_sessions", 0);
}

fn of_host(shared: &Shared, list: &mut List) {
    let (open, most) = host::descriptors();
    for (name, value) in [("open_file_descriptor_count", open), ("max_file_descriptor_count", most)] {
        list.0.extend(value.map(|value| Figure { name, value: Value::Whole(value), grows: false }));
    }
    list.whole("uptime", u64::try_from(shared.clock.uptime().as_millis()).unwrap_or(u64::MAX));
    list.whole("quorum_size", shared.settings.voters as u64);
    list.count("looking_count", load(&shared.status.elections));
}

fn of_node(shared: &Shared, inside: &Inside, list: &mut List) {
    if inside.phase == Phase::Established && shared.settings.voters > 1 {
        list.whole("learners", inside.learners as u64);
        list.whole("followers", inside.learners as u64);
        list.whole("synced_followers", inside.synced as u64);
        list.whole("synced_non_voting_followers", 0);
        list.whole("synced_observers", 0);
        list.whole("pending_syncs", inside.pending_syncs as u64);
        list.whole("outstanding_proposals", inside.queues.uncommitted);
        list.whole("leader_uptime", inside.served.unwrap_or_default().as_us() / 1000);
    }
}

/// Of Apache's words for the phases of Zab those that fit ours.
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

/// The last word of it.
pub(crate) fn zab_state(phase: Phase) -> &'static str {
    peer_state(phase).rsplit(" - ").next().unwrap_or_default()
}

pub(crate) fn ms(span: pole_election::Span) -> f64 {
    span.as_us() as f64 / 1000.0
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Figures as they are gathered.
struct List(Vec<Figure>);

impl List {
    fn whole(&mut self, name: &'static str, value: u64) {
        self.0.push(Figure { name, value: Value::Whole(signed(value)), grows: false });
    }

    fn count(&mut self, name: &'static str, value: u64) {
        self.0.push(Figure { name, value: Value::Whole(signed(value)), grows: true });
    }

    fn real(&mut self, name: &'static str, value: f64) {
        self.0.push(Figure { name, value: Value::Real(value), grows: false });
    }

    fn text(&mut self, name: &'static str, value: impl Into<String>) {
        self.0.push(Figure { name, value: Value::Text(value.into()), grows: false });
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl std::fmt::Display for Value {
    /// Fractions with up to four digits and at least one, as Apache has them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(value) => write!(f, "{value}"),
            Self::Real(value) => write!(f, "{:?}", (value * 10_000.0).round() / 10_000.0),
            Self::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_written_as_apache_writes_them() {
        let text = |value| Value::Real(value).to_string();
        assert_eq!(text(0.0), "0.0");
        assert_eq!(text(96.454_545), "96.4545");
        assert_eq!(text(2.0), "2.0");
    }
}
