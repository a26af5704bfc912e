//! The interface of the election: its configuration, the [`Host`] trait that a service implements, and its [`Output`].
//!
//! To embed the election, a service implements `Host` and runs a loop that carries out each `Output` in the order
//! given. The state machine itself is in `election`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::{EndReason, Input, Message, Proposal, Rank, Record, Round, Standing};
use pole_types::{Epoch, ServerId, Span, Voters, Zxid};

/// The configuration of an election, fixed when it is created.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// The id of this server.
    pub me: ServerId,
    /// All servers that vote. Without this one among them, this server is an observer: it only finds out who leads.
    pub voters: Voters,
    /// The servers that do not vote and want to know who leads.
    pub observers: BTreeSet<ServerId>,
    /// Whether the members may change at run time. Then a server that is not a member may ask who leads, and a message that
    /// names servers unknown here is ignored instead of refused: its sender may know of a change that we do not.
    pub changing: bool,
    /// T: the longest wait for a silent voter, and the delay of the first retry.
    pub timeout: Span,
    /// The upper limit of the retry delay, which doubles each time. Jitter can add up to a quarter.
    pub retry_max: Span,
    /// How long the first election after a start waits for a score before it proposes "unknown".
    pub first_score_wait: Span,
}

impl Config {
    /// The defaults: T = 200 ms, retries up to 2 s, 100 ms for the first score.
    #[must_use]
    pub fn new(me: ServerId, voters: Voters) -> Self {
        Self {
            me,
            voters,
            observers: BTreeSet::new(),
            changing: false,
            timeout: Span::from_ms(200),
            retry_max: Span::from_ms(2_000),
            first_score_wait: Span::from_ms(100),
        }
    }
}

/// The oracle's assessment of this server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Assessment {
    /// The score, or unknown.
    pub rank: Rank,
    /// The oracle configuration under which the score was computed.
    pub version: Zxid,
    /// The fingerprint of the oracle and its parameters.
    pub fingerprint: u64,
    /// The measurements behind the score. Those beyond [`INPUTS_MAX`](crate::INPUTS_MAX) are cut off.
    pub inputs: Vec<Input>,
}

/// What the election needs from the server it runs in. All methods answer from memory and must not block: a service
/// whose oracle blocks waits for it elsewhere and returns its last answer, or None, here.
pub trait Host {
    /// `get_score(epoch)` in the paper: how good a leader this server would be in the election numbered `epoch`.
    /// Returns None if there are not enough measurements yet.
    fn assess(&mut self, epoch: u64) -> Option<Assessment>;

    /// The position of this server in the agreement.
    fn standing(&self) -> Standing;

    /// The smoothed round trip on the election link to the peer, if measured.
    fn round_trip(&self, peer: ServerId) -> Option<Span>;

    /// Whether the peer ranks below `choice` by more than a class, according to fresh gossip (at most two heartbeats
    /// old) under the same version and fingerprint. Must return false for scores that jump with time or round
    /// (history, recovery, rotating).
    fn ranks_below(&self, peer: ServerId, choice: &Proposal) -> bool;

    /// Whether everything that arrives from the peer now was sent after this election began, because it has answered a
    /// message that was sent since. Must be false if messages of a peer may overtake each other.
    fn is_recent(&self, _peer: ServerId) -> bool {
        false
    }

    /// Checks that the oracle could have produced this score.
    ///
    /// # Errors
    /// If the score is impossible, with the reason. The election then ranks it unknown and emits [`Output::Invalid`],
    /// but still counts the sender, or one broken oracle would cost the quorum.
    fn validate(&self, proposal: &Proposal) -> Result<(), String>;
}

/// The timers that the election arms. Arming a running timer replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// The election timer: how long to wait for the other voters after a quorum has proposed.
    Wait,
    /// The retry timer: propose again, since messages may be lost.
    Retry,
    /// The timer for the first score.
    Score,
}

/// Why an election was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The server has just started.
    Start,
    /// A follower has lost its leader.
    LeaderLost,
    /// The leader has lost its quorum.
    QuorumLost,
    /// The leader resigns in favour of a better one.
    Resigned,
    /// An operator asked for another leader.
    Transfer,
    /// The chosen leader was not established in time.
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

/// What the driver must do, in the order given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Send a message on the election link. It may be lost.
    Send {
        /// The receiver.
        to: ServerId,
        /// The message.
        message: Message,
    },
    /// Call [`Election::expired`](crate::Election::expired) with this timer after the given time.
    Arm {
        /// The timer to arm.
        timer: Timer,
        /// The delay from now.
        after: Span,
    },
    /// Cancel the timer. If it expires anyway, nothing happens.
    Cancel(Timer),
    /// The election has ended.
    Elected(Elected),
    /// A score was invalid and ranks as unknown. Reported once per candidate and round.
    Invalid {
        /// The sender; this server itself if its own oracle is broken.
        from: ServerId,
        /// Whose score it is, and what is wrong with it.
        reason: String,
    },
}

/// The result of an election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Elected {
    /// The leader. It may have failed already; failure detection then starts the next election.
    pub leader: ServerId,
    /// The round in which it was elected.
    pub round: Round,
    /// The standings of the servers that hold the choice, as far as received, including our own. They let the leader
    /// pick an epoch early. They are hints, not promises, and do not tell whose history is best.
    pub standings: BTreeMap<ServerId, Standing>,
    /// Why this server was elected.
    pub record: Record,
}

/// A leader that a quorum already follows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Incumbent {
    pub(crate) round: Round,
    pub(crate) choice: Proposal,
    pub(crate) established: Option<Epoch>,
    /// [`EndReason::Incumbent`], [`EndReason::Joined`] or [`EndReason::OnlyLeader`].
    pub(crate) reason: EndReason,
}
