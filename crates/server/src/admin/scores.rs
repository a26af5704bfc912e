//! `GET /v1/scores`: how each server would do as leader, under every oracle.
//!
//! `?kind=before-resignation` (unless told otherwise): the leader would stay as a follower, and stands in the list.
//! `?kind=after-crash`: the leader would be gone.
//! Under the oracle in force the others' own words count. Under another one this server computes what they would say,
//! from their last reports.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;
use pole_election::{Score, ServerId};
use pole_oracle::{Assessed, Moment, Oracle, View, shown};
use serde_json::{Map, Value, json};

use super::fault::Fault;
use super::v1::name_of_active;
use super::{look, page};
use crate::driver::Driver;
use crate::metrics::with_each_oracle;
use crate::shared::Shared;

pub(crate) async fn scores(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Response, Fault> {
    let moment = match query.get("kind").map(String::as_str) {
        None | Some("before-resignation") => Moment::BeforeResignation,
        Some("after-crash") => Moment::AfterCrash,
        Some(other) => {
            let error = format!("kind \"{other}\": expected after-crash or before-resignation");
            return Err(Fault::bad_value(error));
        }
    };
    look(&shared, move |driver| all(driver, moment)).await.map(|value| page(&value)).ok_or_else(Fault::busy)
}

fn all(driver: &Driver, moment: Moment) -> Value {
    let mut oracles = Map::new();
    let active = name_of_active(driver);
    let in_force = driver.node.oracle().fingerprint();
    let views = driver.node.views(moment, driver.shared.clock.now());
    with_each_oracle(driver, |name, oracle| {
        // The one in force stands under the name by which it was chosen.
        let name = if oracle.fingerprint() == in_force { &active } else { name };
        oracles.insert(name.to_owned(), of_oracle(driver, oracle, &views));
    });
    let kind = match moment {
        Moment::AfterCrash => "after-crash",
        Moment::BeforeResignation => "before-resignation",
    };
    json!({"active": active, "kind": kind, "oracles": oracles})
}

fn of_oracle(driver: &Driver, oracle: &dyn Oracle, views: &BTreeMap<ServerId, Option<View>>) -> Value {
    let now = driver.shared.clock.now();
    let score = |view: &Option<View>| driver.node.score(oracle, view.as_ref()?, now);
    let scores: BTreeMap<_, _> = views.iter().map(|(id, view)| (*id, score(view))).collect();
    let known = scores.iter().filter_map(|(id, assessed)| Some((&assessed.as_ref()?.score, *id)));
    let winner = known.min_by(|a, b| better(*a, *b)).map(|(_, id)| id.0);
    let servers: Map<String, Value> =
        scores.iter().map(|(id, assessed)| (id.to_string(), of_server(oracle, assessed.as_ref()))).collect();
    let scale = oracle.scale();
    json!({"better": scale.better.as_str(), "unit": scale.unit, "winner": winner, "servers": servers})
}

/// As an election compares: a smaller score, then a higher id.
fn better(a: (&Score, ServerId), b: (&Score, ServerId)) -> std::cmp::Ordering {
    a.0.cmp(b.0).then(b.1.cmp(&a.1))
}

fn of_server(oracle: &dyn Oracle, assessed: Option<&Assessed>) -> Value {
    match assessed {
        None => json!({"score": null, "known": false, "inputs": {}}),
        Some(known) => {
            json!({"score": oracle.value(&known.score), "known": true, "inputs": inputs(&known.inputs)})
        }
    }
}

/// What a score was made of, in units that people read.
pub(crate) fn inputs(inputs: &[(String, i64)]) -> Value {
    Value::Object(shown(inputs).into_iter().map(|(name, value)| (name, value.into())).collect())
}
