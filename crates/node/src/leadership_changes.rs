//! A history of elections and hand-overs: who won and why, how long each step took, and the outcome.
//!
//! Milestones are recorded as they are reached; `pole explain` shows the result. They are not part of [`Record`]
//! because they carry times, which must stay out of the election state that is compared and hashed.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use pole_election::{Cause, Record, Round};
use pole_types::{Epoch, ServerId, Span, Time};

/// One election or hand-over as this server saw it.
#[derive(Clone, Debug)]
pub struct LeadershipChange {
    pub began: Time,
    /// The round; the deciding one once decided.
    pub round: Round,
    /// Why it was started.
    pub cause: Cause,
    /// `None` while undecided.
    pub winner: Option<ServerId>,
    /// Why the winner won. `None` for a hand-over, which the last leader decided.
    pub record: Option<Record>,
    /// The milestones reached, each with the time since the beginning.
    pub steps: Vec<(Milestone, Span)>,
    pub status: ChangeStatus,
}

/// The steps from the loss of a leader to service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Milestone {
    /// The loss of the leader was detected.
    Detected,
    /// Our proposal was sent.
    Proposed,
    /// The leader was chosen.
    Decided,
    /// As leader: the best history of a quorum was found. As follower: our own was reported.
    Discovered,
    /// The leader and a quorum (as leader), or the leader and this server (as follower), have the same history.
    Synchronised,
    /// Clients are served.
    Serving,
}

/// The outcome of an election or hand-over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeStatus {
    /// Still under way.
    Open,
    /// The leader was established in this epoch.
    Established(Epoch),
    /// It failed, for this reason.
    Failed(String),
}

/// The last elections and hand-overs of this server, at most `KEPT_MAX`.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeadershipChanges {
    newest_last: VecDeque<LeadershipChange>,
}

impl LeadershipChanges {
    /// Enough to diagnose a night of failures. Each entry holds a proposal of every server.
    const KEPT_MAX: usize = 64;

    pub(crate) fn begin(&mut self, cause: Cause, round: Round, now: Time) {
        self.fail("another election was called");
        if self.newest_last.len() == Self::KEPT_MAX {
            self.newest_last.pop_front();
        }
        let steps = Vec::from([(Milestone::Detected, Span::ZERO)]);
        let (winner, record, status) = (None, None, ChangeStatus::Open);
        self.newest_last.push_back(LeadershipChange { began: now, round, cause, winner, record, steps, status });
    }

    /// Records the decision of an election.
    pub(crate) fn decided(&mut self, record: Record, now: Time) {
        self.reached(Milestone::Decided, now);
        if let Some(change) = self.open() {
            change.round = record.round;
            change.winner = Some(record.winner);
            change.record = Some(record);
        }
    }

    /// Records the decision of the last leader to hand over.
    pub(crate) fn handed_over(&mut self, to: ServerId, now: Time) {
        self.reached(Milestone::Decided, now);
        if let Some(change) = self.open() {
            change.winner = Some(to);
        }
    }

    /// Records a milestone the first time that it is reached.
    pub(crate) fn reached(&mut self, milestone: Milestone, now: Time) {
        if let Some(change) = self.open()
            && change.steps.iter().all(|(reached, _)| *reached != milestone)
        {
            change.steps.push((milestone, now - change.began));
        }
    }

    /// Records that the leader is established.
    pub(crate) fn established(&mut self, epoch: Epoch, now: Time) {
        self.reached(Milestone::Serving, now);
        if let Some(change) = self.open() {
            change.status = ChangeStatus::Established(epoch);
        }
    }

    /// Records a failure of the change under way, if there is one.
    pub(crate) fn fail(&mut self, reason: &str) {
        if let Some(change) = self.open() {
            change.status = ChangeStatus::Failed(reason.into());
        }
    }

    /// Iterates over the changes, newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &LeadershipChange> {
        self.newest_last.iter().rev()
    }

    fn open(&mut self) -> Option<&mut LeadershipChange> {
        self.newest_last.back_mut().filter(|change| change.status == ChangeStatus::Open)
    }
}

impl fmt::Display for Milestone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Detected => "detected",
            Self::Proposed => "proposed",
            Self::Decided => "decided",
            Self::Discovered => "discovered",
            Self::Synchronised => "synchronised",
            Self::Serving => "serving",
        })
    }
}

impl fmt::Display for LeadershipChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.record, self.winner) {
            (Some(record), _) => writeln!(f, "{record}")?,
            (None, Some(winner)) => {
                writeln!(f, "round {}: handed over to server {winner} ({})", self.round, self.cause)?
            }
            (None, None) => writeln!(f, "round {}: no leader ({})", self.round, self.cause)?,
        }
        for (milestone, after) in &self.steps {
            writeln!(f, "  {milestone:<12} {after}")?;
        }
        match &self.status {
            ChangeStatus::Open => write!(f, "  under way"),
            ChangeStatus::Established(epoch) => write!(f, "  established in epoch {epoch}"),
            ChangeStatus::Failed(reason) => write!(f, "  failed: {reason}"),
        }
    }
}
