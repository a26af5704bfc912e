//! The log on standard error: events of `tracing`, one line each.
//!
//! A line looks like `2026-01-31T23:59:59.123Z INFO serving leader=1 epoch=3`, or is a JSON object with
//! `pole.log=json`. The message of a `tracing` event is its name; its fields follow.
//!
//! Each event has one of the targets in [`target`], and `pole.logFilter` selects the level of each (`filter`). A thread of
//! its own writes the lines (`writer`), so the log never blocks the server.
//!
//! Only the first lines of an event that a client can cause at will are written in each period (`repeats`).

mod filter;
mod format;
mod repeats;
mod subscriber;
mod writer;

pub use filter::{Filter, InvalidFilter};
pub(crate) use format::timestamp;
pub(crate) use writer::lines_dropped;

use std::net::SocketAddr;

use pole_node::{CloseReason, Note};
use tracing::{error, info, warn};

use self::repeats::rate_limited;
use self::subscriber::LogSubscriber;
use self::target::{DISK, NODE};
use crate::client::End;
use crate::config::Config;
use crate::limits::Limit;
use crate::metrics::Counter;
use crate::shared::Shared;

/// The targets of events, for `pole.logFilter`.
pub mod target {
    /// Elections, roles, hand-overs, and what the node refuses.
    pub const NODE: &str = "pole::node";
    /// Connections of clients.
    pub const CLIENT: &str = "pole::client";
    /// Links to other servers.
    pub const PEER: &str = "pole::peer";
    /// The log on disk, snapshots, recovery.
    pub const DISK: &str = "pole::disk";
    /// The admin server.
    pub const ADMIN: &str = "pole::admin";
    /// Start, configuration, limits of the process, stop.
    pub const SERVER: &str = "pole::server";
    /// The steps of every write, at the level `trace` (see `timeline`).
    pub const TIMELINE: &str = "pole::timeline";
}

/// Sends all events of this process to standard error, in the form and with the filter of this configuration. Has no
/// effect if there is a `tracing` subscriber already, of an earlier call or of the program that embeds the server.
pub fn init(config: &Config) {
    let subscriber = LogSubscriber::new(config.pole.log_json, config.pole.log_filter.clone(), writer::write);
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Waits until everything logged so far is written, for a second at most. Later lines are written by the thread that
/// logs them. Must be called once, before the process ends.
pub fn flush() {
    writer::flush();
}

/// Logs a note of the node.
pub(crate) fn note(note: &Note) {
    match note {
        Note::Electing { cause, round } => info!(target: NODE, %cause, %round, "electing"),
        Note::Elected(record) => info!(target: NODE, why = %record, "elected"),
        Note::Leading { round } => info!(target: NODE, %round, "leading"),
        Note::Following { leader } => info!(target: NODE, leader = leader.0, "following"),
        Note::Serving { leader, epoch } => info!(target: NODE, leader = leader.0, epoch = epoch.0, "serving"),
        Note::Members { members, version } => info!(target: NODE, %members, %version, "members"),
        Note::Resigning { to, cause } => info!(target: NODE, to = to.0, %cause, "resigning"),
        Note::Unreached { voter, heard_by } => {
            let what = "a server cannot reach this leader, but a follower that reaches all others: check the links";
            warn!(target: NODE, server = voter.0, heard_by = heard_by.0, what, "unreached");
        }
        Note::ResignationAborted { refusal } => warn!(target: NODE, reason = %refusal, "resignation_aborted"),
        Note::HandedOver { to } => info!(target: NODE, to = to.0, "handed_over"),
        Note::Abandoned { reason } => warn!(target: NODE, reason, "abandoned"),
        Note::OutOfOrder { error } => warn!(target: NODE, error, "out_of_order"),
        Note::BadPeer { from, error } => warn!(target: NODE, from = from.0, error, "bad_peer"),
        Note::InvalidScore { from, reason } => warn!(target: NODE, from = from.0, reason, "invalid_score"),
        Note::BadOracle { version, error } => warn!(target: NODE, %version, error, "bad_oracle"),
        Note::Installed { zxid } => {
            warn!(target: NODE, %zxid, what = "a snapshot of the leader; clients reconnect", "installed");
        }
        Note::SlowWrite { took } => {
            let what = "a write to the log took longer than fsync.warningthresholdms: look at the disk";
            warn!(target: DISK, took_ms = took.as_us() / 1_000, what, "slow_write");
        }
        Note::DiskHangs => error!(target: DISK, what = "a write has not ended in time: look at the disk", "disk_hangs"),
    }
}

/// Logs the end of a client's connection; an ordinary one for debugging only.
pub(crate) fn connection_ended(shared: &Shared, address: SocketAddr, end: &End) {
    if matches!(end, End::Closed(reason) if reason.is_ordinary()) {
        rate_limited!(debug, "connection_ended", from = %address, why = %end);
        return;
    }
    count_limit(shared, end);
    if matches!(end, End::Closed(CloseReason::NoLeader | CloseReason::NoQuorum)) {
        shared.status.counters.add(Counter::CnxnClosedWithoutZkServerRunning, 1);
    }
    rate_limited!(info, "connection_ended", from = %address, why = %end);
}

/// Logs a failed TLS handshake.
pub(crate) fn tls_refused(shared: &Shared, address: SocketAddr, end: &End) {
    count_limit(shared, end);
    shared.status.counters.add(Counter::UnsuccessfulHandshake, 1);
    rate_limited!(info, "tls_refused", from = %address, error = %end);
}

/// Logs why the GSSAPI library refused a token of a client.
pub(crate) fn kerberos_failed(why: &str) {
    rate_limited!(info, "kerberos_failed", why = why);
}

/// Logs a connection that was refused because a limit is reached.
pub(crate) fn connection_refused(address: SocketAddr, limit: Limit) {
    rate_limited!(warn, "too_many_connections", from = %address.ip(), allowed = limit.key());
}

fn count_limit(shared: &Shared, end: &End) {
    if let End::Closed(reason) = end
        && let Some(limit) = Limit::of(*reason)
    {
        shared.status.limits.add(limit, 1);
    }
}
