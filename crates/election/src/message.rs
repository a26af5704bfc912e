//! The messages of the election, proposals and votes, and the validation of received ones.
//!
//! Every received message is checked once, before it reaches any state; after that no content can cause a panic. An
//! [`Error`] names the peer and the field. A checked message names only voters, its sender proposes itself, and its
//! sets, names and lists are within their limits.
//!
//! The encoding is in `server`, the validation of scores in the host's oracle, the comparison of proposals in `order`.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::{Config, Rank, Round, Standing};
use pole_types::{Epoch, ServerId, Voters, Zxid};

/// One measurement behind a score, so that a record can explain the score.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Input {
    /// What was measured, with its unit last: `consensus_us`. At most [`INPUT_NAME_MAX`] bytes.
    pub name: String,
    /// The value, in the unit that the name ends with.
    pub value: i64,
}

/// A server as a candidate: made by the candidate itself, and forwarded by others unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proposal {
    /// The id of the candidate.
    pub id: ServerId,
    /// Its score, or unknown.
    pub rank: Rank,
    /// The oracle configuration that produced the score: the zxid that committed it, or zero if it came from files.
    pub version: Zxid,
    /// Fingerprint of the oracle and its parameters. Scores of different oracles are not comparable.
    pub fingerprint: u64,
    /// The position of the candidate in the agreement. It decides only after scores have failed three times.
    pub standing: Standing,
    /// The measurements behind the score, for the record. They do not affect the order.
    pub inputs: Vec<Input>,
}

/// A message of the election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// Sent by a server that is electing.
    Propose(Propose),
    /// Sent by a server that has a leader, in answer to a proposal or a question; to the leader, by a server that has
    /// elected it without having heard all voters; and to observers, when the leader is established.
    Vote(Vote),
    /// Sent by an observer without a leader: who leads?
    Ask,
}

/// P: the state of a server that is electing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Propose {
    /// The current round of the sender.
    pub round: Round,
    /// The sender's proposal for itself.
    pub own: Proposal,
    /// The best proposal that the sender knows in this round.
    pub choice: Proposal,
    /// Servers found unable to lead: the union of all demotions that the sender knows in this round.
    pub demoted: BTreeSet<ServerId>,
}

/// V: the leader of a server that is not electing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Vote {
    /// The round in which the leader was chosen.
    pub round: Round,
    /// The whole chosen proposal, so that a server in the same round can compare it with its own choice.
    pub choice: Proposal,
    /// The epoch of the agreement, if the leader is established.
    pub established: Option<Epoch>,
}

impl Message {
    /// Checks all fields before any of them reaches our state.
    pub(crate) fn check(&self, from: ServerId, config: &Config) -> Result<(), Error> {
        let voters = &config.voters;
        if from == config.me {
            return Err(Error::FromSelf { from });
        }
        match self {
            Self::Ask if config.observers.contains(&from) => Ok(()),
            Self::Propose(_) | Self::Vote(_) | Self::Ask if !voters.contains(from) => {
                Err(Error::UnknownSender { from })
            }
            Self::Propose(propose) => propose.check(from, voters),
            Self::Vote(vote) => check_choice(from, vote.round, &vote.choice, voters),
            Self::Ask => Ok(()),
        }
    }
}

impl Propose {
    fn check(&self, from: ServerId, voters: &Voters) -> Result<(), Error> {
        check_round(from, self.round)?;
        if self.own.id != from {
            return Err(Error::SenderMismatch { from, id: self.own.id });
        }
        check_proposal(from, &self.own, voters)?;
        check_proposal(from, &self.choice, voters)?;
        match self.demoted.iter().find(|id| !voters.contains(**id)) {
            Some(id) => Err(Error::UnknownDemoted { from, id: *id }),
            None => Ok(()),
        }
    }
}

/// Checks a round and the proposal chosen in it. Also for a choice that arrives outside a vote, since later votes will
/// carry it.
///
/// # Errors
/// If no server can have produced them. Returns the first error found.
pub fn check_choice(from: ServerId, round: Round, choice: &Proposal, voters: &Voters) -> Result<(), Error> {
    check_round(from, round)?;
    check_proposal(from, choice, voters)
}

fn check_round(from: ServerId, round: Round) -> Result<(), Error> {
    if round.epoch > ROUND_MAX { Err(Error::Round { from, round }) } else { Ok(()) }
}

fn check_proposal(from: ServerId, proposal: &Proposal, voters: &Voters) -> Result<(), Error> {
    if !voters.contains(proposal.id) {
        return Err(Error::UnknownCandidate { from, id: proposal.id });
    }
    if proposal.inputs.len() > INPUTS_MAX {
        return Err(Error::Inputs { from, count: proposal.inputs.len() });
    }
    match proposal.inputs.iter().find(|input| input.name.len() > INPUT_NAME_MAX) {
        Some(input) => Err(Error::InputName { from, length: input.name.len() }),
        None => Ok(()),
    }
}

/// Why a peer's message was refused. A refused message changes no state.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Error {
    /// The message carries our own id.
    #[error("message from server {from}, which is this server: two servers have the same id, or a link loops back")]
    FromSelf {
        /// The sender according to the link.
        from: ServerId,
    },
    /// The sender is not a voter.
    #[error("message from server {from}, which is no voter of this ensemble: compare the server lists of both")]
    UnknownSender {
        /// The sender according to the link.
        from: ServerId,
    },
    /// The sender's own proposal carries another id.
    #[error("server {from} proposes server {id} as itself: expected its own id, {from}")]
    SenderMismatch {
        /// The sender.
        from: ServerId,
        /// The id in its own proposal.
        id: ServerId,
    },
    /// The candidate is not a voter.
    #[error("server {from} proposes server {id}, which is no voter of this ensemble: compare the server lists of both")]
    UnknownCandidate {
        /// The sender.
        from: ServerId,
        /// The candidate.
        id: ServerId,
    },
    /// A demoted server is not a voter.
    #[error("server {from} demotes server {id}, which is no voter of this ensemble: compare the server lists of both")]
    UnknownDemoted {
        /// The sender.
        from: ServerId,
        /// The demoted server.
        id: ServerId,
    },
    /// The round is higher than any ensemble can reach.
    #[error("server {from} is in round {round}, expected at most {ROUND_MAX}: damaged message")]
    Round {
        /// The sender.
        from: ServerId,
        /// The round in the message.
        round: Round,
    },
    /// Too many measurements behind a score.
    #[error("server {from} sends a score with {count} inputs, expected at most {INPUTS_MAX}")]
    Inputs {
        /// The sender.
        from: ServerId,
        /// The number of measurements.
        count: usize,
    },
    /// The name of a measurement is too long.
    #[error("server {from} names an input of a score with {length} bytes, expected at most {INPUT_NAME_MAX}")]
    InputName {
        /// The sender.
        from: ServerId,
        /// The length of the name, in bytes.
        length: usize,
    },
}

/// The maximum number of measurements behind one score. A round trip and a rate for each server of a large ensemble
/// would not fit; an oracle lists the few that decided.
pub const INPUTS_MAX: usize = 32;

/// The maximum length of a measurement's name, in bytes.
pub const INPUT_NAME_MAX: usize = 48;

/// The highest epoch of a round that is accepted: far above what elections reach, and far below the overflow that one
/// damaged message could otherwise bring near.
pub const ROUND_MAX: u64 = 1 << 48;
