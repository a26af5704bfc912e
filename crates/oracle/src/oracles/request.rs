//! `request`: prefers the server whose clients write most (θr, higher is better).
//!
//! The clients of an excluded server count at the servers to which they will fail over, which the paper's figures
//! require; those of an observer count at the voters nearest to it. A server without a quorum of round trips is unknown, no matter how busy it is.

use pole_election::Score;

use crate::oracle::{Assessed, InvalidScore, Oracle, Scale};
use crate::view::View;

/// Scores by the rate of write requests: the negative of thousandths per second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request;

impl Oracle for Request {
    fn name(&self) -> &str {
        "request"
    }

    fn assess(&self, view: &View, _epoch: u64) -> Option<Assessed> {
        let rate = i64::try_from(view.near_rate_milli()).unwrap_or(i64::MAX).min(COMPONENT_MAX);
        view.measured_quorum().then(|| Assessed::new(-rate, &[("rate_milli", rate)]))
    }

    fn validate(&self, score: &Score) -> Result<(), InvalidScore> {
        InvalidScore::check(self.name(), score, &[(-COMPONENT_MAX, 0)])
    }

    fn scale(&self) -> Scale {
        Scale::RATE
    }
}

/// 10^15 requests per second in thousandths: the sum over a thousand servers with clamped rates.
const COMPONENT_MAX: i64 = 1_000_000_000_000_000_000;
