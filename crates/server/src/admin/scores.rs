//! `GET /v1/scores`: the scores of all servers under every oracle.
//!
//! With `?kind=before-resignation`, the default, the scores assume that the leader stays as a follower, so it is in the
//! list. With `?kind=after-crash` they assume that the leader is gone.
//!
//! Under the active oracle, the scores that the servers reported count. Under another oracle this server computes them
//! from the last reports of the others.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;
use pole_api::{OracleScores, Scores, ServerScore};
use pole_election::Score;
use pole_oracle::{Assessed, Moment, Oracle, View, display_inputs};
use pole_types::ServerId;

use super::error::ApiError;
use super::page;
use super::v1::active_name;
use crate::driver::Driver;
use crate::metrics::for_each_oracle;
use crate::question::{Question, ask};
use crate::shared::Shared;

pub(crate) async fn scores(
    State(shared): State<Arc<Shared>>,
    Query(params): Query<HashMap<String, String>>,
) -> Result<Response, ApiError> {
    let moment = match params.get("kind").map(String::as_str) {
        None | Some("before-resignation") => Moment::BeforeResignation,
        Some("after-crash") => Moment::AfterCrash,
        Some(other) => {
            let error = format!("kind \"{other}\": expected after-crash or before-resignation");
            return Err(ApiError::bad_value(error));
        }
    };
    let scores = ask(&shared, |reply| Question::Scores { moment, reply }).await;
    scores.map(|scores| page(&scores)).ok_or_else(ApiError::busy)
}

pub(crate) fn scores_of(driver: &Driver, moment: Moment) -> Scores {
    let mut oracles = BTreeMap::new();
    let active = active_name(driver);
    let in_force = driver.node.oracle().fingerprint();
    let views = driver.node.views(moment, driver.shared.clock.now());
    for_each_oracle(driver, |name, oracle| {
        // The active one is listed under the name by which it was chosen.
        let name = if oracle.fingerprint() == in_force { &active } else { name };
        oracles.insert(name.to_owned(), oracle_scores(driver, oracle, &views));
    });
    let kind = match moment {
        Moment::AfterCrash => "after-crash",
        Moment::BeforeResignation => "before-resignation",
    };
    Scores { active, kind: kind.to_owned(), oracles }
}

fn oracle_scores(driver: &Driver, oracle: &dyn Oracle, views: &BTreeMap<ServerId, Option<View>>) -> OracleScores {
    let now = driver.shared.clock.now();
    let score = |view: &Option<View>| driver.node.score(oracle, view.as_ref()?, now);
    let scores: BTreeMap<_, _> = views.iter().map(|(id, view)| (*id, score(view))).collect();
    let known = scores.iter().filter_map(|(id, assessed)| Some((&assessed.as_ref()?.score, *id)));
    let winner = known.min_by(|a, b| better(*a, *b)).map(|(_, id)| id.0);
    let scale = oracle.scale();
    OracleScores {
        better: scale.better.as_str().to_owned(),
        unit: scale.unit.to_owned(),
        winner,
        servers: scores.iter().map(|(id, assessed)| (id.0, server_score(oracle, assessed.as_ref()))).collect(),
    }
}

/// Orders servers as an election does: by smaller score, then by higher id.
fn better(a: (&Score, ServerId), b: (&Score, ServerId)) -> std::cmp::Ordering {
    a.0.cmp(b.0).then(b.1.cmp(&a.1))
}

fn server_score(oracle: &dyn Oracle, assessed: Option<&Assessed>) -> ServerScore {
    match assessed {
        None => ServerScore::default(),
        Some(known) => ServerScore {
            score: Some(oracle.value(&known.score)),
            known: true,
            inputs: display_inputs(&known.inputs).into_iter().collect(),
        },
    }
}
