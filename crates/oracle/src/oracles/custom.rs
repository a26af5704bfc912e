//! `custom`: whatever an external probe says, higher is better: load, cost, battery, anything.
//!
//! Holds: unknown without a probe's number or once its time is over, so that a dead probe does not make a leader.
//! Not here: the check of the number (`Measurements::record_probe`).

use pole_election::Score;

use crate::oracle::{Assessed, Better, InvalidScore, Oracle, Scale};
use crate::view::View;

/// Scores by the number of a probe: the negative of its thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Custom;

impl Oracle for Custom {
    fn name(&self) -> &str {
        "custom"
    }

    fn assess(&self, view: &View, _epoch: u64) -> Option<Assessed> {
        let milli = view.probe_milli()?;
        Some(Assessed::new(-milli, &[("probe_milli", milli)]))
    }

    fn validate(&self, score: &Score) -> Result<(), InvalidScore> {
        InvalidScore::check(self.name(), score, &[(-MOST, MOST)])
    }

    fn scale(&self) -> Scale {
        Scale { unit: "", better: Better::Higher, per_unit: 1000, waiting: false }
    }
}

/// Thousandths of the largest number that a probe may send.
const MOST: i64 = 1_000_000_000_000_000;
