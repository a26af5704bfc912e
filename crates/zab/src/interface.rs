//! The interface of the agreement: outputs, errors of peers, phases and limits.

use pole_election::{Proposal, Round};
use pole_types::{Epoch, Membership, ServerId, Zxid};

use crate::{Body, DiskOp, Message, Ticket, TransferId};

/// What the agreement asks of the server that runs it, to be carried out in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a message on the quorum link to `to`.
    Send {
        /// The receiver.
        to: ServerId,
        /// The message.
        message: Message,
    },
    /// Write, and call [`crate::Zab::written`] when it is durable.
    Write {
        /// Identifies the write.
        ticket: Ticket,
        /// The operation.
        op: DiskOp,
    },
    /// Close the quorum link to `peer`; it may be opened again.
    Reset {
        /// The other end.
        peer: ServerId,
    },
    /// Entries above `after` up to `through` were appended to our log in memory.
    Logged {
        /// The position before them.
        after: Zxid,
        /// The last of them.
        through: Zxid,
    },
    /// Our log was truncated.
    Truncated {
        /// Its last position now.
        to: Zxid,
    },
    /// Our history was replaced by a snapshot at this position. The applied state does not match it until
    /// [`Output::Restore`] is done.
    Installed {
        /// The position.
        zxid: Zxid,
    },
    /// Restore the state from the snapshot that is now installed, in the background, and then call
    /// [`crate::Zab::restored`].
    Restore {
        /// The write that installed it.
        ticket: Ticket,
        /// Its position.
        zxid: Zxid,
    },
    /// Everything up to here is committed and durable on our disk: apply it.
    Ready(Zxid),
    /// `to` needs a snapshot of the applied state: call [`crate::Zab::provide_snapshot`].
    WantsSnapshot {
        /// The server that is too far behind for a difference.
        to: ServerId,
    },
    /// History is sent to another server: keep the log above `after` on disk until the transfer is closed.
    OpenTransfer {
        /// Identifies the transfer.
        transfer: TransferId,
        /// The log above this position may be requested.
        after: Zxid,
        /// The state to be sent in pieces; `None` if only the log is sent.
        state: Option<Body>,
    },
    /// Produce the next piece of the state, and call [`crate::Zab::piece_is_ready`].
    NextPiece {
        /// The transfer.
        transfer: TransferId,
        /// The size of a piece in bytes; only the last one may be shorter.
        bytes: usize,
    },
    /// Read the log from disk, starting with the entry after `after`, and call [`crate::Zab::log_is_read`].
    ReadLog {
        /// The transfer.
        transfer: TransferId,
        /// The position before the first entry.
        after: Zxid,
        /// The last entry to read.
        through: Zxid,
        /// The approximate number of bytes to read; at least one entry.
        bytes: usize,
    },
    /// The transfer has ended: release its resources.
    CloseTransfer {
        /// The transfer.
        transfer: TransferId,
    },
    /// As leader: a follower's new link was accepted. Everything received on its older links is void.
    Joined {
        /// The follower.
        peer: ServerId,
    },
    /// The members of the ensemble have changed, or the change was undone.
    Members {
        /// The members that count now. While the change is not committed, quorums of both sets of voters are needed.
        members: Membership,
        /// The position of the change.
        version: Zxid,
    },
    /// The synchronisation made progress: restart its timeout.
    Progress,
    /// As leader: a quorum promised the epoch. As follower: we did.
    Promised {
        /// The epoch.
        epoch: Epoch,
    },
    /// As leader: our history is now the best of the quorum.
    Discovered {
        /// The server that we pulled from, if we lacked something.
        source: Option<ServerId>,
    },
    /// As leader: a quorum has adopted our history. Propose.
    Established {
        /// Our epoch.
        epoch: Epoch,
    },
    /// As follower: we have acknowledged the leader's history, and requests sent to it from now on arrive behind that.
    /// Forward all that are not in the log.
    MayForward,
    /// As follower: direct acknowledgements have shown that more is committed, before the leader has said so.
    CommittedDirectly,
    /// As follower: the leader is established and we have its history. Serve.
    Serving {
        /// The leader's epoch.
        epoch: Epoch,
    },
    /// As follower: the leader is gone, or does not lead. Elect.
    LeaderLost {
        /// The leader that was lost.
        leader: ServerId,
        /// The reason.
        reason: &'static str,
    },
    /// As leader: the remaining followers are no quorum. Step down and elect.
    QuorumLost,
    /// As leader: a server promised a higher epoch to another candidate. Call [`crate::Zab::reopen`], with a limit on
    /// how often.
    Outbid {
        /// The epoch that it promised.
        accepted: Epoch,
    },
    /// The leader handed over: `choice` leads now, without an election.
    HandedOver {
        /// The round in which the new leader counts as chosen.
        round: Round,
        /// The new leader's proposal.
        choice: Proposal,
        /// Whether the hand-over was requested; otherwise the last leader resigned by itself.
        asked: bool,
    },
}

