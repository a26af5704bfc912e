//! `consensus`: prefers the server that gets answers from a quorum soonest (θc, lower is better).
//!
//! The score is known only with a quorum of round trips; otherwise an isolated server would be the fastest of all. It
//! is the (⌊N/2⌋+1)-th smallest entry of RTT_i, with zero for the server itself, as in the paper; the disk times are
//! an addition.

use pole_election::Score;
use pole_types::Span;

use crate::oracle::{Assessed, InvalidScore, MICROS_MAX, Oracle, Scale, micros};
use crate::view::View;

/// Scores by the time until a quorum has logged a proposal, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Consensus;

impl Oracle for Consensus {
    fn name(&self) -> &str {
        "consensus"
    }

    fn assess(&self, view: &View, _epoch: u64) -> Option<Assessed> {
        let consensus = micros(consensus_time(view)?);
        let disk = micros(view.disk_time(view.me()));
        Some(Assessed::new(consensus, &[("consensus_us", consensus), ("disk_us", disk)]))
    }

    fn validate(&self, score: &Score) -> Result<(), InvalidScore> {
        InvalidScore::check(self.name(), score, &[(0, MICROS_MAX)])
    }

    fn scale(&self) -> Scale {
        Scale::TIME
    }
}

/// θc: the time until a quorum of N has a proposal on disk if this server leads, or None if too few are measured. The
/// leader logs while its followers do, so its disk time is not added on top: each entry is the round trip to a server
/// plus that server's disk time, for this server its disk time alone, and the slowest of the quorum decides. Servers
/// outside N' have no entry, but N determines the quorum.
#[must_use]
pub fn consensus_time(view: &View) -> Option<Span> {
    let answers = view.round_trips().iter().map(|(id, span)| (*id, span.saturating_add(view.disk_time(*id))));
    view.voters().quorum_value(answers)
}
