//! The trail of an election: a bounded list of what happened, for the record.
//!
//! In: steps as they happen. Out: the steps, in order, with the middle left out when there are too many.
//! Why: "it waited for 4" explains a slow failover better than any counter.
//! Holds: at most [`STEPS_MAX`] steps. Two trails are always equal: a server is in the same state however it came
//! there, and a model checker must see it so.
//! Not here: when each step happened; the election has no clock.

use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};

use crate::{Round, ServerId, Span};

/// Something that happened in an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The election was called.
    Started {
        /// The first round of it.
        round: Round,
    },
    /// The oracle has too few measurements yet.
    AwaitedScore,
    /// There is still no score: "unknown" is proposed.
    Unscored,
    /// The first proposal of a peer in a round.
    Heard {
        /// The peer.
        from: ServerId,
    },
    /// A vote of a peer.
    Voted {
        /// The peer.
        from: ServerId,
        /// The leader it has.
        leader: ServerId,
    },
    /// A peer was in a newer round.
    TookOver {
        /// The peer.
        from: ServerId,
        /// The newer round.
        round: Round,
    },
    /// Our choice is another now.
    Adopted {
        /// From whom we have it.
        from: ServerId,
        /// Our choice from now on.
        choice: ServerId,
    },
    /// A server was found unable to lead.
    Demoted {
        /// The server.
        id: ServerId,
    },
    /// A quorum has proposed; the election timer runs.
    QuorumProposed {
        /// How long the others get.
        wait: Span,
    },
    /// The timer has run out, but a voter answered that it still follows a leader: it gets the rest of T.
    WaitExtended {
        /// How much more.
        by: Span,
    },
    /// The election timer has run out.
    WaitExpired {
        /// How many hold our choice.
        holders: usize,
    },
    /// We proposed again.
    Retried,
    /// The link to a peer has closed.
    LinkClosed {
        /// The peer.
        peer: ServerId,
    },
    /// The end.
    Decided(Because),
}

/// Why waiting longer could not, or should not, change the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Because {
    /// Every voter has spoken.
    AllHeard,
    /// The silent ones are the leader given up, or their links have closed.
    Gone,
    /// The silent ones are gone, or rank lower by gossip.
    Gossip,
    /// The election timer has run out.
    Waited,
    /// A quorum already follows this leader.
    Incumbent,
}

/// The steps of one election so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trail {
    steps: Vec<Step>,
    dropped: u32,
}

impl Trail {
    pub(crate) fn push(&mut self, step: Step) {
        if self.steps.len() == STEPS_MAX {
            // The beginning and the end explain most; what is repeated stands in between.
            self.steps.remove(STEPS_MAX / 2);
            self.dropped = self.dropped.saturating_add(1);
        }
        self.steps.push(step);
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(crate) fn dropped(&self) -> u32 {
        self.dropped
    }
}

impl PartialEq for Trail {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Trail {}

impl Hash for Trail {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started { round } => write!(f, "started round {round}"),
            Self::AwaitedScore => write!(f, "waited for the first score"),
            Self::Unscored => write!(f, "no score in time"),
            Self::Heard { from } => write!(f, "heard {from}"),
            Self::Voted { from, leader } => write!(f, "{from} votes {leader}"),
            Self::TookOver { from, round } => write!(f, "took over round {round} from {from}"),
            Self::Adopted { from, choice } => write!(f, "chose {choice} on word of {from}"),
            Self::Demoted { id } => write!(f, "{id} demoted"),
            Self::QuorumProposed { wait } => write!(f, "quorum proposed, waiting {wait}"),
            Self::WaitExtended { by } => write!(f, "some still follow a leader, waiting {by} more"),
            Self::WaitExpired { holders } => write!(f, "wait over, {holders} hold our choice"),
            Self::Retried => write!(f, "proposed again"),
            Self::LinkClosed { peer } => write!(f, "link to {peer} closed"),
            Self::Decided(because) => write!(f, "decided: {because}"),
        }
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AllHeard => "all were heard",
            Self::Gone => "the silent are gone",
            Self::Gossip => "the silent rank lower by gossip",
            Self::Waited => "the wait is over",
            Self::Incumbent => "a quorum follows it already",
        })
    }
}

/// The most steps kept: an election of a hundred servers fits.
pub const STEPS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_trail_keeps_its_beginning_and_its_end() {
        let mut trail = Trail::default();
        trail.push(Step::AwaitedScore);
        (0..2 * STEPS_MAX).for_each(|_| trail.push(Step::Retried));
        trail.push(Step::Unscored);
        assert_eq!(trail.steps().len(), STEPS_MAX);
        assert_eq!((trail.steps()[0], trail.steps()[STEPS_MAX - 1]), (Step::AwaitedScore, Step::Unscored));
        assert_eq!(trail.dropped() as usize, STEPS_MAX + 2);
    }
}
