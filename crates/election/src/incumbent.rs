//! Decides when the votes of others make a late server adopt the leader that they follow.
//!
//! The input is the latest vote of each peer since the election began. A late server must neither disturb a working
//! leader nor revive a dead one.
//!
//! Invariant: an incumbent is adopted only if a quorum of voters, the leader among them, names the same leader in the
//! same epoch. Without the leader's own vote, servers that answer each other would adopt a dead leader again and again
//! (scenario 33).
//!
//! The service monitors whether the leader is alive.

use alloc::collections::BTreeMap;

use crate::interface::Incumbent;
use crate::{Epoch, Round, ServerId, Vote, Voters};

/// Returns the leader that a quorum of these votes confirms. There is at most one, since two quorums share a voter.
pub(crate) fn incumbent(voters: &Voters, votes: &BTreeMap<ServerId, Vote>) -> Option<Incumbent> {
    // A leader is confirmed only by its own vote, so the candidates are the servers that vote for themselves.
    let own = votes.iter().filter(|(id, vote)| vote.choice.id == **id);
    own.map(|(_, vote)| vote).find(|own| is_confirmed(voters, votes, own)).map(|own| Incumbent {
        round: own.round,
        choice: own.choice.clone(),
        established: own.established,
    })
}

fn is_confirmed(voters: &Voters, votes: &BTreeMap<ServerId, Vote>, own: &Vote) -> bool {
    voters.is_quorum(votes.iter().filter(|(_, vote)| leadership(vote) == leadership(own)).map(|(id, _)| *id))
}

/// The part of a vote that must be equal for two votes to name the same leader. The whole proposal is too much: its
/// details differ between servers that chose the leader and servers that adopted it, and a joiner that compared them
/// would never join (ZOOKEEPER-1732).
fn leadership(vote: &Vote) -> (ServerId, Result<Epoch, Round>) {
    (vote.choice.id, vote.established.ok_or(vote.round))
}
