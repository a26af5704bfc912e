//! Statistics that only the node's thread knows, read in one query.

use std::collections::BTreeMap;
use std::time::Duration;

use pole_node::{Milestone, Queues};
use pole_oracle::{Moment, Oracle, Spec};
use pole_tree::Refusals;
use pole_types::{Epoch, ServerId, Span, Time, Zxid};
use pole_zab::Phase;

use crate::driver::Driver;
use crate::question::{Question, ask};
use crate::shared::Shared;

/// The state of the node at one moment.
pub(crate) struct NodeStats {
    pub(crate) phase: Phase,
    pub(crate) epoch: Epoch,
    /// On the leader: its followers that vote.
    pub(crate) followers: Vec<Learner>,
    /// On the leader: its followers that do not vote.
    pub(crate) observers: Vec<Learner>,
    /// How long clients have been served under the current leader.
    pub(crate) serving_for: Option<Span>,
    pub(crate) pending_syncs: usize,
    pub(crate) queues: Queues,
    /// How often this server told the leader that it applies too slowly.
    pub(crate) lag_reports: u64,
    /// Requests that were refused because of a limit of the tree while this server led.
    pub(crate) refusals: Refusals,
    /// Reads answered by the node whose reply would have been too large.
    pub(crate) replies_over_limit: u64,
    /// The longest turn of the node's thread since the start.
    pub(crate) longest_turn: Duration,
    pub(crate) fsync_p50: Span,
    pub(crate) fsync_p99: Span,
    pub(crate) rate_milli: u64,
    pub(crate) oracle: String,
    pub(crate) round_trips: BTreeMap<ServerId, Span>,
    /// How often direct acknowledgements showed a commit here before the leader announced it.
    pub(crate) committed_directly: u64,
    /// What direct acknowledgements save the clients of followers.
    pub(crate) direct_savings: BTreeMap<ServerId, Span>,
}

/// A server that follows the leader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Learner {
    pub(crate) id: ServerId,
    /// The last transaction that it has acknowledged.
    pub(crate) acked: Zxid,
    /// Whether it has the history of the present epoch.
    pub(crate) synced: bool,
}

impl NodeStats {
    /// Returns `None` if the node does not answer in time.
    pub(crate) async fn query(shared: &Shared) -> Option<Self> {
        ask(shared, Question::Stats).await
    }

    pub(crate) fn of(driver: &Driver) -> Self {
        let now = driver.shared.clock.now();
        let node = &driver.node;
        let zab = node.zab();
        let standing = zab.standing();
        let last = zab.log().last();
        let learner = |(id, acked): (ServerId, Zxid)| Learner {
            id,
            acked,
            synced: acked == last || acked.epoch() == standing.current_epoch,
        };
        let (followers, observers) =
            zab.followers().map(learner).partition(|learner| node.config().voters().contains(learner.id));
        let report = node.own_report(now);
        Self {
            phase: zab.phase(),
            epoch: standing.current_epoch,
            followers,
            observers,
            serving_for: serving_since(driver).map(|since| now - since),
            pending_syncs: node.pending_syncs(),
            queues: node.queues(),
            lag_reports: node.lag_reports(),
            refusals: node.machine().refusals(),
            replies_over_limit: node.machine().replies_over_limit(),
            longest_turn: driver.longest_turn,
            fsync_p50: report.fsync_p50,
            fsync_p99: report.fsync_p99,
            rate_milli: report.rate_milli,
            oracle: node.oracle().name().to_owned(),
            round_trips: report.round_trips,
            committed_directly: node.committed_directly(),
            direct_savings: node.direct_savings(now),
        }
    }
}

fn serving_since(driver: &Driver) -> Option<Time> {
    let newest = driver.node.leadership_changes().next()?;
    newest.steps.iter().find(|(step, _)| *step == Milestone::Serving).map(|(_, after)| newest.began + *after)
}

/// Calls `visit` for each oracle that can be evaluated at any time: those without parameters, and the active one.
pub(crate) fn for_each_oracle(driver: &Driver, mut visit: impl FnMut(&str, &dyn Oracle)) {
    let active = driver.node.oracle();
    for name in Spec::NAMES.iter().filter(|name| **name != active.name()) {
        if let Ok(oracle) = Spec::new(name).build() {
            visit(name, oracle.as_ref());
        }
    }
    visit(active.name(), active);
}

/// The scores if the leader resigned now, by oracle and server, in the unit of the oracle.
pub(crate) async fn scores(shared: &Shared) -> Vec<(String, ServerId, f64)> {
    ask(shared, Question::ScoreMetrics).await.unwrap_or_default()
}

pub(crate) fn all_scores(driver: &Driver) -> Vec<(String, ServerId, f64)> {
    let now = driver.shared.clock.now();
    let views = driver.node.views(Moment::BeforeResignation, now);
    let mut scores = Vec::new();
    for_each_oracle(driver, |name, oracle| {
        for view in views.values().flatten() {
            let score = driver.node.score(oracle, view, now).map(|known| oracle.value(&known.score));
            scores.extend(score.map(|score| (name.to_owned(), view.me(), score)));
        }
    });
    scores
}
