//! The trace of an election: a bounded list of its steps, for the record.
//!
//! Steps are kept in order; when there are too many, those in the middle are dropped. A step such as "waited for 4"
//! explains a slow failover better than a counter. Steps have no times, since the election has no clock.
//!
//! Invariants: a trace has at most [`STEPS_MAX`] steps. Two traces are always equal and hash alike, because a model
//! checker must treat a state as the same no matter which path led to it.

use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};

use crate::Round;
use pole_types::{ServerId, Span};

/// One step of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The election was started, or a new round after a stalemate.
    Started {
        /// The round that was begun.
        round: Round,
    },
    /// The oracle has too few measurements so far; the election waits for the first score.
    AwaitedScore,
    /// There was no score in time; "unknown" is proposed.
    Unscored,
    /// The first proposal of a peer in a round was received.
    FirstProposal {
        /// The peer.
        from: ServerId,
    },
    /// A vote of a peer was received.
    Voted {
        /// The peer.
        from: ServerId,
        /// The leader that the peer follows.
        leader: ServerId,
    },
    /// A peer was in a newer round, and this server joined it.
    JoinedRound {
        /// The peer.
        from: ServerId,
        /// The newer round.
        round: Round,
    },
    /// Our choice has changed.
    Adopted {
        /// The peer that sent the better choice.
        from: ServerId,
        /// The new choice.
        choice: ServerId,
    },
    /// A server was found unable to lead.
    Demoted {
        /// The server.
        id: ServerId,
    },
    /// A quorum has proposed and the election timer was armed.
    QuorumProposed {
        /// The length of the timer.
        wait: Span,
    },
    /// The timer has expired, but a voter still follows an older leader and gets the rest of T.
    WaitExtended {
        /// The length of the extension.
        by: Span,
    },
    /// The election timer has expired.
    WaitExpired {
        /// The number of servers that hold our choice.
        holders: usize,
    },
    /// The proposal was sent again.
    Retried,
    /// The link to a peer has closed.
    LinkClosed {
        /// The peer.
        peer: ServerId,
    },
    /// The election has ended.
    Decided(EndReason),
}

/// Why an election could end: waiting longer could not, or should not, change the result. Ordered from the strongest
/// reason to the weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndReason {
    /// Every voter has responded.
    AllResponded,
    /// The silent voters are the lost leader, or their links have closed.
    Gone,
    /// The silent voters are gone, or rank lower according to gossip.
    Gossip,
    /// The election timer has expired.
    Waited,
    /// A quorum already follows this leader.
    Incumbent,
    /// The leader was elected in this round or a later one, and a quorum follows it if this server does, or if this server
    /// leads.
    Joined,
    /// The leader is established by its own vote, and no quorum has answered this server.
    OnlyLeader,
}

/// The steps of one election so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct ElectionTrace {
    steps: Vec<Step>,
    dropped: u32,
}

impl ElectionTrace {
    pub(crate) fn push(&mut self, step: Step) {
        if self.steps.len() == STEPS_MAX {
            // The beginning and the end explain most; repetitions are in the middle.
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

impl PartialEq for ElectionTrace {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ElectionTrace {}

impl Hash for ElectionTrace {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started { round } => write!(f, "started round {round}"),
            Self::AwaitedScore => write!(f, "waited for the first score"),
            Self::Unscored => write!(f, "no score in time"),
            Self::FirstProposal { from } => write!(f, "heard {from}"),
            Self::Voted { from, leader } => write!(f, "{from} votes {leader}"),
            Self::JoinedRound { from, round } => write!(f, "took over round {round} from {from}"),
            Self::Adopted { from, choice } => write!(f, "chose {choice} on word of {from}"),
            Self::Demoted { id } => write!(f, "{id} demoted"),
            Self::QuorumProposed { wait } => write!(f, "quorum proposed, waiting {wait}"),
            Self::WaitExtended { by } => write!(f, "some still follow a leader, waiting {by} more"),
            Self::WaitExpired { holders } => write!(f, "wait over, {holders} hold our choice"),
            Self::Retried => write!(f, "proposed again"),
            Self::LinkClosed { peer } => write!(f, "link to {peer} closed"),
            Self::Decided(reason) => write!(f, "decided: {reason}"),
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AllResponded => "all were heard",
            Self::Gone => "the silent are gone",
            Self::Gossip => "the silent rank lower by gossip",
            Self::Waited => "the wait is over",
            Self::Incumbent => "a quorum follows it already",
            Self::Joined => "with this server a quorum follows it",
            Self::OnlyLeader => "it serves, and no quorum answers here",
        })
    }
}

/// The maximum number of steps kept, enough for an election of a hundred servers.
pub const STEPS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_trace_keeps_its_beginning_and_its_end() {
        let mut trace = ElectionTrace::default();
        trace.push(Step::AwaitedScore);
        (0..2 * STEPS_MAX).for_each(|_| trace.push(Step::Retried));
        trace.push(Step::Unscored);
        assert_eq!(trace.steps().len(), STEPS_MAX);
        assert_eq!((trace.steps()[0], trace.steps()[STEPS_MAX - 1]), (Step::AwaitedScore, Step::Unscored));
        assert_eq!(trace.dropped() as usize, STEPS_MAX + 2);
    }
}
