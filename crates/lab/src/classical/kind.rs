//! The list of all algorithms.

use std::fmt;

use super::bully::Bully;
use super::chubby::Chubby;
use super::fle::Fle;
use super::invitation::Invitation;
use super::pole::Pole;
use super::raft::Raft;
use super::ring::Ring;
use super::rotating::Rotating;
use super::santos::Santos;
use super::viewstamped::Viewstamped;
use super::{Case, Outcome, Repair, run};

/// An algorithm, or a variant of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Ring election as taught.
    Ring,
    /// Ring election, repaired by the predecessor's timeout.
    RingRepair1,
    /// Ring election, repaired by failure detectors.
    RingRepair2,
    /// The bully algorithm.
    Bully,
    /// Garcia-Molina's invitation algorithm.
    Invitation,
    /// Raft's election.
    Raft,
    /// Raft's election with pre-vote.
    RaftPreVote,
    /// Chubby's master election with leases.
    Chubby,
    /// ZooKeeper's fast leader election.
    Fle,
    /// A rotating coordinator.
    Rotating,
    /// Viewstamped Replication's view change.
    Viewstamped,
    /// Latency-aware rotation.
    Santos,
    /// POLE, with the production code.
    Pole,
}

impl Kind {
    /// All algorithms, in the order of tables.
    pub const ALL: [Self; 13] = [
        Self::Ring,
        Self::RingRepair1,
        Self::RingRepair2,
        Self::Bully,
        Self::Invitation,
        Self::Raft,
        Self::RaftPreVote,
        Self::Chubby,
        Self::Fle,
        Self::Rotating,
        Self::Viewstamped,
        Self::Santos,
        Self::Pole,
    ];

    /// The name in tables and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::RingRepair1 => "ring-repair-1",
            Self::RingRepair2 => "ring-repair-2",
            Self::Bully => "bully",
            Self::Invitation => "invitation",
            Self::Raft => "raft",
            Self::RaftPreVote => "raft-prevote",
            Self::Chubby => "chubby",
            Self::Fle => "fle",
            Self::Rotating => "rotating",
            Self::Viewstamped => "viewstamped",
            Self::Santos => "santos",
            Self::Pole => "pole",
        }
    }

    /// Whether a leader must be accepted by a majority, which rules out two at once.
    #[must_use]
    pub fn requires_majority(self) -> bool {
        match self {
            Self::Ring | Self::RingRepair1 | Self::RingRepair2 | Self::Bully | Self::Invitation => false,
            Self::Raft | Self::RaftPreVote | Self::Chubby | Self::Fle => true,
            Self::Rotating | Self::Viewstamped | Self::Santos | Self::Pole => true,
        }
    }

    /// Runs the algorithm through a case.
    #[must_use]
    pub fn run(self, case: &Case) -> Outcome {
        match self {
            Self::Ring => run::<Ring>(case, Repair::None, false),
            Self::RingRepair1 => run::<Ring>(case, Repair::Predecessor, false),
            Self::RingRepair2 => run::<Ring>(case, Repair::Detector, false),
            Self::Bully => run::<Bully>(case, Repair::None, false),
            Self::Invitation => run::<Invitation>(case, Repair::None, false),
            Self::Raft => run::<Raft>(case, Repair::None, false),
            Self::RaftPreVote => run::<Raft>(case, Repair::None, true),
            Self::Chubby => run::<Chubby>(case, Repair::None, false),
            Self::Fle => run::<Fle>(case, Repair::None, false),
            Self::Rotating => run::<Rotating>(case, Repair::None, false),
            Self::Viewstamped => run::<Viewstamped>(case, Repair::None, false),
            Self::Santos => run::<Santos>(case, Repair::None, false),
            Self::Pole => run::<Pole>(case, Repair::None, false),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
