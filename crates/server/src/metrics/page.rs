//! The metrics page in Prometheus's text format.
//!
//! Every numeric metric of `mntr` appears twice: with the prefix `zk_`, as exporters based on `mntr` name it, and
//! without, as Apache's own provider does, so that dashboards of either kind keep working. Without the prefix, a summary
//! is one metric with quantiles, count and sum. Our own metrics begin with `pole_`.

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;

use super::names::ACK_LATENCY;
use super::node_stats::scores;
use super::{Distribution, Kind, NodeStats, Value, collect, host, in_shown_unit, mode, ms, summaries};
use crate::limits::Limit;
use crate::log;
use crate::shared::Shared;
use crate::status::Role;

/// Returns the page in text format 0.0.4.
pub(crate) async fn page(shared: &Shared) -> String {
    let stats = NodeStats::query(shared).await;
    let mut page = Page(String::new());
    for metric in collect(shared, stats.as_ref()) {
        let kind = if metric.kind == Kind::Counter { "counter" } else { "gauge" };
        if let Value::Integer(_) | Value::Float(_) = metric.value {
            page.one(&format!("zk_{}", metric.name), kind, "As reported by mntr.", &metric.value);
            if metric.kind != Kind::SummaryFigure {
                page.one(&metric.name, kind, "As reported by mntr.", &metric.value);
            }
        }
    }
    add_summaries(shared, &mut page);
    add_server(shared, &mut page);
    add_limits(shared, stats.as_ref(), &mut page);
    if let Some(stats) = stats {
        add_node(&stats, &mut page);
    }
    let label = |oracle: &str, id| format!("oracle=\"{oracle}\",server=\"{id}\"");
    let scores = scores(shared).await.into_iter().map(|(oracle, id, score)| (label(&oracle, id), score));
    page.many("pole_score", "gauge", "Scores of servers under each oracle, if the leader resigned now.", scores);
    page.0
}

fn add_summaries(shared: &Shared, page: &mut Page) {
    for (summary, values) in summaries(shared) {
        let unit = if summary.is_plain() { "" } else { " In milliseconds." };
        page.head(summary.name(), "summary", &format!("A summary with the name of Apache's.{unit}"));
        page.summary(summary.name(), "", summary.is_plain(), summary.is_detailed(), &values);
    }
    let by_server = shared.status.summaries.ack_latency(shared.clock.now());
    if !by_server.is_empty() {
        page.head(ACK_LATENCY, "summary", "A summary with the name of Apache's, by server. In milliseconds.");
    }
    for (server, values) in by_server {
        page.summary(ACK_LATENCY, &format!("key=\"{server}\""), false, true, &values);
    }
}

fn add_server(shared: &Shared, page: &mut Page) {
    let status = &shared.status;
    let counters = [
        ("pole_elections_total", "Elections that this server took part in.", &status.elections),
        ("pole_leader_changes_total", "Leaders that this server followed or was.", &status.leader_changes),
        ("pole_hand_overs_total", "Orderly hand-overs of the leadership.", &status.hand_overs),
        ("pole_installs_total", "Times that the state was replaced by a snapshot of the leader.", &status.installed),
        ("pole_connections_refused_total", "Client connections that were refused.", &status.refused),
        (
            "pole_peer_connections_refused_total",
            "Connections to the ports for other servers that did not become a link.",
            &status.peers.refused,
        ),
        (
            "pole_peer_connections_limited_total",
            "Of these, closed at once because their address opened more than 100 in a second.",
            &status.peers.limited,
        ),
        (
            "pole_peer_links_kept_total",
            "Of these, refused because they named a server whose link is alive.",
            &status.peers.kept,
        ),
        (
            "pole_connections_closed_by_snapshot_total",
            "Connections that were closed because the state was replaced.",
            &status.closed_by_snapshot,
        ),
    ];
    for (name, help, counter) in counters {
        page.one(name, "counter", help, &counter.load(Ordering::Relaxed));
    }
    page.one(
        "pole_log_lines_dropped_total",
        "counter",
        "Log lines that were dropped because the reader of the log is too slow.",
        &log::lines_dropped(),
    );
    let serves = matches!(shared.status.role(), Role::Serving { .. });
    page.one("pole_serving", "gauge", "1 under a leader, 0 without.", &u8::from(serves));
    page.one(
        "pole_leading",
        "gauge",
        "1 if this server leads.",
        &u8::from(matches!(mode(shared), "leader" | "standalone")),
    );
    page.one("pole_applied_zxid", "gauge", "The last transaction applied.", &shared.applied.load(Ordering::Relaxed));
    if let Some(audit) = shared.audit.get() {
        page.one(
            "pole_audit_lines_dropped_total",
            "counter",
            "Changes that are missing in the audit log, because the disk was too slow or failed.",
            &audit.dropped(),
        );
    }
    page.one(
        "pole_client_output_bytes",
        "gauge",
        "Bytes that clients have not taken (pole.client.outputBytesMax).",
        &shared.output.bytes(),
    );
    page.one(
        "pole_lone_writers",
        "gauge",
        "Clients that ask for one write at a time, served on the node's thread.",
        &shared.slots.taken(),
    );
    if let Some(bytes) = host::resident_bytes() {
        page.one("pole_resident_bytes", "gauge", "Memory that the process occupies.", &bytes);
    }
}

