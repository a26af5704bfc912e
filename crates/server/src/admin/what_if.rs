//! `GET /v1/whatif`: which change of the load or of a link would make another server the best leader.
//!
//! The oracle in force computes the scores, on the views of this server with one thing changed
//! (`pole_oracle::what_if`). It says who would be best, not that there would be a change at once: a leader gives way only
//! if another one stays better for a while (`pole.resign.*`).

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use pole_api::{WhatIf, WhatIfs};
use pole_oracle::{Change, Moment, best, what_if};
use pole_types::ServerId;

use super::error::ApiError;
use super::page;
use super::v1::{active_name, site};
use crate::driver::Driver;
use crate::question::{Question, ask};
use crate::shared::Shared;

pub(crate) async fn page_of(State(shared): State<Arc<Shared>>) -> Result<Response, ApiError> {
    let answer = ask(&shared, Question::WhatIf).await;
    answer.map(|answer| page(&answer)).ok_or_else(ApiError::busy)
}

pub(crate) fn what_ifs(driver: &Driver) -> WhatIfs {
    let now = driver.shared.clock.now();
    let views = driver.node.views(Moment::BeforeResignation, now);
    let views: BTreeMap<_, _> = views.into_iter().filter_map(|(id, view)| Some((id, view?))).collect();
    let (oracle, epoch) = (driver.node.oracle(), driver.node.next_epoch());
    let groups = groups(&driver.shared, views.keys().copied());
    let servers: Vec<Vec<ServerId>> = groups.values().cloned().collect();
    let mut changes: Vec<WhatIf> = match oracle.gossip_decides() {
        // Such a score changes with every transaction or election, whatever is measured.
        false => Vec::new(),
        true => what_if(oracle, &views, &servers, epoch).into_iter().map(|found| described(&found, &groups)).collect(),
    };
    changes.sort_by(|a, b| extent(a).total_cmp(&extent(b)));
    WhatIfs { oracle: active_name(driver), best: best(oracle, &views, epoch).map(|id| id.0), changes }
}

/// The servers of each site; one whose site is not known is by itself.
fn groups(shared: &Shared, servers: impl Iterator<Item = ServerId>) -> BTreeMap<(Option<String>, u64), Vec<ServerId>> {
    let mut groups: BTreeMap<_, Vec<ServerId>> = BTreeMap::new();
    for id in servers {
        let site = site(shared, id);
        let alone = if site.is_some() { 0 } else { id.0 };
        groups.entry((site, alone)).or_default().push(id);
    }
    groups
}

fn described(found: &pole_oracle::WhatIf, groups: &BTreeMap<(Option<String>, u64), Vec<ServerId>>) -> WhatIf {
    let winner = found.winner.0;
    match &found.change {
        Change::Rate { servers, from_milli, to_milli } => WhatIf {
            kind: "rate".to_owned(),
            servers: servers.iter().map(|id| id.0).collect(),
            site: groups.iter().find(|(_, group)| *group == servers).and_then(|((site, _), _)| site.clone()),
            from: *from_milli as f64 / 1_000.0,
            to: *to_milli as f64 / 1_000.0,
            unit: "1/s".to_owned(),
            winner,
        },
        Change::RoundTrip { a, b, from, to } => WhatIf {
            kind: "round-trip".to_owned(),
            servers: vec![a.0, b.0],
            site: None,
            from: from.0 as f64 / 1_000_000.0,
            to: to.0 as f64 / 1_000_000.0,
            unit: "ms".to_owned(),
            winner,
        },
    }
}

/// How large a change is, as a factor: twice as much and half as much are equally large.
fn extent(change: &WhatIf) -> f64 {
    let ratio = change.to.max(1e-3) / change.from.max(1e-3);
    ratio.max(1.0 / ratio)
}
