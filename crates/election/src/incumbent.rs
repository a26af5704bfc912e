//! Late joiners: when do the votes of others make a leader ours?
//!
//! In: the latest vote of each peer since the election began. Out: the incumbent to adopt, if there is one.
//! Why: a server that comes late must not disturb a leader that works, and must not revive one that does not.
//! Holds: a quorum of voters, the leader itself among them, names the same leader in the same epoch. Without its own
//! vote a dead leader would be adopted again and again by those who answer each other (scenario 33).
//! Not here: the leader's liveness, which is the service's to watch.
//! Source: PAPER.md, section 2, "Adopt an incumbent when a quorum of latest votes, its own among them".

use alloc::collections::BTreeMap;

use crate::interface::Incumbent;
use crate::{Epoch, Round, ServerId, Vote, Voters};

/// The leader that a quorum of these votes confirms. At most one can be: two quorums share a voter.
pub(crate) fn incumbent(voters: &Voters, votes: &BTreeMap<ServerId, Vote>) -> Option<Incumbent> {
    // Only a leader's own vote can confirm it, so the votes of servers for themselves are all the candidates.
    let own = votes.iter().filter(|(id, vote)| vote.choice.id == **id);
    own.map(|(_, vote)| vote).find(|own| is_confirmed(voters, votes, own)).map(|own| Incumbent {
        round: own.round,
        choice: own.choice.clone(),
        established: own.established,
    })
}

fn is_confirmed(voters: &Voters, votes: &BTreeMap<ServerId, Vote>, own: &Vote) -> bool {
    voters.is_quorum(votes.iter().filter(|(_, vote)| reign(vote) == reign(own)).map(|(id, _)| *id))
}

/// What two votes must share to name the same leader. Not the whole proposal: scores differ in detail between those who
/// chose and those who adopted, and a joiner that insists on them never joins (ZOOKEEPER-1732).
fn reign(vote: &Vote) -> (ServerId, Result<Epoch, Round>) {
    (vote.choice.id, vote.established.ok_or(vote.round))
}
