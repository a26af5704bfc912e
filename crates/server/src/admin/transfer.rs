//! `POST /v1/transfer`: another leader, now, and how long clients waited for it.
//!
//! In: a target, or none for the best score. Out: the new leader, once it serves this server's clients.
//! On any server: a follower passes it on. What the leader thinks of it a follower is not told, so there a refusal shows as a time
//! limit that passes.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{ConnectInfo, State};
use axum::http::HeaderMap;
use axum::response::Response;
use pole_election::ServerId;
use pole_node::{Ended, Event, Milestone};
use pole_oracle::Time;
use pole_zab::Phase;
use serde_json::{Value, json};

use super::change::{fields, permit, whole};
use super::door::Caller;
use super::fault::Fault;
use super::{look, page};
use crate::driver::Driver;
use crate::mailbox::Letter;
use crate::metrics::ms;
use crate::shared::Shared;
use crate::status::Role;

pub(crate) async fn transfer(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(Caller(from)): ConnectInfo<Caller>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Fault> {
    permit(&shared, from, &headers)?;
    let fields = fields(body, &["to", "timeout_ms"])?;
    let limit_ms = whole(&fields, "timeout_ms", LIMIT_MS_DEFAULT, LIMIT_MS_MAX)?;
    let to = match fields.get("to") {
        None | Some(Value::Null) => None,
        Some(value) => {
            let id = value.as_u64().ok_or_else(|| Fault::bad_value("to: expected the number of a server"))?;
            Some(ServerId(id))
        }
    };
    let (leader, began) = match look(&shared, move |driver| check(driver, to)).await.ok_or_else(Fault::busy)?? {
        Start::Leads { leader } => return Ok(answer(leader, 0.0)),
        Start::May { leader, began } => (leader, began),
    };
    shared.mailbox.post(Letter::Event(Event::Transfer { to }));
    let waiting = wait(&shared, began);
    let late = || {
        let asked = if leader == shared.settings.me {
            String::new()
        } else {
            format!("; server {leader} may say why in its log")
        };
        Fault::timeout(format!("no other leader after {limit_ms} ms: look at /v1/ensemble for who leads{asked}"))
    };
    let (leader, pause_ms) =
        tokio::time::timeout(Duration::from_millis(limit_ms), waiting).await.map_err(|_| late())??;
    Ok(answer(leader, pause_ms))
}

fn answer(leader: ServerId, pause_ms: f64) -> Response {
    page(&json!({"leader": leader.0, "pause_ms": pause_ms}))
}

/// What there is to do.
enum Start {
    /// The target leads already.
    Leads { leader: ServerId },
    /// The last account of an election or a hand-over began then; the next one is ours.
    May { leader: ServerId, began: Option<Time> },
}

/// Whether it makes sense to ask the node.
fn check(driver: &Driver, to: Option<ServerId>) -> Result<Start, Fault> {
    let (node, me) = (&driver.node, driver.shared.settings.me);
    let voters = &node.config().voters;
    if let Some(to) = to.filter(|to| !voters.contains(*to)) {
        return Err(Fault::bad_value(format!("to: {to} is no server of this ensemble")));
    }
    let Role::Serving { leader, .. } = driver.shared.status.role() else { return Err(Fault::no_quorum()) };
    let may = Start::May { leader, began: node.accounts().next().map(|account| account.began) };
    if to == Some(leader) {
        return Ok(Start::Leads { leader });
    }
    // The rest only the leader knows.
    if leader != me {
        return Ok(may);
    }
    if voters.len() == 1 {
        return Err(Fault::conflict("there is no other server to hand over to"));
    }
    if node.hand_over().is_some() {
        return Err(Fault::conflict("another hand-over is under way: wait for it"));
    }
    if let Some(to) = to.filter(|to| node.zab().followers().all(|(id, _)| id != *to)) {
        return Err(Fault::conflict(format!("server {to} does not follow: it is not caught up")));
    }
    Ok(may)
}

/// Waits until this server serves under the next leader. Returns it, and how long writes waited.
async fn wait(shared: &Shared, before: Option<Time>) -> Result<(ServerId, f64), Fault> {
    let mut frozen_at: Option<Time> = None;
    // A look is answered before the events that came with it; the next one sees what they did.
    look(shared, |_| ()).await.ok_or_else(Fault::busy)?;
    loop {
        // Between two looks: a write waits for longer than this anyway.
        tokio::time::sleep(LOOK_EVERY).await;
        let seen = look(shared, move |driver| Seen::of(driver, before)).await.ok_or_else(Fault::busy)?;
        frozen_at = frozen_at.or(seen.frozen_at);
        match seen.state {
            Now::Preparing => {}
            Now::LeadsOn => {
                let error =
                    "this server leads on: the target was not level within the time limit, or none is fit; see the log";
                return Err(Fault::conflict(error));
            }
            Now::Serves { leader, began, at } => {
                let since = frozen_at.map_or(began, |frozen| frozen.min(began));
                return Ok((leader, ms(at - since)));
            }
        }
    }
}

/// A hand-over as it goes on.
struct Seen {
    frozen_at: Option<Time>,
    state: Now,
}

enum Now {
    /// It is being prepared, or the next leader takes over.
    Preparing,
    /// It was given up.
    LeadsOn,
    /// This server serves under the next leader.
    Serves { leader: ServerId, began: Time, at: Time },
}

impl Seen {
    fn of(driver: &Driver, before: Option<Time>) -> Self {
        let node = &driver.node;
        let now = driver.shared.clock.now();
        let frozen_at = node.hand_over().filter(|frozen| *frozen).map(|_| now);
        let newest = node.accounts().next().filter(|account| Some(account.began) != before);
        let state = match newest {
            None if node.hand_over().is_none() && node.zab().phase() == Phase::Established => Now::LeadsOn,
            None => Now::Preparing,
            Some(account) => {
                let served = account.steps.iter().find(|(step, _)| *step == Milestone::Serving);
                match (&account.ended, account.winner, served) {
                    (Ended::Established(_), Some(leader), Some((_, after))) => {
                        Now::Serves { leader, began: account.began, at: account.began + *after }
                    }
                    (Ended::Open | Ended::Established(_) | Ended::Failed(_), _, _) => Now::Preparing,
                }
            }
        };
        Self { frozen_at, state }
    }
}

/// As `pole transfer` waits.
const LIMIT_MS_DEFAULT: u64 = 5_000;

/// A minute: a hand-over that takes longer has failed.
const LIMIT_MS_MAX: u64 = 60_000;

/// A hand-over takes a few milliseconds.
const LOOK_EVERY: Duration = Duration::from_millis(1);
