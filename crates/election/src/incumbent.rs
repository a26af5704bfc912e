//! Decides when the votes of others make a late server adopt the leader that they follow.
//!
//! The input is the latest vote of each peer since the election began. A late server must neither disturb a working
//! leader nor revive a dead one.
//!
//! Invariant: an incumbent is adopted only if a quorum of voters, the leader among them, names the same leader in the
//! same epoch. Without the leader's own vote, servers that answer each other would adopt a dead leader again and again
//! (scenario 33). There are two exceptions:
//!
//! - A leader that was elected in the electing server's own round or a later one, and is not established yet, needs one
//!   voter less: the electing server counts itself. The others may have counted it when they decided, before a late
//!   proposal changed its choice; or they may have counted a server that failed since. They would wait for it until their
//!   time limit.
//! - If no quorum has answered by the first retry, the vote of an established leader for itself is enough. The server may
//!   have a link to the leader and none to the leader's followers, and would never join otherwise (script 65). A vote of an
//!   older round than the server's own may have been under way for long, so that its sender is dead by now; it is enough
//!   only if the host knows that it was sent after this election began (script 65b).
//!
//! The service monitors whether the leader is alive.

use alloc::collections::BTreeMap;

use crate::interface::Incumbent;
use crate::trace::EndReason;
use crate::{Round, Vote};
use pole_types::{Epoch, ServerId, Voters};

/// A vote that has just arrived while no quorum has answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoneVote {
    pub(crate) from: ServerId,
    /// It was sent after this election began.
    pub(crate) is_recent: bool,
}

/// Returns the leader that a quorum of these votes confirms, as seen by server `me`, which is electing in `round`. There
/// is at most one, since two quorums share a voter.
///
/// If no quorum has answered, the vote that has just arrived may be enough. An earlier one is not, because its sender may
/// be dead by now.
pub(crate) fn incumbent(
    voters: &Voters,
    votes: &BTreeMap<ServerId, Vote>,
    me: ServerId,
    round: Round,
    lone: Option<LoneVote>,
) -> Option<Incumbent> {
    // A leader is confirmed only by its own vote, so the candidates are the servers that vote for themselves.
    let candidates = votes.iter().filter(|(id, vote)| vote.choice.id == **id).map(|(_, vote)| vote);
    candidates.into_iter().find_map(|own| {
        let followers = || votes.iter().filter(|(_, vote)| leadership(vote) == leadership(own)).map(|(id, _)| *id);
        let is_gathering = own.established.is_none() && own.round >= round;
        let reason = if voters.is_quorum(followers()) {
            EndReason::Incumbent
        } else if is_gathering && voters.is_quorum(followers().chain([me])) {
            EndReason::Joined
        } else if own.established.is_some() && lone.is_some_and(|lone| is_enough(lone, own, round)) {
            EndReason::OnlyLeader
        } else {
            return None;
        };
        Some(Incumbent { round: own.round, choice: own.choice.clone(), established: own.established, reason })
    })
}

fn is_enough(lone: LoneVote, own: &Vote, round: Round) -> bool {
    lone.from == own.choice.id && (lone.is_recent || own.round >= round)
}

/// The part of a vote that must be equal for two votes to name the same leader. The whole proposal is too much: its
/// details differ between servers that chose the leader and servers that adopted it, and a joiner that compared them
/// would never join (ZOOKEEPER-1732).
fn leadership(vote: &Vote) -> (ServerId, Result<Epoch, Round>) {
    (vote.choice.id, vote.established.ok_or(vote.round))
}
