//! Which change of the load or of the network would make another server the best leader.
//!
//! The scores are computed by the oracle itself, on views in which one thing is changed: the requests of a group of
//! servers, or the round trip between two. The least change of each kind is found by bisection, so each answer is a
//! change that was tried. A change that makes no other server best within the limits has no answer.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use pole_types::{ServerId, Span};

use crate::oracle::Oracle;
use crate::view::View;

/// A change after which another server would have the best score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhatIf {
    /// What is different.
    pub change: Change,
    /// The server that would be best.
    pub winner: ServerId,
}

/// One change of the measurements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The clients of these servers together write more or less, in thousandths of a request per second.
    Rate {
        /// The servers, whose rates change in proportion.
        servers: Vec<ServerId>,
        /// Now.
        from_milli: u64,
        /// After the change.
        to_milli: u64,
    },
    /// A link is slower or faster.
    RoundTrip {
        /// One end.
        a: ServerId,
        /// The other end.
        b: ServerId,
        /// Now.
        from: Span,
        /// After the change.
        to: Span,
    },
}

/// The server with the best score, among equals the one with the higher id.
#[must_use]
pub fn best(oracle: &dyn Oracle, views: &BTreeMap<ServerId, View>, epoch: u64) -> Option<ServerId> {
    let scores = views.iter().filter_map(|(id, view)| Some((oracle.assess(view, epoch)?.score, *id)));
    scores.min_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1))).map(|(_, id)| id)
}

/// The least changes after which another server would be best: more and fewer requests of each group, and each link slower
/// and faster. The views are those of all candidates.
#[must_use]
pub fn what_if(
    oracle: &dyn Oracle,
    views: &BTreeMap<ServerId, View>,
    groups: &[Vec<ServerId>],
    epoch: u64,
) -> Vec<WhatIf> {
    let Some(now) = best(oracle, views, epoch) else { return Vec::new() };
    let changed = |change: &Change| {
        let views = views.iter().map(|(id, view)| (*id, apply(change, view))).collect();
        best(oracle, &views, epoch).filter(|winner| *winner != now)
    };
    let rates = groups.iter().flat_map(|servers| rate_changes(views, servers));
    let links = links(views).into_iter().flat_map(link_changes);
    rates.chain(links).filter_map(|(change, limit)| least(&change, limit, &changed)).collect()
}

/// Finds the least change between `change`, which is none, and the limit.
fn least(change: &Change, limit: u64, changed: &dyn Fn(&Change) -> Option<ServerId>) -> Option<WhatIf> {
    let (mut near, mut far) = (value(change), limit);
    let mut found = WhatIf { change: with(change, far), winner: changed(&with(change, far))? };
    for _ in 0..STEPS_MAX {
        let middle = near.midpoint(far);
        if middle == near || middle == far {
            break;
        }
        match changed(&with(change, middle)) {
            Some(winner) => (far, found) = (middle, WhatIf { change: with(change, middle), winner }),
            None => near = middle,
        }
    }
    Some(found)
}

/// More and fewer requests of a group, each with the limit.
fn rate_changes(views: &BTreeMap<ServerId, View>, servers: &[ServerId]) -> Vec<(Change, u64)> {
    let Some(view) = views.values().next() else { return Vec::new() };
    let rate = |id: &ServerId| view.rates_milli().get(id).copied().unwrap_or(0);
    let total: u64 = view.rates_milli().keys().map(rate).sum();
    let from_milli = servers.iter().map(rate).sum();
    let change = Change::Rate { servers: servers.to_vec(), from_milli, to_milli: from_milli };
    let more = (change.clone(), from_milli.saturating_add(total.max(RATE_MILLI_MIN).saturating_mul(MORE_MAX)));
    match from_milli {
        0 => Vec::from([more]),
        _ => Vec::from([more, (change, 0)]),
    }
}

/// The links between candidates, with their round trips.
fn links(views: &BTreeMap<ServerId, View>) -> Vec<(ServerId, ServerId, Span)> {
    let mut found = Vec::new();
    for (a, view) in views {
        for b in views.keys().filter(|b| *b > a) {
            found.extend(view.round_trip_between(*a, *b).map(|span| (*a, *b, span)));
        }
    }
    found
}

/// A slower and a faster link, each with the limit.
fn link_changes((a, b, from): (ServerId, ServerId, Span)) -> [(Change, u64); 2] {
    let change = Change::RoundTrip { a, b, from, to: from };
    [(change.clone(), from.0.max(Span::from_ms(1).0).saturating_mul(MORE_MAX)), (change, 0)]
}

fn value(change: &Change) -> u64 {
    match change {
        Change::Rate { to_milli, .. } => *to_milli,
        Change::RoundTrip { to, .. } => to.0,
    }
}

fn with(change: &Change, value: u64) -> Change {
    match change.clone() {
        Change::Rate { servers, from_milli, .. } => Change::Rate { servers, from_milli, to_milli: value },
        Change::RoundTrip { a, b, from, .. } => Change::RoundTrip { a, b, from, to: Span(value) },
    }
}

fn apply(change: &Change, view: &View) -> View {
    match change {
        Change::RoundTrip { a, b, to, .. } => view.with_round_trip(*a, *b, *to),
        Change::Rate { servers, from_milli, to_milli } => {
            let rate = |id: &ServerId| view.rates_milli().get(id).copied().unwrap_or(0);
            let share = |id: &ServerId| match *from_milli {
                0 => to_milli / servers.len().max(1) as u64,
                from => {
                    let scaled = u128::from(rate(id)) * u128::from(*to_milli) / u128::from(from);
                    u64::try_from(scaled).unwrap_or(u64::MAX)
                }
            };
            servers.iter().fold(view.clone(), |view, id| view.with_rate(*id, share(id)))
        }
    }
}

/// A change by more than this factor is no answer that helps anybody.
const MORE_MAX: u64 = 20;

/// With no load at all, what a single busy client would bring.
const RATE_MILLI_MIN: u64 = 100_000;

/// Halvings of the interval: a thousandth of a per cent.
const STEPS_MAX: usize = 24;
