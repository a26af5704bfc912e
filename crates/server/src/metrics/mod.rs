//! Collects the metrics of a server once, for `mntr`, `/commands/monitor` and `/metrics`.
//!
//! The values come from `status`, the tree and the node. The names are Apache's, because dashboards and alerts for
//! ZooKeeper use them (`names`). What Apache counts and Pole does not is left out, since a constant zero would be
//! misleading. A metric has the same name and value in all three places, except that a summary appears in `mntr` as one
//! line for each of its figures.

mod host;
mod names;
mod node_meter;
mod node_stats;
mod page;
mod summary;

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use host::{directory_bytes, environment, process_user, version};
pub(crate) use names::{Counter, Counters, ProposalSizes, Summaries, Summary};
pub(crate) use node_meter::NodeMeter;
pub(crate) use node_stats::{Learner, NodeStats, all_scores, for_each_oracle};
pub(crate) use page::page;
pub(crate) use summary::{Distribution, LazySamples};

use pole_node::ReplySizes;
use pole_zab::Phase;

use crate::limits::Limit;
use crate::shared::Shared;
use crate::status::Role;
use crate::tally::{Packets, RequestKind};

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
    pub(crate) name: Cow<'static, str>,
    pub(crate) value: Value,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Gauge,
    /// It only grows, until it is reset.
    Counter,
    /// A figure of a summary, which `/metrics` shows as a whole under its own name.
    SummaryFigure,
}

/// The mode of the server in ZooKeeper's terms; `looking` while it does not serve.
pub(crate) fn mode(shared: &Shared) -> &'static str {
    match shared.status.role() {
        Role::Serving { .. } if shared.is_standalone() => "standalone",
        Role::Serving { leader, .. } if leader == shared.settings.me => "leader",
        Role::Serving { .. } if !shared.members().membership.voters().contains(shared.settings.me) => "observer",
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
    add_counters(shared, &mut list);
    add_summaries(shared, &mut list);
    list.0
}

fn add_clients(shared: &Shared, list: &mut MetricList) {
    let status = &shared.status;
    let Packets { received, received_bytes, sent, sent_bytes, latency } = status.tally.sum();
    list.float("avg_latency", latency.mean_ms());
    list.gauge("min_latency", latency.min_ms);
    list.gauge("max_latency", latency.max_ms);
    list.counter("packets_received", received);
    list.counter("packets_sent", sent);
    list.gauge("num_alive_connections", status.connections.load(Ordering::Relaxed) as u64);
    list.gauge("outstanding_requests", shared.outstanding.load(Ordering::Relaxed) as u64);
    list.counter("bytes_received_count", received_bytes);
    list.counter("response_bytes", sent_bytes);
    list.counter("connection_rejected", load(&status.refused));
    list.counter("sessionless_connections_expired", status.limits.get(Limit::GreetingTime));
    list.counter("request_throttle_wait_count", status.limits.get(Limit::Outstanding));
    list.gauge("outstanding_tls_handshake", status.handshakes.load(Ordering::Relaxed) as u64);
    list.float("connection_drop_probability", 0.0);
    // Apache shows -1 before the first.
    let sizes = status.tally.all_reply_sizes();
    let size = |of: fn(ReplySizes) -> usize| Value::Integer(sizes.map_or(-1, |sizes| signed(of(sizes) as u64)));
    list.push("last_client_response_size", size(|sizes| sizes.last), Kind::Gauge);
    list.push("max_client_response_size", size(|sizes| sizes.max), Kind::Gauge);
    list.push("min_client_response_size", size(|sizes| sizes.min), Kind::Gauge);
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
        list.0.extend(value.map(|value| Metric { name: name.into(), value: Value::Integer(value), kind: Kind::Gauge }));
    }
    list.gauge("uptime", u64::try_from(shared.clock.uptime().as_millis()).unwrap_or(u64::MAX));
    list.gauge("quorum_size", shared.members().membership.voters().len() as u64);
    list.counter("looking_count", load(&shared.status.elections));
}

