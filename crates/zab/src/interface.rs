//! The door of the agreement: what it puts out, what it says of peers that err, where it is, and its bounds.

use pole_election::{Epoch, Proposal, Round, ServerId, Zxid};

use crate::{Body, DiskOp, Message, Ticket, TransferId};

/// What the agreement asks of its server, to be carried out in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send on the quorum link to `to`.
    Send {
        /// The receiver.
        to: ServerId,
        /// What.
        message: Message,
    },
    /// Write, and call [`crate::Zab::written`] when it is durable.
    Write {
        /// Names the write.
        ticket: Ticket,
        /// What to write.
        op: DiskOp,
    },
    /// Close the quorum link to `peer`; it may be opened again.
    Reset {
        /// The other end.
        peer: ServerId,
    },
    /// Entries above `after` up to `through` were put into our log.
    Logged {
        /// The position before them.
        after: Zxid,
        /// The last of them.
        through: Zxid,
    },
    /// Our log was cut.
    Truncated {
        /// Its last position now.
        to: Zxid,
    },
    /// Our history was replaced by a snapshot at this position. The state that we have belongs to neither.
    Installed {
        /// The position.
        zxid: Zxid,
    },
    /// Replace the state by that of the snapshot which is now in place, beside serving, and call
    /// [`crate::Zab::restored`].
    Restore {
        /// The write that put it in place.
        ticket: Ticket,
        /// Its position.
        zxid: Zxid,
    },
    /// Everything up to here is committed and on our disk: apply it.
    Ready(Zxid),
    /// `to` needs a snapshot of the state applied: call [`crate::Zab::provide_snapshot`].
    WantsSnapshot {
        /// The server that is too far behind for a difference.
        to: ServerId,
    },
    /// History is sent to another server: keep the log above `after` on disk until the transfer is closed.
    OpenTransfer {
        /// Names it.
        transfer: TransferId,
        /// The log above this position may be asked for.
        after: Zxid,
        /// The state to be sent, in pieces.
        state: Option<Body>,
    },
    /// Produce the next piece of the state, and call [`crate::Zab::piece_is_ready`].
    NextPiece {
        /// Of this transfer.
        transfer: TransferId,
        /// The size of a piece; only the last one is shorter.
        bytes: usize,
    },
    /// Read the log from disk, from the entry after `after` on, and call [`crate::Zab::log_is_read`].
    ReadLog {
        /// For this transfer.
        transfer: TransferId,
        /// The position before the first entry.
        after: Zxid,
        /// No entry above this.
        through: Zxid,
        /// The approximate size to read; at least one entry.
        bytes: usize,
    },
    /// The transfer has ended: forget it.
    CloseTransfer {
        /// Which.
        transfer: TransferId,
    },
    /// The leader accepted a follower's link: whatever came on older links is void.
    Joined {
        /// The follower.
        peer: ServerId,
    },
    /// The synchronisation moves on; whoever measures its patience starts anew.
    Progress,
    /// As leader: a quorum promised the epoch. As follower: we did.
    Promised {
        /// The epoch.
        epoch: Epoch,
    },
    /// As leader: our history is the best of the quorum, and `source` had to help with it.
    Discovered {
        /// Whom we pulled from.
        source: Option<ServerId>,
    },
    /// As leader: a quorum took our history over. Propose.
    Established {
        /// Our epoch.
        epoch: Epoch,
    },
    /// As follower: the leader is established and we are level. Serve.
    Serving {
        /// The leader's epoch.
        epoch: Epoch,
    },
    /// As follower: the leader is gone, or does not lead. Elect.
    LeaderLost {
        /// Which leader.
        leader: ServerId,
        /// Why.
        reason: &'static str,
    },
    /// As leader: too few followers are left. Abandon and elect.
    QuorumLost,
    /// As leader: a server promised a higher epoch to another candidate. [`crate::Zab::reopen`], but not too often.
    Outbid {
        /// What it promised.
        accepted: Epoch,
    },
    /// The leader handed over: this is the leader now, without an election.
    HandedOver {
        /// The round in which it counts as chosen.
        round: Round,
        /// The new leader's proposal.
        choice: Proposal,
        /// Whether somebody asked the last leader to.
        asked: bool,
    },
}

