//! `history`: the longest history leads, as in ZooKeeper. θz = (current epoch, last zxid), higher is better.
//!
//! Holds: always known. A longer log of an older epoch is not the better one, so the epoch comes first.
//! Source: section 3; Zab.

use pole_election::Score;

use crate::oracle::{Assessed, Better, InvalidScore, Oracle, Scale};
use crate::view::View;

/// Scores by position in the history: three components, the negatives of current epoch, epoch and counter of the last
/// zxid (one number of 64 bits would not fit a signed component).
#[derive(Clone, Copy, Debug, Default)]
pub struct History;

impl Oracle for History {
    fn name(&self) -> &str {
        "history"
    }

    fn components(&self) -> usize {
        3
    }

    fn assess(&self, view: &View, _epoch: u64) -> Option<Assessed> {
        let (current, last) = view.standings().get(&view.me())?.history();
        let parts = [current.0, last.epoch().0, last.counter()].map(i64::from);
        let names = ["current_epoch", "zxid_epoch", "zxid_counter"];
        Some(Assessed {
            score: Score::new(parts.map(|part| -part).to_vec()),
            inputs: names.into_iter().map(Into::into).zip(parts).collect(),
        })
    }

    fn validate(&self, score: &Score) -> Result<(), InvalidScore> {
        InvalidScore::check(self.name(), score, &[(-i64::from(u32::MAX), 0); 3])
    }

    /// It changes with every transaction.
    fn gossip_decides(&self) -> bool {
        false
    }

    fn clearly_worse(&self, _a: &Score, _b: &Score) -> bool {
        false
    }

    fn scale(&self) -> Scale {
        Scale { better: Better::Higher, unit: "zxid", ..Scale::PLAIN }
    }

    /// The last zxid as a number.
    fn value(&self, score: &Score) -> f64 {
        match score.components() {
            [_, epoch, counter] => 0.0 - (*epoch as f64) * 4_294_967_296.0 - (*counter as f64),
            [..] => 0.0,
        }
    }
}
