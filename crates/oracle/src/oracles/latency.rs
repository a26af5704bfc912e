//! `latency`: prefers the server with the lowest mean request latency. θl = θc + the mean hop, lower is better.
//!
//! The hop is a round trip: the request travels to the leader and the commit travels back. The paper's printed
//! equation has the one-way delay, but its text and figures use the round trip.

use alloc::vec::Vec;

use pole_election::Score;
use pole_types::{ServerId, Span};

use crate::direct::saving_over;
use crate::oracle::{Assessed, InvalidScore, MICROS_MAX, Oracle, Scale, micros};
use crate::oracles::consensus_time;
use crate::view::View;

/// Scores by the predicted mean latency of a request, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latency;

impl Oracle for Latency {
    fn name(&self) -> &str {
        "latency"
    }

    fn assess(&self, view: &View, _epoch: u64) -> Option<Assessed> {
        let consensus = consensus_time(view)?;
        let hop = hop_time(view, consensus);
        let rate = view.rates_milli().values().fold(0_u64, |sum, rate| sum.saturating_add(*rate));
        let mut inputs = Vec::from([
            ("consensus_us", micros(consensus)),
            ("hop_us", micros(hop)),
            ("rate_milli", i64::try_from(rate).unwrap_or(i64::MAX)),
        ]);
        // Contained in the hop.
        let saved = mean(view, |id| saving_over(view, consensus, id));
        if saved > Span::ZERO {
            inputs.push(("direct_saves_us", micros(saved)));
        }
        Some(Assessed::new(micros(consensus.saturating_add(hop)), &inputs))
    }

    fn validate(&self, score: &Score) -> Result<(), InvalidScore> {
        InvalidScore::check(self.name(), score, &[(0, MICROS_MAX)])
    }

    fn scale(&self) -> Scale {
        Scale::TIME
    }
}

/// Σ θr(r)·hop(i,r) / Σ θr(r) over r in N' and the observers. The hop is RTT(i,r) without direct acknowledgements, as in the
/// paper. Without any requests all servers have the same weight.
#[must_use]
pub fn hop_time(view: &View, consensus: Span) -> Span {
    mean(view, |id| hop(view, consensus, id))
}

/// The mean over all requests of a value that depends on the server that gets the request.
fn mean(view: &View, value: impl Fn(ServerId) -> Span) -> Span {
    let rate = |id| view.rates_milli().get(&id).copied().unwrap_or(0);
    let idle = view.serving().iter().all(|id| rate(*id) == 0);
    let weight = |id| u128::from(if idle { 1 } else { rate(id) });
    // Cannot overflow: rates and round trips are clamped in `Measurements`.
    let weights: u128 = view.serving().iter().map(|id| weight(*id)).sum();
    let sum: u128 = view.serving().iter().map(|id| weight(*id) * u128::from(value(*id).0)).sum();
    Span(u64::try_from(sum / weights.max(1)).unwrap_or(u64::MAX))
}

/// How much longer than agreement, which takes `consensus`, a request of the clients of `id` takes: the round trip to the leader, less what direct
/// acknowledgements save.
#[must_use]
pub fn hop(view: &View, consensus: Span, id: ServerId) -> Span {
    Span(view.distance(id).0.saturating_sub(saving_over(view, consensus, id).0))
}
