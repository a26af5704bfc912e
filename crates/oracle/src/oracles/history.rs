//! `history`: prefers the longest history, as in ZooKeeper. θz = (current epoch, last zxid), higher is better.
//!
//! Always known. The epoch comes first, because a longer log of an older epoch is not better.

use pole_election::Score;

use crate::oracle::{Assessed, Better, InvalidScore, Oracle, Scale};
use crate::view::View;

/// Scores by position in the history. The three components are the negatives of the current epoch, and of the epoch
/// and the counter of the last zxid; a single unsigned 64-bit number would not fit into a signed component.
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
