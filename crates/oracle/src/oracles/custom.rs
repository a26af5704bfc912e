//! `custom`: the value of an external probe, higher is better, such as load, cost or battery charge.
//!
//! Unknown without a probe value or after it has expired, so that a dead probe does not make a leader. The value is
//! validated in `Measurements::record_probe`.

use pole_election::Score;

use crate::oracle::{Assessed, Better, InvalidScore, Oracle, Scale};
use crate::view::View;

/// Scores by the negative of the probe's thousandths.
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
        InvalidScore::check(self.name(), score, &[(-COMPONENT_MAX, COMPONENT_MAX)])
    }

    fn scale(&self) -> Scale {
        Scale { unit: "", better: Better::Higher, per_unit: 1000, waiting: false }
    }
}

/// Thousandths of the largest valid probe value.
const COMPONENT_MAX: i64 = 1_000_000_000_000_000;
