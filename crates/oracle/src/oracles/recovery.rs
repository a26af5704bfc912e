//! `recovery`: the server under which a quorum is in step soonest leads. Estimated time, lower is better.
//!
//! In: the positions and sizes of heartbeats, round trips and bandwidths. Out: the time to pull what this server lacks
//! from the best-stocked live server, plus the (quorum−1)-th smallest time to bring another server level.
//! Why: history alone picks a server that has everything but is far from those who have nothing (experiment 8b); a
//! latency oracle picks one that must first pull 250 MB (experiment 8a).
//! Holds: known only if a quorum's round trips and positions are.
//! Source: ours; the paper leaves the question open (section 5).

use alloc::vec::Vec;

use pole_election::{Score, ServerId, Span};

use crate::measure::Position;
use crate::oracle::{Assessed, InvalidScore, MICROS_MAX, Oracle, Scale, micros};
use crate::view::View;

/// Scores by the estimated time to recover, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovery;

impl Oracle for Recovery {
    fn name(&self) -> &str {
        "recovery"
    }

    fn assess(&self, view: &View, _epoch: u64) -> Option<Assessed> {
        let own = view.positions().get(&view.me())?;
        let best = reachable(view).map(|(_, position)| position).max_by_key(|position| position.standing.history())?;
        let (lacking, pull) = pull(view, own, best)?;
        let level = level(view, best)?;
        let inputs = [
            ("pull_us", micros(pull)),
            ("level_us", micros(level)),
            ("lacking_bytes", i64::try_from(lacking).unwrap_or(i64::MAX)),
        ];
        Some(Assessed::new(micros(pull.saturating_add(level)), &inputs))
    }

    fn validate(&self, score: &Score) -> Result<(), InvalidScore> {
        InvalidScore::check(self.name(), score, &[(0, MICROS_MAX)])
    }

    /// Positions change with every transaction.
    fn gossip_decides(&self) -> bool {
        false
    }

    fn clearly_worse(&self, _a: &Score, _b: &Score) -> bool {
        false
    }

    fn scale(&self) -> Scale {
        Scale::TIME
    }
}

/// The servers of N' whose position and round trip we know, this one included.
fn reachable(view: &View) -> impl Iterator<Item = (ServerId, &Position)> {
    view.positions().iter().filter(|(id, _)| view.round_trips().contains_key(id)).map(|(id, position)| (*id, position))
}

/// What this server lacks, and how long it takes to get it from whoever has it and is quickest.
fn pull(view: &View, own: &Position, best: &Position) -> Option<(u64, Span)> {
    if own.standing.history() == best.standing.history() {
        return Some((0, Span::ZERO));
    }
    let bytes = view.bytes_between(own, best);
    let sources = reachable(view).filter(|(_, position)| position.standing.history() == best.standing.history());
    sources.filter_map(|(id, _)| view.transfer_time(id, bytes)).min().map(|time| (bytes, time))
}

/// How long until a quorum is level, once this server is: followers are served side by side, the quorum's slowest ends it.
fn level(view: &View, best: &Position) -> Option<Span> {
    let followers = reachable(view).filter(|(id, _)| *id != view.me());
    let mut times: Vec<Span> =
        followers.filter_map(|(id, position)| view.transfer_time(id, view.bytes_between(position, best))).collect();
    times.sort_unstable();
    match view.voters().quorum() - 1 {
        0 => Some(Span::ZERO),
        needed => times.get(needed - 1).copied(),
    }
}
