//! The record of an election: the answer to "why is *that* server the leader?".
//!
//! In: the table of the round that decided, and the trail of what happened. Out: a value to keep, print or serve.
//! Why: a score that nobody can explain is a score that nobody trusts.
//! Not here: times (stamped by the host, outside the state that is compared), discovery and what follows it (`zab`).
//! Source: INTERFACES.md, GET /v1/election.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use crate::ballot::Ballot;
use crate::interface::Incumbent;
use crate::trail::{Because, Step, Trail};
use crate::{Cause, Component, Epoch, Proposal, Rank, Round, ServerId, Voters, Zxid, is_fallback};

/// One election, as this server saw it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// The round that decided; for an incumbent, the round in which it was chosen.
    pub round: Round,
    /// Why this server called the election.
    pub cause: Cause,
    /// How many servers vote.
    pub voters: usize,
    /// Servers that took part, as far as this one heard, itself included.
    pub participants: BTreeSet<ServerId>,
    /// Their proposals, best first.
    pub proposals: Vec<Ranked>,
    /// The leader.
    pub winner: ServerId,
    /// What made it the leader.
    pub decided_by: DecidedBy,
    /// Why the election could end when it did.
    pub because: Because,
    /// The best of the others, if one was heard.
    pub runner_up: Option<ServerId>,
    /// Winner and runner-up at the place where they differ.
    pub margin: Option<Margin>,
    /// Rounds since a leader was last established.
    pub failed_rounds: u32,
    /// What happened, in order.
    pub steps: Vec<Step>,
    /// Steps left out of the middle of `steps` to keep the limit.
    pub steps_dropped: u32,
}

/// A proposal with its place in the order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ranked {
    /// What was proposed.
    pub proposal: Proposal,
    /// Whether the candidate was not demoted.
    pub able: bool,
}

/// What made the winner the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DecidedBy {
    /// Its score is better than the next.
    Score,
    /// Equal scores: its id is higher.
    Id,
    /// Scores had failed too often: its history is later.
    History,
    /// The next is demoted.
    Able,
    /// The next was scored by another oracle, or by another version of its configuration.
    Oracle,
    /// No other proposal was heard.
    OnlyCandidate,
    /// It led already.
    Incumbent,
}

/// The winner and the runner-up at the first component in which they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Margin {
    /// The runner-up is demoted.
    Able,
    /// Versions of the oracle's configuration.
    Version {
        /// The winner's.
        winner: Zxid,
        /// The runner-up's.
        runner_up: Zxid,
    },
    /// Fingerprints of the oracle.
    Fingerprint {
        /// The winner's.
        winner: u64,
        /// The runner-up's.
        runner_up: u64,
    },
    /// Components of the scores; None where a score has no such component or is unknown.
    Score {
        /// Which component of the score, from 0.
        place: usize,
        /// The winner's.
        winner: Option<i64>,
        /// The runner-up's.
        runner_up: Option<i64>,
    },
    /// Histories.
    History {
        /// The winner's.
        winner: (Epoch, Zxid),
        /// The runner-up's.
        runner_up: (Epoch, Zxid),
    },
    /// Ids.
    Id {
        /// The winner's.
        winner: ServerId,
        /// The runner-up's.
        runner_up: ServerId,
    },
}

impl Record {
    /// The record of an election that ended with our own choice.
    pub(crate) fn of(ballot: &Ballot, voters: &Voters, cause: Cause, because: Because, trail: &Trail) -> Self {
        let order = ballot.order();
        let winner = &ballot.choice;
        let mut ranked: Vec<&Proposal> = ballot.owns().map(|(_, own)| own).filter(|own| own.id != winner.id).collect();
        ranked.push(winner);
        ranked.sort_by(|a, b| order.compare(b, a));
        let runner_up = ranked.iter().find(|proposal| proposal.id != winner.id).copied();
        let component = runner_up.and_then(|second| order.decide(winner, second)).map(|(_, component)| component);
        Self {
            round: ballot.round,
            cause,
            voters: voters.len(),
            participants: ballot.participants().collect(),
            proposals: ranked
                .iter()
                .map(|proposal| Ranked { proposal: (*proposal).clone(), able: order.able(proposal) })
                .collect(),
            winner: winner.id,
            decided_by: component.map_or(DecidedBy::OnlyCandidate, DecidedBy::from),
            because,
            runner_up: runner_up.map(|second| second.id),
            margin: component.zip(runner_up).map(|(component, second)| Margin::at(component, winner, second)),
            failed_rounds: ballot.round.failed,
            steps: trail.steps().to_vec(),
            steps_dropped: trail.dropped(),
        }
    }

