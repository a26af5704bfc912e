//! `rotating`: the servers lead in turn, one election each.
//!
//! Always known. If the server whose turn it is has failed, the others are equal and the id decides. As in the paper,
//! of five servers p5 has the epochs that are 0 mod 5, and p1 the next ones.

use pole_election::Score;

use crate::oracle::{Assessed, Better, InvalidScore, Oracle, Scale};
use crate::view::View;

/// Scores by turn: 0 for the server whose turn it is, 1 for the others (smaller is better).
#[derive(Clone, Copy, Debug, Default)]
pub struct Rotating;

impl Oracle for Rotating {
    fn name(&self) -> &str {
        "rotating"
    }

    fn assess(&self, view: &View, epoch: u64) -> Option<Assessed> {
        let candidates = || view.voters().iter().filter(|id| view.voters().may_lead(*id));
        let voters = candidates().count() as u64;
        let place = candidates().position(|id| id == view.me())? as u64;
        // Of five servers, the first has the epochs 1, 6, 11, … and the last 5, 10, 15, ….
        let turn = epoch % voters == (place + 1) % voters;
        Some(Assessed::new(i64::from(!turn), &[("turn", turn.into()), ("place", place as i64 + 1)]))
    }

    fn validate(&self, score: &Score) -> Result<(), InvalidScore> {
        InvalidScore::check(self.name(), score, &[(0, 1)])
    }

    /// The next election has another epoch.
    fn gossip_decides(&self) -> bool {
        false
    }

    fn clearly_worse(&self, _a: &Score, _b: &Score) -> bool {
        false
    }

    fn scale(&self) -> Scale {
        Scale { better: Better::Higher, ..Scale::PLAIN }
    }

    /// 1 for the server whose turn it is, as in the paper.
    fn value(&self, score: &Score) -> f64 {
        score.components().first().map_or(0.0, |component| 1.0 - *component as f64)
    }
}