/// What a peer did wrong. The link to it is to be closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not one of us.
    #[error("server {0} is not a voter of this ensemble: check its configuration")]
    Foreign(ServerId),
    /// Entries that do not continue our log.
    #[error("{message} of server {from} starts after {prev}, but our log ends at {last}")]
    Gap {
        /// The sender.
        from: ServerId,
        /// Which message.
        message: &'static str,
        /// Where it says that we are.
        prev: Zxid,
        /// Where we are.
        last: Zxid,
    },
    /// Entries that do not continue each other.
    #[error("{message} of server {from} holds entries that do not follow one another after {prev}")]
    NotContiguous {
        /// The sender.
        from: ServerId,
        /// Which message.
        message: &'static str,
        /// Where they start.
        prev: Zxid,
    },
    /// A truncation of what is committed.
    #[error("server {from} asks to cut the log at {to}, but {committed} is committed here: refusing to lose it")]
    CutsCommitted {
        /// The sender.
        from: ServerId,
        /// Where to cut.
        to: Zxid,
        /// What we know to be committed.
        committed: Zxid,
    },
    /// The sender's claim about the end of the history is not so.
    #[error("{message} of server {from} says that the history ends at {claimed}, but ours ends at {last}")]
    WrongEnd {
        /// The sender.
        from: ServerId,
        /// Which message.
        message: &'static str,
        /// Its claim.
        claimed: Zxid,
        /// Ours.
        last: Zxid,
    },
    /// An epoch that cannot be.
    #[error("{message} of server {from} names epoch {epoch}, which is impossible: {reason}")]
    ImpossibleEpoch {
        /// The sender.
        from: ServerId,
        /// Which message.
        message: &'static str,
        /// The epoch.
        epoch: Epoch,
        /// Why.
        reason: &'static str,
    },
    /// A message that makes no sense in the phase in which we are.
    #[error("{message} of server {from} is not expected while we are {phase:?}")]
    Unexpected {
        /// The sender.
        from: ServerId,
        /// Which message.
        message: &'static str,
        /// Our phase.
        phase: Phase,
    },
    /// A history whose shape is malformed.
    #[error("server {0} reports a malformed list of epochs")]
    MalformedHistory(ServerId),
    /// A hand-over in a round, or to a proposal, that cannot be.
    #[error("Handover: {0}")]
    Choice(#[from] pole_election::Error),
}

/// Why a hand-over cannot start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// We do not lead, or are not established.
    #[error("this server is not an established leader")]
    NotLeading,
    /// Transactions are not yet committed.
    #[error("transactions are still under way")]
    UnderWay,
    /// The target has not acknowledged the whole history.
    #[error("the target is not level")]
    NotLevel,
}

/// Where a server is in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// No leader.
    Looking,
    /// Following: the leader has not asked for a promise yet.
    Greeting,
    /// Following: promised, being synchronised.
    Promised,
    /// Following: the history is complete, the leader not yet known to be established.
    Joining,
    /// Following: took a hand-over, the target not yet known to be established.
    TakingOver,
    /// Following an established leader.
    Serving,
    /// Leading: waiting for enough followers to pick an epoch.
    Gathering,
    /// Leading: waiting for a quorum of promises.
    Promising,
    /// Leading: fetching a better history.
    Pulling,
    /// Leading: bringing a quorum level.
    Synchronising,
    /// Leading.
    Established,
}

/// Bounds, each with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// The size of one message of a difference: small enough that a liveness message behind it is not late.
    pub piece_bytes: usize,
    /// Messages of a transfer that are sent ahead of their confirmation: with the size of a piece, what a slow receiver
    /// makes both sides hold.
    pub pieces_in_flight: usize,
    /// Counters above this force a new epoch, well before they overflow.
    pub counter_max: u32,
    /// The operator's word that a server without history may vote as if it had one. Loses data if that is wrong.
    pub trust_blank: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { piece_bytes: 256 * 1024, pieces_in_flight: 32, counter_max: u32::MAX - (1 << 20), trust_blank: false }
    }
}
