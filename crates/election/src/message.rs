//! What servers tell each other while they elect: proposals and votes.
//!
//! In: a message as a peer sent it. Out: the same message, or an [`Error`] that names the peer and the field.
//! Why: everything from outside is checked once, at the door; behind it nothing can panic on its contents.
//! Holds afterwards: ids are voters', the sender proposes itself, sets, names and lists keep their limits.
//! Not here: bytes (`server`), whether a score makes sense (the host's oracle), which proposal is better (`order`).
//! Source: PAPER.md, section 2: "P carries", "V carries".

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::{Epoch, Rank, Round, ServerId, Standing, Voters, Zxid};

/// One measurement under a score, so that a record can say why the score is what it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Input {
    /// What was measured, with its unit last: `consensus_us`. At most [`INPUT_NAME_MAX`] bytes.
    pub name: String,
    /// The value, in the unit of its name.
    pub value: i64,
}

/// A server as a candidate: what one server says of itself, and what others repeat unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proposal {
    /// The candidate.
    pub id: ServerId,
    /// Its score, if it has one.
    pub rank: Rank,
    /// The oracle configuration under which it was scored: the zxid that committed it, zero when from files.
    pub version: Zxid,
    /// Fingerprint of the oracle and its parameters: scores of different oracles are not comparable.
    pub fingerprint: u64,
    /// Where the candidate stands in the agreement. Decides only when scores have failed three times.
    pub standing: Standing,
    /// The measurements under the score, for the record. They take no part in the order.
    pub inputs: Vec<Input>,
}

/// A message of the election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// From a server that elects.
    Propose(Propose),
    /// From a server that has a leader, in answer to a proposal.
    Vote(Vote),
}

/// P: what a server that elects knows best.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Propose {
    /// The round that the sender is in.
    pub round: Round,
    /// The sender's proposal of itself.
    pub own: Proposal,
    /// The best proposal that the sender knows in this round.
    pub choice: Proposal,
    /// Servers found unable to lead, united over all that the sender heard in this round.
    pub demoted: BTreeSet<ServerId>,
}

/// V: the leader that the sender has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Vote {
    /// The round in which the leader was chosen.
    pub round: Round,
    /// The whole proposal chosen, so that a server of the same round can compare it with its own choice.
    pub choice: Proposal,
    /// The epoch of the agreement, once the leader is established.
    pub established: Option<Epoch>,
}

impl Message {
    /// Checks all fields that come from outside, before any of them touches our state.
    pub(crate) fn check(&self, from: ServerId, me: ServerId, voters: &Voters) -> Result<(), Error> {
        if from == me {
            return Err(Error::Echo { from });
        }
        if !voters.contains(from) {
            return Err(Error::Stranger { from });
        }
        match self {
            Self::Propose(propose) => propose.check(from, voters),
            Self::Vote(vote) => check_choice(from, vote.round, &vote.choice, voters),
        }
    }
}

impl Propose {
    fn check(&self, from: ServerId, voters: &Voters) -> Result<(), Error> {
        check_round(from, self.round)?;
        if self.own.id != from {
            return Err(Error::Impostor { from, id: self.own.id });
        }
        check_proposal(from, &self.own, voters)?;
        check_proposal(from, &self.choice, voters)?;
        match self.demoted.iter().find(|id| !voters.contains(**id)) {
            Some(id) => Err(Error::DemotesStranger { from, id: *id }),
            None => Ok(()),
        }
    }
}

/// Checks a round and the proposal chosen in it, also if they came by another way than a vote: votes will carry them on.
///
/// # Errors
/// If no server can have made them. The first error found.
pub fn check_choice(from: ServerId, round: Round, choice: &Proposal, voters: &Voters) -> Result<(), Error> {
    check_round(from, round)?;
    check_proposal(from, choice, voters)
}

fn check_round(from: ServerId, round: Round) -> Result<(), Error> {
    if round.epoch > ROUND_MAX { Err(Error::Round { from, round }) } else { Ok(()) }
}

fn check_proposal(from: ServerId, proposal: &Proposal, voters: &Voters) -> Result<(), Error> {
    if !voters.contains(proposal.id) {
        return Err(Error::ProposesStranger { from, id: proposal.id });
    }
    if proposal.inputs.len() > INPUTS_MAX {
        return Err(Error::Inputs { from, count: proposal.inputs.len() });
    }
    match proposal.inputs.iter().find(|input| input.name.len() > INPUT_NAME_MAX) {
        Some(input) => Err(Error::InputName { from, length: input.name.len() }),
        None => Ok(()),
    }
}

/// Why a peer's message was refused. Nothing of a refused message was taken over.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Error {
    /// The message bears our own id.
    #[error("message from server {from}, which is this server: two servers have the same id, or a link loops back")]
    Echo {
        /// The sender as the link names it.
        from: ServerId,
    },
    /// The sender has no vote here.
    #[error("message from server {from}, which is no voter of this ensemble: compare the server lists of both")]
    Stranger {
        /// The sender as the link names it.
        from: ServerId,
    },
    /// The sender's own proposal is another server's.
    #[error("server {from} proposes server {id} as itself: expected its own id, {from}")]
    Impostor {
        /// The sender.
        from: ServerId,
        /// The id in its own proposal.
        id: ServerId,
    },
    /// A candidate who has no vote here.
    #[error("server {from} proposes server {id}, which is no voter of this ensemble: compare the server lists of both")]
    ProposesStranger {
        /// The sender.
        from: ServerId,
        /// The candidate.
        id: ServerId,
    },
    /// A demoted server that has no vote here.
    #[error("server {from} demotes server {id}, which is no voter of this ensemble: compare the server lists of both")]
    DemotesStranger {
        /// The sender.
        from: ServerId,
        /// The server demoted.
        id: ServerId,
    },
    /// A round that no ensemble reaches.
    #[error("server {from} is in round {round}, expected at most {ROUND_MAX}: damaged message")]
    Round {
        /// The sender.
        from: ServerId,
        /// The round it names.
        round: Round,
    },
    /// Too many measurements under a score.
    #[error("server {from} sends a score with {count} inputs, expected at most {INPUTS_MAX}")]
    Inputs {
        /// The sender.
        from: ServerId,
        /// How many it sent.
        count: usize,
    },
    /// Too long a name of a measurement.
    #[error("server {from} names an input of a score with {length} bytes, expected at most {INPUT_NAME_MAX}")]
    InputName {
        /// The sender.
        from: ServerId,
        /// The length of the name.
        length: usize,
    },
}

/// The most measurements under one score: a round trip and a rate for each server of a large ensemble would not fit,
/// and need not; an oracle names the few that decided.
pub const INPUTS_MAX: usize = 32;

/// The longest name of a measurement, in bytes.
pub const INPUT_NAME_MAX: usize = 48;

/// The highest epoch of a round that is believed. Far above what elections reach, far below the overflow that one
/// damaged message could otherwise bring near.
pub const ROUND_MAX: u64 = 1 << 48;
