//! Accounts of elections and hand-overs: who won and why, how long each step took, how it ended.
//!
//! In: milestones as they are reached. Out: the last accounts, newest first: what `pole explain` shows.
//! Why here and not in the record: times are stamped outside the state that is compared and hashed.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use pole_election::{Cause, Epoch, Record, Round, ServerId, Span};
use pole_oracle::Time;

/// One election, or one hand-over, as this server lived through it.
#[derive(Clone, Debug)]
pub struct Account {
    /// When it began.
    pub began: Time,
    /// Its round; the one that decided, once decided.
    pub round: Round,
    /// What called for it.
    pub cause: Cause,
    /// Who won; none while undecided.
    pub winner: Option<ServerId>,
    /// Why it won. None for a hand-over, which the last leader decided.
    pub record: Option<Record>,
    /// What was reached, and how long after the beginning.
    pub steps: Vec<(Milestone, Span)>,
    /// How it ended.
    pub ended: Ended,
}

/// The steps from the loss of a leader to service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Milestone {
    /// The need was seen.
    Detected,
    /// Our proposal was made.
    Proposed,
    /// The leader was chosen.
    Decided,
    /// The history to continue was found: as leader, of a quorum; as follower, ours was told.
    Discovered,
    /// Leader and quorum, or leader and we, have the same history.
    Synchronised,
    /// Clients are served.
    Serving,
}

/// How an election ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It has not.
    Open,
    /// Its leader was established.
    Established(Epoch),
    /// It came to nothing.
    Failed(String),
}

/// The accounts of this server, the oldest forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accounts {
    newest_last: VecDeque<Account>,
}

impl Accounts {
    /// Enough to see a bad night; each holds a proposal for every server.
    const KEPT_MAX: usize = 64;

    pub(crate) fn begin(&mut self, cause: Cause, round: Round, now: Time) {
        self.fail("another election was called");
        if self.newest_last.len() == Self::KEPT_MAX {
            self.newest_last.pop_front();
        }
        let steps = Vec::from([(Milestone::Detected, Span::ZERO)]);
        let (winner, record, ended) = (None, None, Ended::Open);
        self.newest_last.push_back(Account { began: now, round, cause, winner, record, steps, ended });
    }

    /// The election chose.
    pub(crate) fn decided(&mut self, record: Record, now: Time) {
        self.reached(Milestone::Decided, now);
        if let Some(account) = self.open() {
            account.round = record.round;
            account.winner = Some(record.winner);
            account.record = Some(record);
        }
    }

    /// The last leader chose.
    pub(crate) fn handed_over(&mut self, to: ServerId, now: Time) {
        self.reached(Milestone::Decided, now);
        if let Some(account) = self.open() {
            account.winner = Some(to);
        }
    }

    /// A milestone, the first time that it is reached.
    pub(crate) fn reached(&mut self, milestone: Milestone, now: Time) {
        if let Some(account) = self.open()
            && account.steps.iter().all(|(reached, _)| *reached != milestone)
        {
            account.steps.push((milestone, now - account.began));
        }
    }

    /// The leader is established.
    pub(crate) fn established(&mut self, epoch: Epoch, now: Time) {
        self.reached(Milestone::Serving, now);
        if let Some(account) = self.open() {
            account.ended = Ended::Established(epoch);
        }
    }

    /// It came to nothing.
    pub(crate) fn fail(&mut self, reason: &str) {
        if let Some(account) = self.open() {
            account.ended = Ended::Failed(reason.into());
        }
    }

    /// Newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Account> {
        self.newest_last.iter().rev()
    }

    fn open(&mut self) -> Option<&mut Account> {
        self.newest_last.back_mut().filter(|account| account.ended == Ended::Open)
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

impl fmt::Display for Account {
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
        match &self.ended {
            Ended::Open => write!(f, "  under way"),
            Ended::Established(epoch) => write!(f, "  established in epoch {epoch}"),
            Ended::Failed(reason) => write!(f, "  failed: {reason}"),
        }
    }
}