fn add_node(shared: &Shared, stats: &NodeStats, list: &mut MetricList) {
    if stats.phase == Phase::Established && !shared.is_standalone() {
        let synced = |learners: &[Learner]| learners.iter().filter(|learner| learner.synced).count() as u64;
        list.gauge("learners", (stats.followers.len() + stats.observers.len()) as u64);
        list.gauge("followers", stats.followers.len() as u64);
        list.gauge("synced_followers", synced(&stats.followers));
        list.gauge("synced_non_voting_followers", 0);
        list.gauge("synced_observers", synced(&stats.observers));
        list.gauge("pending_syncs", stats.pending_syncs as u64);
        list.gauge("outstanding_proposals", stats.queues.uncommitted);
        list.gauge("leader_uptime", stats.serving_for.unwrap_or_default().as_us() / 1000);
        if let Some(sizes) = *shared.status.proposal_sizes.lock() {
            list.gauge("last_proposal_size", sizes.last as u64);
            list.gauge("max_proposal_size", sizes.max as u64);
            list.gauge("min_proposal_size", sizes.min as u64);
        }
    }
}

fn add_counters(shared: &Shared, list: &mut MetricList) {
    Counter::ALL.into_iter().for_each(|counter| list.counter(counter.name(), shared.status.counters.get(counter)));
}

fn add_summaries(shared: &Shared, list: &mut MetricList) {
    for (summary, distribution) in summaries(shared) {
        list.summary(summary.name(), summary.is_plain(), summary.is_detailed(), &distribution);
    }
    for (server, distribution) in shared.status.summaries.ack_latency(shared.clock.now()) {
        list.summary(&format!("{server}_{}", names::ACK_LATENCY), false, true, &distribution);
    }
}

/// All summaries but [`names::ACK_LATENCY`].
fn summaries(shared: &Shared) -> impl Iterator<Item = (Summary, Distribution)> {
    let (status, now) = (&shared.status, shared.clock.now());
    Summary::ALL.into_iter().map(move |summary| {
        let kind = [(Summary::ReadLatency, RequestKind::Read), (Summary::UpdateLatency, RequestKind::Update)];
        let distribution = match kind.into_iter().find(|(latency, _)| *latency == summary) {
            Some((_, kind)) => status.tally.latency(kind, now),
            None => status.summaries.distribution(summary, now),
        };
        (summary, distribution)
    })
}

/// Converts a value of a summary to Apache's unit: times are recorded in microseconds and shown in milliseconds.
fn in_shown_unit(value: f64, is_plain: bool) -> f64 {
    if is_plain { value } else { value / 1000.0 }
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
        self.push(name, Value::Integer(signed(value)), Kind::Gauge);
    }

    fn counter(&mut self, name: &'static str, value: u64) {
        self.push(name, Value::Integer(signed(value)), Kind::Counter);
    }

    fn float(&mut self, name: &'static str, value: f64) {
        self.push(name, Value::Float(value), Kind::Gauge);
    }

    fn text(&mut self, name: &'static str, value: impl Into<String>) {
        self.push(name, Value::Text(value.into()), Kind::Gauge);
    }

    /// The lines of Apache's `AvgMinMaxCounter`, with those of `AvgMinMaxPercentileCounter` if it is detailed.
    fn summary(&mut self, name: &str, is_plain: bool, is_detailed: bool, values: &Distribution) {
        let whole = |value: u64| Value::Integer(in_shown_unit(value as f64, is_plain).round() as i64);
        let figures = [
            ("avg", Value::Float(in_shown_unit(values.mean(), is_plain))),
            ("min", whole(values.min())),
            ("max", whole(values.max)),
            ("cnt", Value::Integer(signed(values.count))),
            ("sum", whole(values.sum)),
        ];
        let quantiles = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)];
        let percentiles = quantiles.map(|(figure, at)| (figure, whole(values.quantile(at).unwrap_or(0))));
        for (figure, value) in figures.into_iter().chain(percentiles.into_iter().filter(|_| is_detailed)) {
            self.push(format!("{figure}_{name}"), value, Kind::SummaryFigure);
        }
    }

    fn push(&mut self, name: impl Into<Cow<'static, str>>, value: Value, kind: Kind) {
        self.0.push(Metric { name: name.into(), value, kind });
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
