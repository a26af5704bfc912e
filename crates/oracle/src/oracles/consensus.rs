//! `consensus`: the server that a quorum answers soonest leads. θc, lower is better.
//!
//! Holds: known only with a quorum of round trips, else an isolated server would be the fastest of all.
//! Source: section 3: the (⌊N/2⌋+1)-th smallest entry of RTT_i, its own included as zero. Ours to add: each server's disk.

use alloc::vec::Vec;

use pole_election::{Score, Span};

use crate::oracle::{Assessed, InvalidScore, MICROS_MAX, Oracle, Scale, micros};
use crate::view::View;

/// Scores by the time in which a quorum logs a proposal, in microseconds.
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

/// θc: how long until a quorum of N has a proposal on disk if this server led. A leader logs while its followers do, so
/// the disk is not added on top: each entry is the round trip to a server plus that server's disk, our own disk alone
/// standing for ourselves, and the quorum's slowest decides. Servers out of N' have no entry, yet N sets the quorum.
#[must_use]
pub fn consensus_time(view: &View) -> Option<Span> {
    let answer = |(id, round_trip): (_, &Span)| round_trip.saturating_add(view.disk_time(id));
    let mut answers: Vec<Span> = view.round_trips().iter().map(|(id, span)| answer((*id, span))).collect();
    answers.sort_unstable();
    answers.get(view.voters().quorum() - 1).copied()
}
