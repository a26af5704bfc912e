//! `worst-case`: prefers the server whose farthest clients wait least.
//!
//! θw = θc + the longest hop in N', lower is better, as in the paper; to an observer too, since its clients wait like
//! others. The hop is the round trip, less what direct acknowledgements save.

use pole_election::Score;

use crate::oracle::{Assessed, InvalidScore, MICROS_MAX, Oracle, Scale, micros};
use crate::oracles::{consensus_time, hop};
use crate::view::View;

/// Scores by the predicted latency of the slowest request, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorstCase;

impl Oracle for WorstCase {
    fn name(&self) -> &str {
        "worst-case"
    }

    fn assess(&self, view: &View, _epoch: u64) -> Option<Assessed> {
        let consensus = consensus_time(view)?;
        let farthest = view.serving().iter().map(|id| hop(view, consensus, *id)).max()?;
        let inputs = [("consensus_us", micros(consensus)), ("farthest_us", micros(farthest))];
        Some(Assessed::new(micros(consensus.saturating_add(farthest)), &inputs))
    }

    fn validate(&self, score: &Score) -> Result<(), InvalidScore> {
        InvalidScore::check(self.name(), score, &[(0, MICROS_MAX)])
    }

    fn scale(&self) -> Scale {
        Scale::TIME
    }
}