fn add_limits(shared: &Shared, stats: Option<&NodeStats>, page: &mut Page) {
    let refusals = stats.map(|stats| stats.refusals).unwrap_or_default();
    // Some reads are answered by the node, which has its own count.
    let by_node = stats.map_or(0, |stats| stats.replies_over_limit);
    let by_node = |limit| if limit == Limit::ReplyBytes { by_node } else { 0 };
    let connection_limits = shared.status.limits.each().map(|(limit, count)| (limit.key(), count + by_node(limit)));
    let tree_limits = [
        ("pole.client.watchesMax", shared.watches.lock().refused()),
        ("pole.tree.pathBytesMax", refusals.path),
        ("pole.tree.depthMax", refusals.depth),
        ("pole.tree.ephemeralsMax", refusals.ephemerals),
        ("transaction bytes", refusals.txn),
        ("apply lag", stats.map_or(0, |stats| stats.lag_reports)),
        ("peer queue bytes", shared.status.peers.slow.load(Ordering::Relaxed)),
    ];
    let rows = connection_limits.chain(tree_limits).map(|(key, count)| (format!("limit=\"{key}\""), count));
    page.many(
        "pole_limit_hits_total",
        "counter",
        "How often a limit refused, delayed or closed something; see docs/configuration.md.",
        rows,
    );
}

fn add_node(stats: &NodeStats, page: &mut Page) {
    let queues = stats.queues;
    page.one("pole_epoch", "gauge", "The epoch of the agreement.", &stats.epoch);
    page.many(
        "pole_fsync_ms",
        "gauge",
        "How long the last fsyncs took.",
        [("quantile=\"0.5\"".to_owned(), ms(stats.fsync_p50)), ("quantile=\"0.99\"".to_owned(), ms(stats.fsync_p99))],
    );
    page.one(
        "pole_turn_seconds_max",
        "gauge",
        "The longest turn of the thread that runs the protocol, since the start: nothing else happened meanwhile.",
        &stats.longest_turn.as_secs_f64(),
    );
    page.many(
        "pole_queue_depth",
        "gauge",
        "Requests in the queues of the node.",
        [
            ("queue=\"held\"".to_owned(), queues.held as u64),
            ("queue=\"unproposed\"".to_owned(), queues.unproposed as u64),
            ("queue=\"uncommitted\"".to_owned(), queues.uncommitted),
            ("queue=\"syncs\"".to_owned(), stats.pending_syncs as u64),
        ],
    );
    page.one("pole_log_entries", "gauge", "Entries of the log in memory.", &queues.log_entries);
    page.one("pole_log_bytes", "gauge", "Bytes of the log in memory.", &queues.log_bytes);
    page.one("pole_write_rate", "gauge", "Writes of own clients a second.", &(stats.rate_milli as f64 / 1000.0));
    let round_trips = stats.round_trips.iter().map(|(peer, span)| (format!("peer=\"{peer}\""), ms(*span)));
    page.many("pole_round_trip_ms", "gauge", "Round trips to other servers.", round_trips);
    page.one(
        "pole_commits_learned_directly_total",
        "counter",
        "Commits that acknowledgements of others showed before the leader announced them.",
        &stats.committed_directly,
    );
    let savings = stats.direct_savings.iter().map(|(id, span)| (format!("follower=\"{id}\""), ms(*span)));
    page.many(
        "pole_direct_saving_ms",
        "gauge",
        "By how much earlier clients of a follower are answered because acknowledgements are sent to it directly.",
        savings,
    );
    let active = [(format!("oracle=\"{}\"", stats.oracle), 1)];
    page.many("pole_oracle", "gauge", "The oracle in force.", active);
}

struct Page(String);

impl Page {
    fn one(&mut self, name: &str, kind: &str, help: &str, value: &impl Display) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// The quantiles of Apache's provider. Without values in the last minutes they are not a number.
    fn summary(&mut self, name: &str, labels: &str, is_plain: bool, is_detailed: bool, values: &Distribution) {
        let quantiles: &[f64] = if is_detailed { &[0.5, 0.9, 0.99] } else { &[0.5] };
        let comma = if labels.is_empty() { "" } else { "," };
        for quantile in quantiles {
            let value = values.quantile(*quantile).map_or(f64::NAN, |value| in_shown_unit(value as f64, is_plain));
            let _ = writeln!(self.0, "{name}{{{labels}{comma}quantile=\"{quantile}\"}} {value}");
        }
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let sum = in_shown_unit(values.sum as f64, is_plain);
        let _ = writeln!(self.0, "{name}_count{labels} {}\n{name}_sum{labels} {sum}", values.count);
    }

    fn many<V: Display>(&mut self, name: &str, kind: &str, help: &str, rows: impl IntoIterator<Item = (String, V)>) {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            return;
        }
        self.head(name, kind, help);
        for (labels, value) in rows {
            let _ = writeln!(self.0, "{name}{{{labels}}} {value}");
        }
    }
}
