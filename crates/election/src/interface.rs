//! The door of the election: what it is configured with, what it asks of its host, what it hands back.
//!
//! In: [`Config`], the answers of a [`Host`]. Out: [`Output`], to be carried out in the order given.
//! Why: a service that is not ours embeds the election by writing the few lines of `Host` and a loop over `Output`.
//! Not here: what happens in between (`election`).

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::{Epoch, Input, Message, Proposal, Rank, Record, Round, ServerId, Span, Standing, Voters, Zxid};

/// What an election is told once, at its making.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// This server.
    pub me: ServerId,
    /// All servers that vote, this one among them.
    pub voters: Voters,
    /// T: the longest wait for a voter that is silent, and the first retry.
    pub timeout: Span,
    /// The ceiling of the doubling retry.
    pub retry_max: Span,
    /// How long the very first election waits for a score before it proposes "unknown".
    pub first_score_wait: Span,
}

impl Config {
    /// The defaults: T = 200 ms, retries up to 2 s, 100 ms for the first score.
    #[must_use]
    pub fn new(me: ServerId, voters: Voters) -> Self {
        Self {
            me,
            voters,
            timeout: Span::from_ms(200),
            retry_max: Span::from_ms(2_000),
            first_score_wait: Span::from_ms(100),
        }
    }
}

/// What the oracle says of this server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Assessment {
    /// The score.
    pub rank: Rank,
    /// The oracle configuration it was made under.
    pub version: Zxid,
    /// Fingerprint of the oracle and its parameters.
    pub fingerprint: u64,
    /// The measurements under the score. Beyond [`INPUTS_MAX`](crate::INPUTS_MAX) they are cut off.
    pub inputs: Vec<Input>,
}

/// What the election asks of the server it runs in. Answered from memory: an oracle that blocks must be waited for
/// elsewhere, and its last answer, or none, given here.
pub trait Host {
    /// get_score(epoch): how good a leader this server would be in the election numbered `epoch`. None: not enough
    /// measurements yet.
    fn assess(&mut self, epoch: u64) -> Option<Assessment>;

    /// Where this server stands in the agreement.
    fn standing(&self) -> Standing;

    /// The smoothed round trip on the election link, if measured.
    fn round_trip(&self, peer: ServerId) -> Option<Span>;

    /// Whether by fresh gossip (at most two heartbeats old), under the same version and fingerprint, the peer ranks
    /// below `choice` by more than a class. Never for scores that jump with time or round (history, recovery,
    /// rotating).
    fn ranks_below(&self, peer: ServerId, choice: &Proposal) -> bool;

    /// Whether the oracle could have produced this score.
    ///
    /// # Errors
    /// What is impossible about it. The election then ranks it unknown, says so by [`Output::Invalid`], and still
    /// counts the sender, or one broken oracle would cost the quorum.
    fn validate(&self, proposal: &Proposal) -> Result<(), String>;
}

/// The timers that the election arms. Arming one that runs replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// The election timer: a quorum has proposed, the others get this long.
    Wait,
    /// Messages may be lost: propose again.
    Retry,
    /// The wait for the first score.
    Score,
}

/// Why an election was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The server has just started.
    Start,
    /// A follower has lost its leader.
    LeaderLost,
    /// The leader has lost its quorum.
    QuorumLost,
    /// The leader gives way to a better one.
    Resigned,
    /// An operator asked for another leader.
    Transfer,
    /// The leader chosen was not established in time.
    Retry,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::LeaderLost => "leader-lost",
            Self::QuorumLost => "quorum-lost",
            Self::Resigned => "resigned",
            Self::Transfer => "transfer",
            Self::Retry => "retry",
        })
    }
}

/// What the driver is to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Send on the election link. May be lost.
    Send {
        /// The receiver.
        to: ServerId,
        /// What to send.
        message: Message,
    },
    /// Call [`Election::expired`](crate::Election::expired) with this timer after that time.
    Arm {
        /// Which timer.
        timer: Timer,
        /// How long from now.
        after: Span,
    },
    /// Forget the timer. One that expires all the same does no harm.
    Cancel(Timer),
    /// The election has ended.
    Elected(Elected),
    /// A score was impossible and ranks as unknown. Told once for each candidate and round.
    Invalid {
        /// Who sent it; this server itself if its own oracle is broken.
        from: ServerId,
        /// Whose score, and what is wrong with it.
        reason: String,
    },
}

/// The end of an election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Elected {
    /// The leader. It may already be dead: then failure detection calls the next election.
    pub leader: ServerId,
    /// The round in which it was elected.
    pub round: Round,
    /// Standings heard from those who hold the choice, ours among them: lets the leader pick an epoch early. They are
    /// hints, no promises, and never tell whose history is best.
    pub standings: BTreeMap<ServerId, Standing>,
    /// Why this server.
    pub record: Record,
}

/// A leader that others already follow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Incumbent {
    pub(crate) round: Round,
    pub(crate) choice: Proposal,
    pub(crate) established: Option<Epoch>,
}