/// An error of a peer. The link to the peer must be closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The server is not a member of this ensemble, or it is to lead and does not vote.
    #[error("server {0} is not a member of this ensemble, or not a voter: check its configuration")]
    Foreign(ServerId),
    /// Entries that do not continue our log.
    #[error("{message} of server {from} starts after {prev}, but our log ends at {last}")]
    Gap {
        /// The sender.
        from: ServerId,
        /// The name of the message.
        message: &'static str,
        /// The position that our log should end at according to the sender.
        prev: Zxid,
        /// The position that our log ends at.
        last: Zxid,
    },
    /// Entries that do not continue each other.
    #[error("{message} of server {from} holds entries that do not follow one another after {prev}")]
    NotContiguous {
        /// The sender.
        from: ServerId,
        /// The name of the message.
        message: &'static str,
        /// The position before the first entry.
        prev: Zxid,
    },
    /// A request to truncate committed entries.
    #[error("server {from} asks to cut the log at {to}, but {committed} is committed here: refusing to lose it")]
    CutsCommitted {
        /// The sender.
        from: ServerId,
        /// The position to truncate to.
        to: Zxid,
        /// The last position known to be committed here.
        committed: Zxid,
    },
    /// The sender's claim about the end of the history is wrong.
    #[error("{message} of server {from} says that the history ends at {claimed}, but ours ends at {last}")]
    WrongEnd {
        /// The sender.
        from: ServerId,
        /// The name of the message.
        message: &'static str,
        /// The end according to the sender.
        claimed: Zxid,
        /// The end of our history.
        last: Zxid,
    },
    /// An impossible epoch.
    #[error("{message} of server {from} names epoch {epoch}, which is impossible: {reason}")]
    ImpossibleEpoch {
        /// The sender.
        from: ServerId,
        /// The name of the message.
        message: &'static str,
        /// The epoch.
        epoch: Epoch,
        /// The reason.
        reason: &'static str,
    },
    /// A message that is invalid in our phase.
    #[error("{message} of server {from} is not expected while we are {phase:?}")]
    Unexpected {
        /// The sender.
        from: ServerId,
        /// The name of the message.
        message: &'static str,
        /// Our phase.
        phase: Phase,
    },
    /// A malformed list of epochs.
    #[error("server {0} reports a malformed list of epochs")]
    MalformedHistory(ServerId),
    /// A hand-over with an invalid round or proposal.
    #[error("Handover: {0}")]
    Choice(#[from] pole_election::Error),
}

/// Why a hand-over cannot start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// This server is not an established leader.
    #[error("this server is not an established leader")]
    NotLeading,
    /// Some transactions are not committed and durable yet.
    #[error("transactions are still under way")]
    UnderWay,
    /// The target has not acknowledged the whole history.
    #[error("the target is not level")]
    NotLevel,
    /// The target is an observer, or a voter without weight.
    #[error("the target may not lead")]
    MayNotLead,
}

/// The phase of the protocol that a server is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// No leader is known.
    Looking,
    /// Following: the leader has not asked for a promise yet.
    Greeting,
    /// Following: promised, being synchronised.
    Promised,
    /// Following: the history is complete; the leader is not known to be established yet.
    Joining,
    /// Following: accepted a hand-over; the target is not known to be established yet.
    TakingOver,
    /// Following an established leader, with its history.
    Serving,
    /// Leading: waiting for enough followers to pick an epoch.
    Gathering,
    /// Leading: waiting for a quorum of promises.
    Promising,
    /// Leading: fetching a better history.
    Pulling,
    /// Leading: waiting for a quorum to adopt our history.
    Synchronising,
    /// Leading, with a quorum that has adopted our history.
    Established,
}

/// Limits of the agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// The size of one message of a transfer in bytes. Small enough not to delay the liveness messages queued behind
    /// it.
    pub piece_bytes: usize,
    /// The number of unconfirmed messages of a transfer. Times `piece_bytes`, this bounds what a slow receiver makes
    /// both sides buffer.
    pub pieces_in_flight: usize,
    /// The zxid counter at which a new epoch is opened, well before it overflows.
    pub counter_max: u32,
    /// Whether servers that are not members may follow. They are sent the history and serve, and count nowhere, so that a
    /// change of the members can add them.
    pub joiners: bool,
    /// Set by the operator: a server without history votes as if it never had one. Loses data if the server was wiped.
    pub trust_blank: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            piece_bytes: 256 * 1024,
            pieces_in_flight: 32,
            counter_max: u32::MAX - (1 << 20),
            joiners: false,
            trust_blank: false,
        }
    }
}
