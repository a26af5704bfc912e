//! The record of an election, which explains why a server became the leader.
//!
//! It is built from the ballot of the deciding round and the trace of the election, to be stored, printed or served by
//! the admin endpoint (`GET /v1/election`). Times are added by the host, outside the state that is compared; the
//! phases after the election are in `zab`.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use crate::ballot::Ballot;
use crate::interface::Incumbent;
use crate::trace::{ElectionTrace, EndReason, Step};
use crate::{Cause, Component, Proposal, Rank, Round, is_fallback};
use pole_types::{Epoch, ServerId, Voters, Zxid};

/// One election, as this server saw it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// The deciding round; for an incumbent, the round in which it was chosen.
    pub round: Round,
    /// Why this server started the election.
    pub cause: Cause,
    /// The number of voters.
    pub voters: usize,
    /// The servers that took part, as far as this one received messages, including itself.
    pub participants: BTreeSet<ServerId>,
    /// Their proposals, best first.
    pub proposals: Vec<Ranked>,
    /// The leader.
    pub winner: ServerId,
    /// The criterion that made it the leader.
    pub decided_by: DecidedBy,
    /// Why the election could end when it did.
    pub end_reason: EndReason,
    /// The second-best candidate, if another proposal was received.
    pub runner_up: Option<ServerId>,
    /// The values of winner and runner-up where they differ first.
    pub margin: Option<Margin>,
    /// Rounds since a leader was last established.
    pub failed_rounds: u32,
    /// What happened, in order; at most [`STEPS_MAX`](crate::STEPS_MAX) steps.
    pub steps: Vec<Step>,
    /// The number of steps removed from the middle of `steps` to keep the limit.
    pub steps_dropped: u32,
}

/// A proposal with its rank-relevant state in the round.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ranked {
    /// The proposal.
    pub proposal: Proposal,
    /// Whether the candidate is not demoted.
    pub able: bool,
}

/// The criterion by which the winner beat the runner-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DecidedBy {
    /// Its score is better than the runner-up's.
    Score,
    /// The scores are equal and its id is higher.
    Id,
    /// Scores had failed too often, and its history is later.
    History,
    /// The runner-up is demoted.
    Able,
    /// The runner-up was scored by another oracle, or under another version of its configuration.
    Oracle,
    /// No other proposal was received.
    OnlyCandidate,
    /// It was the leader already.
    Incumbent,
}

/// The winner and the runner-up at the first component in which they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Margin {
    /// The runner-up is demoted.
    Able,
    /// Versions of the oracle configuration.
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
    /// Components of the scores; None if a score has no such component or is unknown.
    Score {
        /// The index of the component in the score, from 0.
        place: usize,
        /// The winner's.
        winner: Option<i64>,
        /// The runner-up's.
        runner_up: Option<i64>,
    },
    /// Histories, as (current epoch, last zxid).
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
    pub(crate) fn of(
        ballot: &Ballot,
        voters: &Voters,
        cause: Cause,
        end_reason: EndReason,
        trace: &ElectionTrace,
    ) -> Self {
        let order = ballot.order();
        let winner = &ballot.choice;
        let mut ranked: Vec<&Proposal> =
            ballot.own_proposals().map(|(_, own)| own).filter(|own| own.id != winner.id).collect();
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
            end_reason,
            runner_up: runner_up.map(|second| second.id),
            margin: component.zip(runner_up).map(|(component, second)| Margin::at(component, winner, second)),
            failed_rounds: ballot.round.failed,
            steps: trace.steps().to_vec(),
            steps_dropped: trace.dropped(),
        }
    }

    /// The record of a server that adopted the incumbent.
    pub(crate) fn of_incumbent(
        incumbent: &Incumbent,
        voters: &Voters,
        participants: BTreeSet<ServerId>,
        cause: Cause,
        trace: &ElectionTrace,
    ) -> Self {
        Self {
            round: incumbent.round,
            cause,
            voters: voters.len(),
            participants,
            proposals: alloc::vec![Ranked { proposal: incumbent.choice.clone(), able: true }],
            winner: incumbent.choice.id,
            decided_by: DecidedBy::Incumbent,
            end_reason: incumbent.reason,
            runner_up: None,
            margin: None,
            failed_rounds: incumbent.round.failed,
            steps: trace.steps().to_vec(),
            steps_dropped: trace.dropped(),
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
                write!(f, "{} against {} in component {place}", DisplayComponent(*winner), DisplayComponent(*runner_up))
            }
            Self::History { winner, runner_up } => {
                write!(f, "epoch {} up to {} against epoch {} up to {}", winner.0, winner.1, runner_up.0, runner_up.1)
            }
            Self::Id { winner, runner_up } => write!(f, "equal but for the id, {winner} against {runner_up}"),
        }
    }
}

/// Displays a component of a score that may be absent.
struct DisplayComponent(Option<i64>);

impl fmt::Display for DisplayComponent {
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
        write!(f, " of {} voters; ended because {}", self.voters, self.end_reason)?;
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
