//! `GET /v1/election?last=N`: the last elections and hand-overs as seen by this server, newest first.
//!
//! They explain why the current leader leads: by the scores that decided the election, not by those of now.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;
use pole_api::{Election, Step, words};
use pole_election::{Margin, Proposal, Rank, Ranked, Record, Score};
use pole_node::{ChangeStatus, LeadershipChange};
use pole_oracle::{Oracle, Spec, display_inputs};

use super::error::ApiError;
use super::page;
use super::v1::hex;
use crate::clock::wall_ms;
use crate::driver::Driver;
use crate::metrics::ms;
use crate::question::{Question, ask};
use crate::shared::Shared;

pub(crate) async fn elections(
    State(shared): State<Arc<Shared>>,
    Query(params): Query<HashMap<String, String>>,
) -> Result<Response, ApiError> {
    let last = match params.get("last").map(|text| text.parse()) {
        None => usize::MAX,
        Some(Ok(count @ 1..)) => count,
        Some(Ok(_) | Err(_)) => return Err(ApiError::bad_value("last: expected a whole number from 1")),
    };
    let elections = ask(&shared, |reply| Question::Elections { last, reply }).await;
    elections.map(|elections| page(&elections)).ok_or_else(ApiError::busy)
}

pub(crate) fn elections_of(driver: &Driver, last: usize) -> Vec<Election> {
    let oracles = Oracles::known_to(driver);
    driver.node.leadership_changes().take(last).map(|change| election_of(driver, &oracles, change)).collect()
}

fn election_of(driver: &Driver, oracles: &Oracles, change: &LeadershipChange) -> Election {
    let ago_ms = (driver.shared.clock.now() - change.began).0 / 1_000_000;
    let (ended, epoch, reason) = match &change.status {
        ChangeStatus::Open => ("open", change.round.epoch, String::new()),
        ChangeStatus::Established(epoch) => ("established", u64::from(epoch.0), String::new()),
        ChangeStatus::Failed(reason) => ("failed", change.round.epoch, reason.clone()),
    };
    let record = change.record.as_ref();
    let choice = record.and_then(|record| winning_proposal(record));
    let oracle = choice.and_then(|proposal| oracles.by_fingerprint(proposal.fingerprint));
    let steps = change.steps.iter().map(|(step, after)| Step { step: step.to_string(), ms: ms(*after) });
    let mut election = Election {
        epoch,
        at_ms: wall_ms() - i64::try_from(ago_ms).unwrap_or(0),
        cause: change.cause.to_string(),
        oracle: oracle.map(|(name, _)| name.to_owned()),
        unit: oracle.map(|(_, oracle)| oracle.scale().unit.to_owned()).unwrap_or_default(),
        better: oracle.map(|(_, oracle)| oracle.scale().better.as_str().to_owned()).unwrap_or_default(),
        oracle_version: choice.map(|proposal| hex(proposal.version)),
        participants: record.iter().flat_map(|record| &record.participants).map(|id| id.0).collect(),
        proposals: record.map(|record| proposals(oracles, record)).unwrap_or_default(),
        failed_rounds: record.map_or(change.round.failed, |record| record.failed_rounds),
        winner: change.winner.map(|id| id.0),
        // None for a hand-over, which the previous leader decided.
        decided_by: record.map(|record| record.decided_by.to_string()),
        runner_up: record.and_then(|record| record.runner_up).map(|id| id.0),
        margin: record.and_then(|record| margin(record, oracle.map(|(_, oracle)| oracle))),
        steps: steps.collect(),
        ended: ended.to_owned(),
        reason,
        headline: String::new(),
        explanation: String::new(),
    };
    election.headline = words::headline(&election);
    election.explanation = words::explanation(&election);
    election
}

fn winning_proposal(record: &Record) -> Option<&Proposal> {
    record.proposals.iter().map(|ranked| &ranked.proposal).find(|proposal| proposal.id == record.winner)
}

fn proposals(oracles: &Oracles, record: &Record) -> Vec<pole_api::Proposal> {
    record.proposals.iter().map(|ranked| proposal_of(oracles, ranked)).collect()
}

fn proposal_of(oracles: &Oracles, Ranked { proposal, able }: &Ranked) -> pole_api::Proposal {
    let score = match &proposal.rank {
        Rank::Known(score) => oracles.by_fingerprint(proposal.fingerprint).map(|(_, oracle)| oracle.value(score)),
        Rank::Unknown => None,
    };
    let inputs: Vec<(String, i64)> = proposal.inputs.iter().map(|input| (input.name.clone(), input.value)).collect();
    pole_api::Proposal {
        id: proposal.id.0,
        score,
        known: matches!(proposal.rank, Rank::Known(_)),
        zxid: hex(proposal.standing.last_zxid),
        able: *able,
        inputs: display_inputs(&inputs).into_iter().collect(),
    }
}

/// By how much the winner was better, in the unit of the oracle; `None` if no number decided.
fn margin(record: &Record, oracle: Option<&dyn Oracle>) -> Option<f64> {
    match record.margin? {
        Margin::Score { place: 0, winner: Some(winner), runner_up: Some(second) } => {
            let value = |component| oracle.map(|oracle| oracle.value(&Score::from(component)));
            // Scores have a resolution of a millionth or less; further digits are rounding errors of the subtraction.
            Some(((value(winner)? - value(second)?).abs() * 1e6).round() / 1e6)
        }
        Margin::Score { winner: Some(winner), runner_up: Some(second), .. } => Some(second as f64 - winner as f64),
        Margin::Id { .. } => Some(0.0),
        Margin::Score { .. } | Margin::Able | Margin::Version { .. } | Margin::Fingerprint { .. } => None,
        Margin::History { .. } => None,
    }
}

/// The oracles by which proposals may have been scored, as far as this server knows their names.
struct Oracles(Vec<(String, Box<dyn Oracle>)>);

impl Oracles {
    fn known_to(driver: &Driver) -> Self {
        let configured = driver.shared.settings.config.oracle();
        let chosen = super::v1::active_spec(driver);
        let plain = Spec::NAMES.iter().map(|name| Spec::new(name));
        let specs = [chosen, configured].into_iter().chain(plain);
        Self(specs.filter_map(|spec| Some((spec.name.clone(), spec.build().ok()?))).collect())
    }

    fn by_fingerprint(&self, fingerprint: u64) -> Option<(&str, &dyn Oracle)> {
        let known = self.0.iter().find(|(_, oracle)| oracle.fingerprint() == fingerprint);
        known.map(|(name, oracle)| (name.as_str(), oracle.as_ref()))
    }
}
