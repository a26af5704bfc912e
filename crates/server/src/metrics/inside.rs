//! What only the node's thread knows, asked for once.

use std::collections::BTreeMap;
use std::time::Duration;

use pole_election::{Epoch, ServerId, Span};
use pole_node::{Milestone, Queues};
use pole_oracle::{Moment, Oracle, Spec, Time};
use pole_tree::Refusals;
use pole_zab::Phase;

use crate::admin::look;
use crate::driver::Driver;
use crate::shared::Shared;

/// The node at one moment.
pub(crate) struct Inside {
    pub(crate) phase: Phase,
    pub(crate) epoch: Epoch,
    /// As leader: those who follow, and those of them who are level.
    pub(crate) learners: usize,
    pub(crate) synced: usize,
    /// Since when clients are served under the present leader.
    pub(crate) served: Option<Span>,
    pub(crate) pending_syncs: usize,
    pub(crate) queues: Queues,
    /// Requests that exceeded a limit of the tree while this server led.
    pub(crate) refusals: Refusals,
    /// Reads that the node answered and whose reply would have been too large.
    pub(crate) replies_over_limit: u64,
    /// The longest turn of the node's thread so far.
    pub(crate) longest_turn: Duration,
    /// Processor time spent on waiting awake.
    pub(crate) awake: Duration,
    pub(crate) fsync_p50: Span,
    pub(crate) fsync_p99: Span,
    pub(crate) rate_milli: u64,
    pub(crate) oracle: String,
    pub(crate) round_trips: BTreeMap<ServerId, Span>,
}

impl Inside {
    /// None if the node does not answer.
    pub(crate) async fn look(shared: &Shared) -> Option<Self> {
        look(shared, Self::of).await
    }

    fn of(driver: &mut Driver) -> Self {
        let now = driver.shared.clock.now();
        let node = &driver.node;
        let zab = node.zab();
        let standing = zab.standing();
        let last = zab.log().last();
        let is_level = |acked: pole_election::Zxid| acked == last || acked.epoch() == standing.current_epoch;
        let report = node.own_report(now);
        Self {
            phase: zab.phase(),
            epoch: standing.current_epoch,
            learners: zab.followers().count(),
            synced: zab.followers().filter(|(_, acked)| is_level(*acked)).count(),
            served: served_since(driver).map(|since| now - since),
            pending_syncs: node.pending_syncs(),
            queues: node.queues(),
            refusals: node.machine().refusals(),
            replies_over_limit: node.machine().replies_over_limit(),
            longest_turn: driver.longest_turn,
            awake: driver.awake.spent(),
            fsync_p50: report.fsync_p50,
            fsync_p99: report.fsync_p99,
            rate_milli: report.rate_milli,
            oracle: node.oracle().name().to_owned(),
            round_trips: report.round_trips,
        }
    }
}

fn served_since(driver: &Driver) -> Option<Time> {
    let newest = driver.node.accounts().next()?;
    newest.steps.iter().find(|(step, _)| *step == Milestone::Serving).map(|(_, after)| newest.began + *after)
}

/// The oracles that can be asked at any time: those without parameters, and the one in force.
pub(crate) fn with_each_oracle(driver: &Driver, mut ask: impl FnMut(&str, &dyn Oracle)) {
    let active = driver.node.oracle();
    for name in Spec::NAMES.iter().filter(|name| **name != active.name()) {
        if let Ok(oracle) = Spec::new(name).build() {
            ask(name, oracle.as_ref());
        }
    }
    ask(active.name(), active);
}

/// Scores if the leader resigned now, by oracle and server, as humans read them.
pub(crate) async fn scores(shared: &Shared) -> Vec<(String, ServerId, f64)> {
    look(shared, |driver| all_scores(driver)).await.unwrap_or_default()
}

fn all_scores(driver: &Driver) -> Vec<(String, ServerId, f64)> {
    let now = driver.shared.clock.now();
    let views = driver.node.views(Moment::BeforeResignation, now);
    let mut scores = Vec::new();
    with_each_oracle(driver, |name, oracle| {
        for view in views.values().flatten() {
            let score = driver.node.score(oracle, view, now).map(|known| oracle.value(&known.score));
            scores.extend(score.map(|score| (name.to_owned(), view.me(), score)));
        }
    });
    scores
}
