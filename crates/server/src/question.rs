//! What other threads ask of the node's thread, and how they wait for the answer.
//!
//! A question carries the place for its answer. The node's thread answers between two turns; only a hand-over takes
//! longer, see `admin::transfer`.

use std::time::Duration;

use pole_api::{Election, Ensemble, OracleInForce, Scores, Transferred, WhatIfs};
use pole_oracle::{InvalidProbe, Moment};
use pole_types::{ServerId, SessionId, Span};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::admin::{DashboardState, ElectionsFingerprint, TransferError};
use crate::mailbox::Command;
use crate::metrics::NodeStats;
use crate::shared::Shared;

/// Where an answer goes. Its receiver may have timed out.
pub(crate) type Reply<T> = oneshot::Sender<T>;

/// A question for the node's thread, or a change that only it can make.
pub(crate) enum Question {
    /// Which servers there are, and who leads.
    Ensemble(Reply<Ensemble>),
    /// What makes a good leader.
    Oracle(Reply<OracleInForce>),
    /// How well each server would lead at this moment, by every oracle.
    Scores { moment: Moment, reply: Reply<Scores> },
    /// Which change would make another server the best leader.
    WhatIf(Reply<WhatIfs>),
    /// The last elections and hand-overs, newest first.
    Elections { last: usize, reply: Reply<Vec<Election>> },
    /// Everything that the dashboard shows. The elections are left out if they are those already `seen`.
    Dashboard { seen: Option<ElectionsFingerprint>, reply: Reply<DashboardState> },
    /// The state of the node, for metrics.
    Stats(Reply<NodeStats>),
    /// On the leader: how long each session still lasts unless its client is heard.
    SessionExpiries(Reply<Option<Vec<(SessionId, Span)>>>),
    /// The scores by oracle and server, for metrics.
    ScoreMetrics(Reply<Vec<(String, ServerId, f64)>>),
    /// Sets the score that a probe gives this server.
    RecordProbe { value: f64, ttl: Span, reply: Reply<Result<(), InvalidProbe>> },
    /// Hands leadership over. The answer comes when this server serves under the next leader, or when there will be
    /// none.
    Transfer { to: Option<ServerId>, reply: Reply<Result<Transferred, TransferError>> },
}

/// Asks the node's thread. Returns `None` if it did not answer in time or has ended.
pub(crate) async fn ask<T>(shared: &Shared, question: impl FnOnce(Reply<T>) -> Question) -> Option<T> {
    ask_within(shared, ANSWER_LIMIT, question).await
}

/// Like [`ask`], with a time limit of its own.
pub(crate) async fn ask_within<T>(
    shared: &Shared,
    limit: Duration,
    question: impl FnOnce(Reply<T>) -> Question,
) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    shared.mailbox.post(Command::Ask(question(reply)));
    timeout(limit, answer).await.ok()?.ok()
}

/// A turn takes milliseconds, unless the machine is suspended or swapping.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
