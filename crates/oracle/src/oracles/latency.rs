//! `latency`: prefers the server with the lowest mean request latency. θl = θc + the mean hop, lower is better.
//!
//! The hop is a round trip: the request travels to the leader and the commit travels back. The paper's printed
//! equation has the one-way delay, but its text and figures use the round trip.

use pole_election::Score;
use pole_types::Span;

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
        let (consensus, hop) = (consensus_time(view)?, hop_time(view));
        let rate = view.rates_milli().values().fold(0_u64, |sum, rate| sum.saturating_add(*rate));
        let inputs = [
            ("consensus_us", micros(consensus)),
            ("hop_us", micros(hop)),
            ("rate_milli", i64::try_from(rate).unwrap_or(i64::MAX)),
        ];
        Some(Assessed::new(micros(consensus.saturating_add(hop)), &inputs))
    }

    fn validate(&self, score: &Score) -> Result<(), InvalidScore> {
        InvalidScore::check(self.name(), score, &[(0, MICROS_MAX)])
    }

    fn scale(&self) -> Scale {
        Scale::TIME
    }
}

/// Σ θr(r)·RTT(i,r) / Σ θr(r) over r in N' and the observers, with [`View::distance`] for RTT. Without any requests all servers have the
/// same weight.
#[must_use]
pub fn hop_time(view: &View) -> Span {
    let rate = |id| view.rates_milli().get(&id).copied().unwrap_or(0);
    let idle = view.serving().iter().all(|id| rate(*id) == 0);
    let weight = |id| u128::from(if idle { 1 } else { rate(id) });
    // Cannot overflow: rates and round trips are clamped in `Measurements`.
    let weights: u128 = view.serving().iter().map(|id| weight(*id)).sum();
    let sum: u128 = view.serving().iter().map(|id| weight(*id) * u128::from(view.distance(*id).0)).sum();
    Span(u64::try_from(sum / weights.max(1)).unwrap_or(u64::MAX))
}
