//! `POST /v1/transfer`: hands the leadership over, and reports how long writes had to wait.
//!
//! The body names a target; without one, the server with the best score is chosen. The response names the new leader
//! and is sent once this server serves its clients under it.
//!
//! Any server accepts the request: a follower forwards it to the leader. The leader does not report a refusal back, so
//! on a follower a refusal shows as a timeout.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{ConnectInfo, State};
use axum::http::HeaderMap;
use axum::response::Response;
use pole_node::{ChangeStatus, Event, Milestone};
use pole_types::{ServerId, Time};
use pole_zab::Phase;
use serde_json::{Value, json};

use super::change::{check_permission, fields, whole_number};
use super::error::ApiError;
use super::listener::RemoteAddress;
use super::{page, query};
use crate::driver::Driver;
use crate::mailbox::Command;
use crate::metrics::ms;
use crate::shared::Shared;

pub(crate) async fn transfer(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(RemoteAddress(from)): ConnectInfo<RemoteAddress>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    check_permission(&shared, from, &headers)?;
    let fields = fields(body, &["to", "timeout_ms"])?;
    let limit_ms = whole_number(&fields, "timeout_ms", LIMIT_MS_DEFAULT, LIMIT_MS_MAX)?;
    let to = match fields.get("to") {
        None | Some(Value::Null) => None,
        Some(value) => {
            let id = value.as_u64().ok_or_else(|| ApiError::bad_value("to: expected the number of a server"))?;
            Some(ServerId(id))
        }
    };
    let (leader, began) = match query(&shared, move |driver| check(driver, to)).await.ok_or_else(ApiError::busy)?? {
        Precheck::AlreadyLeads { leader } => return Ok(answer(leader, 0.0)),
        Precheck::Allowed { leader, began } => (leader, began),
    };
    shared.mailbox.post(Command::Event(Event::Transfer { to }));
    let waiting = wait(&shared, began);
    let timed_out = || {
        let asked = if leader == shared.settings.me {
            String::new()
        } else {
            format!("; server {leader} may say why in its log")
        };
        ApiError::timeout(format!("no other leader after {limit_ms} ms: look at /v1/ensemble for who leads{asked}"))
    };
    let (leader, pause_ms) =
        tokio::time::timeout(Duration::from_millis(limit_ms), waiting).await.map_err(|_| timed_out())??;
    Ok(answer(leader, pause_ms))
}

fn answer(leader: ServerId, pause_ms: f64) -> Response {
    page(&json!({"leader": leader.0, "pause_ms": pause_ms}))
}

/// The result of the checks before a transfer.
enum Precheck {
    /// The target already leads.
    AlreadyLeads { leader: ServerId },
    /// The transfer may be requested. `began` is the start of the last recorded leadership change; the next one is
    /// ours.
    Allowed { leader: ServerId, began: Option<Time> },
}

/// Checks whether the transfer is possible, as far as this server knows.
fn check(driver: &Driver, to: Option<ServerId>) -> Result<Precheck, ApiError> {
    let (node, me) = (&driver.node, driver.shared.settings.me);
    let voters = &node.config().voters;
    if let Some(to) = to.filter(|to| !voters.contains(*to)) {
        return Err(ApiError::bad_value(format!("to: {to} is no server of this ensemble")));
    }
    let Some((leader, _)) = node.serving() else { return Err(ApiError::no_quorum()) };
    let allowed = Precheck::Allowed { leader, began: node.leadership_changes().next().map(|change| change.began) };
    if to == Some(leader) {
        return Ok(Precheck::AlreadyLeads { leader });
    }
    // Only the leader can check the rest.
    if leader != me {
        return Ok(allowed);
    }
    if voters.len() == 1 {
        return Err(ApiError::conflict("there is no other server to hand over to"));
    }
    if node.hand_over().is_some() {
        return Err(ApiError::conflict("another hand-over is under way: wait for it"));
    }
    if let Some(to) = to.filter(|to| node.zab().followers().all(|(id, _)| id != *to)) {
        return Err(ApiError::conflict(format!("server {to} does not follow: it is not caught up")));
    }
    Ok(allowed)
}

/// Waits until this server serves under the next leader. Returns that leader, and how long writes waited in ms.
async fn wait(shared: &Shared, before: Option<Time>) -> Result<(ServerId, f64), ApiError> {
    let mut frozen_at: Option<Time> = None;
    // A query runs before the events posted along with it; the next query sees their results.
    query(shared, |_| ()).await.ok_or_else(ApiError::busy)?;
    loop {
        // The error of the measurement: a write takes longer than this anyway.
        tokio::time::sleep(POLL_INTERVAL).await;
        let progress = query(shared, move |driver| Progress::of(driver, before)).await.ok_or_else(ApiError::busy)?;
        frozen_at = frozen_at.or(progress.frozen_at);
        match progress.state {
            TransferState::Preparing => {}
            TransferState::StillLeads => {
                let error =
                    "this server leads on: the target was not level within the time limit, or none is fit; see the log";
                return Err(ApiError::conflict(error));
            }
            TransferState::Serves { leader, began, at } => {
                let since = frozen_at.map_or(began, |frozen| frozen.min(began));
                return Ok((leader, ms(at - since)));
            }
        }
    }
}

/// The progress of a hand-over.
struct Progress {
    frozen_at: Option<Time>,
    state: TransferState,
}

enum TransferState {
    /// The hand-over is being prepared, or the next leader is taking over.
    Preparing,
    /// The hand-over was abandoned, and this server still leads.
    StillLeads,
    /// This server serves under the next leader.
    Serves { leader: ServerId, began: Time, at: Time },
}

impl Progress {
    fn of(driver: &Driver, before: Option<Time>) -> Self {
        let node = &driver.node;
        let now = driver.shared.clock.now();
        let frozen_at = node.hand_over().filter(|frozen| *frozen).map(|_| now);
        let newest = node.leadership_changes().next().filter(|change| Some(change.began) != before);
        let state = match newest {
            None if node.hand_over().is_none() && node.zab().phase() == Phase::Established => TransferState::StillLeads,
            None => TransferState::Preparing,
            Some(change) => {
                let served = change.steps.iter().find(|(step, _)| *step == Milestone::Serving);
                match (&change.status, change.winner, served) {
                    (ChangeStatus::Established(_), Some(leader), Some((_, after))) => {
                        TransferState::Serves { leader, began: change.began, at: change.began + *after }
                    }
                    (ChangeStatus::Open | ChangeStatus::Established(_) | ChangeStatus::Failed(_), _, _) => {
                        TransferState::Preparing
                    }
                }
            }
        };
        Self { frozen_at, state }
    }
}

/// The default of `pole transfer`.
const LIMIT_MS_DEFAULT: u64 = 5_000;

/// A hand-over that takes longer than a minute has failed.
const LIMIT_MS_MAX: u64 = 60_000;

/// Short, because a hand-over takes only a few milliseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