    /// The record of a server that found a leader at work.
    pub(crate) fn of_incumbent(
        incumbent: &Incumbent,
        voters: &Voters,
        participants: BTreeSet<ServerId>,
        cause: Cause,
        trail: &Trail,
    ) -> Self {
        Self {
            round: incumbent.round,
            cause,
            voters: voters.len(),
            participants,
            proposals: alloc::vec![Ranked { proposal: incumbent.choice.clone(), able: true }],
            winner: incumbent.choice.id,
            decided_by: DecidedBy::Incumbent,
            because: Because::Incumbent,
            runner_up: None,
            margin: None,
            failed_rounds: incumbent.round.failed,
            steps: trail.steps().to_vec(),
            steps_dropped: trail.dropped(),
        }
    }
}

impl Margin {
    fn at(component: Component, winner: &Proposal, second: &Proposal) -> Self {
        match component {
            Component::Able => Self::Able,
            Component::Version => Self::Version { winner: winner.version, runner_up: second.version },
            Component::Fingerprint => Self::Fingerprint { winner: winner.fingerprint, runner_up: second.fingerprint },
            Component::Score => Self::of_scores(components(&winner.rank), components(&second.rank)),
            Component::History => {
                Self::History { winner: winner.standing.history(), runner_up: second.standing.history() }
            }
            Component::Id => Self::Id { winner: winner.id, runner_up: second.id },
        }
    }

    fn of_scores(winner: &[i64], second: &[i64]) -> Self {
        let place = winner.iter().zip(second).take_while(|(a, b)| a.cmp(b) == Ordering::Equal).count();
        Self::Score { place, winner: winner.get(place).copied(), runner_up: second.get(place).copied() }
    }
}

fn components(rank: &Rank) -> &[i64] {
    match rank {
        Rank::Known(score) => score.components(),
        Rank::Unknown => &[],
    }
}

impl From<Component> for DecidedBy {
    fn from(component: Component) -> Self {
        match component {
            Component::Able => Self::Able,
            Component::Version | Component::Fingerprint => Self::Oracle,
            Component::Score => Self::Score,
            Component::History => Self::History,
            Component::Id => Self::Id,
        }
    }
}

impl fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Score => "score",
            Self::Id => "id",
            Self::History => "history",
            Self::Able => "able",
            Self::Oracle => "oracle",
            Self::OnlyCandidate => "only-candidate",
            Self::Incumbent => "incumbent",
        })
    }
}

impl fmt::Display for Margin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Able => write!(f, "able against demoted"),
            Self::Version { winner, runner_up } => write!(f, "configuration {winner} against {runner_up}"),
            Self::Fingerprint { winner, runner_up } => write!(f, "oracle {winner:x} against {runner_up:x}"),
            Self::Score { place, winner, runner_up } => {
                write!(f, "{} against {} in component {place}", Shown(*winner), Shown(*runner_up))
            }
            Self::History { winner, runner_up } => {
                write!(f, "epoch {} up to {} against epoch {} up to {}", winner.0, winner.1, runner_up.0, runner_up.1)
            }
            Self::Id { winner, runner_up } => write!(f, "equal but for the id, {winner} against {runner_up}"),
        }
    }
}

/// Prints a component of a score that may be absent.
struct Shown(Option<i64>);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("unknown"),
        }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {} leads by {}", self.winner, self.decided_by)?;
        if let (Some(second), Some(margin)) = (self.runner_up, &self.margin) {
            write!(f, ", next is {second}: {margin}")?;
        }
        writeln!(f)?;
        write!(f, "  round {} called for {}; heard", self.round, self.cause)?;
        self.participants.iter().try_for_each(|id| write!(f, " {id}"))?;
        write!(f, " of {} voters; ended because {}", self.voters, self.because)?;
        match self.failed_rounds {
            0 => {}
            failed => write!(f, "; {failed} failed rounds before")?,
        }
        writeln!(f, "{}", if is_fallback(self.round) { ", so history decides" } else { "" })?;
        self.proposals.iter().try_for_each(|ranked| writeln!(f, "  {ranked}"))?;
        f.write_str("  steps:")?;
        for (i, step) in self.steps.iter().enumerate() {
            write!(f, "{} {step}", if i == 0 { "" } else { ";" })?;
        }
        match self.steps_dropped {
            0 => Ok(()),
            dropped => write!(f, " ({dropped} left out)"),
        }
    }
}

impl fmt::Display for Ranked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Proposal { id, rank, standing, inputs, .. } = &self.proposal;
        match rank {
            Rank::Known(score) => write!(f, "{id}: score {:?}", score.components())?,
            Rank::Unknown => write!(f, "{id}: score unknown")?,
        }
        write!(f, ", history {} of epoch {}", standing.last_zxid, standing.current_epoch)?;
        if !self.able {
            f.write_str(", demoted")?;
        }
        inputs.iter().try_for_each(|input| write!(f, ", {}={}", input.name, input.value))
    }
}
