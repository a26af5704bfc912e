//! `POST /v1/transfer`: hands the leadership over, and reports how long writes had to wait.
//!
//! The body names a target; without one, the server with the best score is chosen. The response names the new leader
//! and is sent once this server serves its clients under it.
//!
//! Any server accepts the request: a follower forwards it to the leader. A refusal of the leader comes back the same
//! way.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{ConnectInfo, State};
use axum::http::HeaderMap;
use axum::response::Response;
use pole_api::{Transfer, Transferred};
use pole_node::{ChangeStatus, Event, Milestone, TransferRefusal};
use pole_types::{ServerId, Time};

use super::access::check_change;
use super::change::{body_of, within};
use super::error::ApiError;
use super::listener::RemoteAddress;
use super::page;
use crate::driver::Driver;
use crate::metrics::ms;
use crate::question::{Question, Reply, ask_within};
use crate::shared::Shared;

pub(crate) async fn transfer(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(RemoteAddress(from, _)): ConnectInfo<RemoteAddress>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    check_change(&shared, from, &headers)?;
    let Transfer { to, timeout_ms } = body_of(body)?;
    let limit_ms = within("timeout_ms", timeout_ms.unwrap_or(LIMIT_MS_DEFAULT), LIMIT_MS_MAX)?;
    let to = to.map(ServerId);
    let limit = Duration::from_millis(limit_ms);
    match ask_within(&shared, limit, |reply| Question::Transfer { to, reply }).await {
        Some(Ok(transferred)) => Ok(page(&transferred)),
        Some(Err(TransferError::NoSuchServer(id))) => {
            Err(ApiError::bad_value(format!("to: {id} is no server of this ensemble")))
        }
        Some(Err(TransferError::NoQuorum)) => Err(ApiError::no_quorum()),
        Some(Err(TransferError::Refused(refusal))) => Err(ApiError::conflict(refusal.to_string())),
        None => {
            let error = format!("no other leader after {limit_ms} ms: look at /v1/ensemble for who leads");
            Err(ApiError::timeout(error))
        }
    }
}

/// Why leadership was not handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferError {
    /// The target is not a voter of the ensemble.
    NoSuchServer(ServerId),
    /// Nobody leads.
    NoQuorum,
    /// The leader does not hand over.
    Refused(TransferRefusal),
}

/// A hand-over that somebody waits for.
pub(crate) struct PendingTransfer {
    /// The start of the last leadership change that was recorded before; the next one is ours.
    before: Option<Time>,
    /// When the leader, if this is it, stopped to propose.
    frozen_at: Option<Time>,
    reply: Reply<Result<Transferred, TransferError>>,
}

impl Driver {
    /// Requests a hand-over, and keeps the question until it is settled.
    pub(crate) fn begin_transfer(&mut self, to: Option<ServerId>, reply: Reply<Result<Transferred, TransferError>>) {
        let newest = self.node.leadership_changes().next().map(|change| change.began);
        let refusal = match (to, self.node.serving()) {
            (Some(to), _) if !self.node.config().members.contains(to) => Err(TransferError::NoSuchServer(to)),
            (_, None) => Err(TransferError::NoQuorum),
            (Some(to), Some((leader, _))) if to == leader => Ok(Transferred { leader: leader.0, pause_ms: 0.0 }),
            _ if self.transfers.len() >= PENDING_MAX => Err(TransferError::Refused(TransferRefusal::UnderWay)),
            _ => {
                self.transfers.push(PendingTransfer { before: newest, frozen_at: None, reply });
                return self.events.push(Event::Transfer { to });
            }
        };
        // The receiver may have timed out, which is no error.
        drop(reply.send(refusal));
    }

    /// The leader refused a hand-over that was requested here. If another one is under way, that is the answer to the
    /// last request; those before it still wait for the other one. Any other reason concerns all of them.
    pub(crate) fn refuse_transfers(&mut self, refusal: TransferRefusal) {
        let first = match refusal {
            TransferRefusal::UnderWay => self.transfers.len().saturating_sub(1),
            TransferRefusal::NotLeading
            | TransferRefusal::Alone
            | TransferRefusal::MayNotLead(_)
            | TransferRefusal::NotFollowing(_)
            | TransferRefusal::NoneFit
            | TransferRefusal::NotLevel(_) => 0,
        };
        for pending in self.transfers.drain(first..) {
            drop(pending.reply.send(Err(TransferError::Refused(refusal))));
        }
    }

    /// Answers those whose hand-over is complete. Called after every turn.
    pub(crate) fn settle_transfers(&mut self) {
        if self.transfers.is_empty() {
            return;
        }
        let frozen_at = self.node.hand_over().filter(|frozen| *frozen).map(|_| self.shared.clock.now());
        let newest = self.node.leadership_changes().next();
        let served = newest.and_then(|change| {
            let (_, after) = change.steps.iter().find(|(step, _)| *step == Milestone::Serving)?;
            let established = matches!(change.status, ChangeStatus::Established(_));
            change.winner.filter(|_| established).map(|leader| (leader, change.began, change.began + *after))
        });
        for mut pending in std::mem::take(&mut self.transfers) {
            pending.frozen_at = pending.frozen_at.or(frozen_at);
            match served.filter(|(_, began, _)| Some(*began) != pending.before) {
                Some((leader, began, at)) => {
                    let since = pending.frozen_at.map_or(began, |frozen| frozen.min(began));
                    let transferred = Transferred { leader: leader.0, pause_ms: ms(at - since) };
                    drop(pending.reply.send(Ok(transferred)));
                }
                None if pending.reply.is_closed() => {}
                None => self.transfers.push(pending),
            }
        }
    }
}

/// The default of `pole transfer`.
const LIMIT_MS_DEFAULT: u64 = 5_000;

/// A hand-over that takes longer than a minute has failed.
const LIMIT_MS_MAX: u64 = 60_000;

/// More operators than ask at once for the same thing.
const PENDING_MAX: usize = 16;
