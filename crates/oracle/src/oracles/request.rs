//! `request`: the server whose clients write most leads. θr, higher is better.
//!
//! Holds: the clients of a server left out count at their heirs (the paper's figures need it, section 5); a server
//! without a quorum of round trips is unknown, however busy.
//! Source: section 3.

use pole_election::Score;

use crate::oracle::{Assessed, InvalidScore, Oracle, Scale};
use crate::view::View;

/// Scores by the rate of write requests: the negative of thousandths a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request;

impl Oracle for Request {
    fn name(&self) -> &str {
        "request"
    }

    fn assess(&self, view: &View, _epoch: u64) -> Option<Assessed> {
        let rate = view.rates_milli().get(&view.me()).copied().unwrap_or(0);
        let rate = i64::try_from(rate).unwrap_or(i64::MAX).min(MOST);
        view.measured_quorum().then(|| Assessed::new(-rate, &[("rate_milli", rate)]))
    }

    fn validate(&self, score: &Score) -> Result<(), InvalidScore> {
        InvalidScore::check(self.name(), score, &[(-MOST, 0)])
    }

    fn scale(&self) -> Scale {
        Scale::RATE
    }
}

/// 10^15 requests a second, in thousandths: what a thousand servers with clamped rates could inherit.
const MOST: i64 = 1_000_000_000_000_000_000;
