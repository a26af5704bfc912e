//! `/v1/health`, `/v1/ensemble` and `/v1/oracle`: the state of this server and of its ensemble.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use pole_api::{Ensemble, Health, OracleInForce, Quorum, Server};
use pole_node::ORACLE_PATH;
use pole_oracle::{Report, Spec};
use pole_types::{ServerId, Span, Zxid};

use super::error::ApiError;
use super::page;
use crate::driver::Driver;
use crate::metrics::{mode, ms};
use crate::question::{Question, ask};
use crate::shared::Shared;
use crate::status::Role;

/// `GET /v1/health`: for load balancers and probes. It does not depend on the node's thread.
pub(crate) async fn health(State(shared): State<Arc<Shared>>) -> Response {
    let health = health_of(&shared);
    let status = if health.quorum { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, page(&health)).into_response()
}

pub(crate) fn health_of(shared: &Shared) -> Health {
    let zxid = Zxid(shared.applied.load(Ordering::Acquire).cast_unsigned());
    let (leader, epoch) = match shared.status.role() {
        Role::Serving { leader, epoch } => (Some(leader.0), epoch),
        Role::Starting | Role::Looking { .. } => (None, zxid.epoch()),
    };
    Health {
        id: shared.settings.me.0,
        mode: mode(shared).to_owned(),
        leader,
        epoch: epoch.0,
        zxid: hex(zxid),
        quorum: leader.is_some(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// `GET /v1/ensemble`.
pub(crate) async fn ensemble(State(shared): State<Arc<Shared>>) -> Result<Response, ApiError> {
    ask(&shared, Question::Ensemble).await.map(|ensemble| page(&ensemble)).ok_or_else(ApiError::busy)
}

/// `GET /v1/oracle`: the part of `/v1/ensemble` that `PUT` changes.
pub(crate) async fn oracle(State(shared): State<Arc<Shared>>) -> Result<Response, ApiError> {
    ask(&shared, Question::Oracle).await.map(|oracle| page(&oracle)).ok_or_else(ApiError::busy)
}

pub(crate) fn ensemble_of(driver: &Driver) -> Ensemble {
    let serving = driver.node.serving();
    let leader = serving.map(|(leader, _)| leader);
    let epoch = serving.map_or(driver.node.zab().standing().current_epoch, |(_, epoch)| epoch);
    let savings = driver.node.direct_savings(driver.shared.clock.now());
    Ensemble {
        leader: leader.map(|id| id.0),
        epoch: epoch.0,
        oracle: oracle_of(driver),
        servers: driver.node.config().members.iter().map(|id| server_of(driver, id, leader, &savings)).collect(),
        quorum: quorum_of(driver),
    }
}

fn quorum_of(driver: &Driver) -> Quorum {
    let node = &driver.node;
    let voters = node.config().voters();
    let fatal = voters.fatal_failures(|id| id != driver.shared.settings.me && !node.is_alive(id));
    Quorum {
        voters: voters.iter().map(|id| id.0).collect(),
        survives: fatal.len().saturating_sub(1) as u64,
        fatal: fatal.into_iter().map(|id| id.0).collect(),
    }
}

fn server_of(driver: &Driver, id: ServerId, leader: Option<ServerId>, savings: &BTreeMap<ServerId, Span>) -> Server {
    let (node, now) = (&driver.node, driver.shared.clock.now());
    let is_me = id == driver.shared.settings.me;
    let alive = node.is_alive(id);
    let own;
    let report = match is_me {
        true => {
            own = node.own_report(now);
            Some(&own)
        }
        false => node.measurements().last_report(id).map(|(report, _)| report),
    };
    // A follower's acknowledgements are more recent than its last heartbeat, and a leader has everything committed.
    let acked = node.zab().followers().find(|(follower, _)| *follower == id).map(|(_, acked)| acked);
    let committed = (leader == Some(id)).then(|| node.zab().committed());
    let zxid = report.map(|report| report.standing.last_zxid).max(acked).max(committed);
    let mode = match (is_me, alive) {
        (true, _) => Some(mode(&driver.shared)),
        (false, true) if leader == Some(id) => Some("leader"),
        (false, true) if leader.is_some() && node.config().members.observers().contains(&id) => Some("observer"),
        (false, true) if leader.is_some() => Some("follower"),
        (false, true) => Some("looking"),
        (false, false) => None,
    };
    Server {
        id: id.0,
        site: site(&driver.shared, id),
        mode: mode.map(str::to_owned),
        zxid: zxid.map(hex),
        rtt_ms: report.map(round_trips).unwrap_or_default(),
        write_rate: report.map(|report| report.rate_milli as f64 / 1000.0),
        fsync_p50_ms: report.map(|report| ms(report.fsync_p50)),
        fsync_p99_ms: report.map(|report| ms(report.fsync_p99)),
        bandwidth_mbit: report.map(bandwidths).unwrap_or_default(),
        direct_saving_ms: savings.get(&id).map(|saving| ms(*saving)),
        alive,
    }
}

fn round_trips(report: &Report) -> BTreeMap<u64, f64> {
    report.round_trips.iter().map(|(id, span)| (id.0, ms(*span))).collect()
}

fn bandwidths(report: &Report) -> BTreeMap<u64, f64> {
    // Bytes per second, in megabits with two digits.
    let mbit = |bytes: u64| (bytes as f64 * 8.0 / 1e4).round() / 100.0;
    report.bandwidths.iter().map(|(id, bytes)| (id.0, mbit(*bytes))).collect()
}

pub(crate) fn site(shared: &Shared, id: ServerId) -> Option<String> {
    let pole = &shared.settings.config.pole;
    let own = pole.site.as_ref().filter(|_| id == shared.settings.me);
    let placed = || pole.emulation.as_ref()?.topology.site(id.0).map(str::to_owned);
    own.cloned().or_else(placed)
}

pub(crate) fn oracle_of(driver: &Driver) -> OracleInForce {
    let Spec { name, params } = active_spec(driver);
    OracleInForce { name, version: hex(driver.node.oracle_version()), params }
}

/// The name by which the active oracle was chosen, such as `latency` even if it is divided into classes.
pub(crate) fn active_name(driver: &Driver) -> String {
    active_spec(driver).name
}

/// The specification of the active oracle: the ensemble's choice or, until there is one, that of the configuration.
pub(crate) fn active_spec(driver: &Driver) -> Spec {
    let active = driver.node.oracle();
    let is_active = |spec: &Spec| spec.build().is_ok_and(|oracle| oracle.fingerprint() == active.fingerprint());
    let chosen = || {
        let tree = driver.shared.tree.read();
        Spec::parse(std::str::from_utf8(tree.data(ORACLE_PATH)??).ok()?).ok()
    };
    let chosen = if driver.node.oracle_version() == Zxid::ZERO { None } else { chosen() };
    chosen.or_else(|| Some(driver.shared.settings.config.oracle())).filter(is_active).unwrap_or_else(|| {
        // This server could not build the chosen oracle and kept its previous one.
        Spec::new(active.name())
    })
}

/// A zxid as ZooKeeper's tools print it.
pub(crate) fn hex(zxid: Zxid) -> String {
    format!("{:#x}", zxid.0)
}
