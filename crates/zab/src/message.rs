//! The messages between a leader and a follower.
//!
//! Links are FIFO; a link that loses a message is closed.

use alloc::vec::Vec;
use bytes::Bytes;
use pole_election::{Proposal, Round};
use pole_types::{Epoch, ServerId, Zxid};

use crate::{Entry, Epochs};

/// A message of the agreement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// Follower to leader: the follower has chosen this leader.
    Hello(Hello),
    /// Answer to `Hello` of a server that does not lead: elect again.
    Decline,
    /// Leader to follower: promise this epoch.
    NewEpoch {
        /// Above every epoch that the leader knows to be promised.
        epoch: Epoch,
    },
    /// Follower to leader: the promise is durable.
    AckEpoch(Promise),
    /// Follower to leader: a higher epoch was promised to another server.
    RefuseEpoch {
        /// The epoch that was refused.
        refused: Epoch,
        /// The epoch that was promised.
        accepted: Epoch,
    },
    /// Leader to the follower with the best history: send what the leader lacks.
    Pull {
        /// The history that the leader has.
        epochs: Epochs,
    },
    /// Drop everything above `to`. Sent by a leader or by the source of a pull.
    Truncate {
        /// The last position that both histories share.
        to: Zxid,
    },
    /// A part of the snapshot that replaces the whole history.
    Snapshot(SnapshotPart),
    /// A part of the difference.
    Entries {
        /// The position before the first entry.
        prev: Zxid,
        /// In order.
        entries: Vec<Entry>,
    },
    /// Confirms one message of a difference or snapshot, so that the sender may send another. The message is on the
    /// receiver's disk; for the last part of a snapshot, the state is restored.
    Received,
    /// The source of a pull has sent everything that it has.
    PullEnd {
        /// The end of its history.
        last: Zxid,
    },
    /// Leader to follower: the history is complete. Make it durable, then the epoch.
    NewLeader {
        /// The leader's epoch.
        epoch: Epoch,
        /// The end that the history must have now.
        last: Zxid,
    },
    /// Follower to leader: history and epoch are durable.
    AckLeader {
        /// The epoch adopted.
        epoch: Epoch,
        /// The end of the history.
        last: Zxid,
    },
    /// Leader to follower: the leader is established, so the follower may serve.
    UpToDate {
        /// The leader's epoch.
        epoch: Epoch,
        /// The last committed position.
        committed: Zxid,
    },
    /// New transactions, and the commit position of earlier ones.
    Propose {
        /// The leader's epoch.
        epoch: Epoch,
        /// The position before the first entry. A gap closes the link.
        prev: Zxid,
        /// In order.
        entries: Vec<Entry>,
        /// The last committed position.
        committed: Zxid,
        /// The followers that count the acknowledgements of these entries themselves: a server that acknowledges to the
        /// leader also tells them.
        listeners: Vec<ServerId>,
    },
    /// Everything up to `zxid` is durable on `server`. Cumulative. Also sent to listeners, see [`Message::Propose`].
    Ack {
        /// The epoch under which it became durable.
        epoch: Epoch,
        /// The last durable position.
        zxid: Zxid,
        /// The acknowledging server.
        server: ServerId,
    },
    /// Everything up to `zxid` is committed.
    Commit {
        /// The leader's epoch.
        epoch: Epoch,
        /// The last committed position.
        zxid: Zxid,
    },
    /// The leader hands over to `target`.
    Handover {
        /// The epoch that ends.
        epoch: Epoch,
        /// The epoch that begins.
        next: Epoch,
        /// The end of the history, all of which is committed.
        last: Zxid,
        /// The round in which the target counts as chosen.
        round: Round,
        /// The target's proposal, for the votes of its followers.
        choice: Proposal,
        /// Whether the hand-over was requested; otherwise the leader resigns by itself.
        asked: bool,
    },
    /// To the target of a hand-over: promise and adoption of `epoch` are durable.
    TakenOver {
        /// The epoch that begins.
        epoch: Epoch,
        /// The end of the history.
        last: Zxid,
    },
    /// Leader to follower: does it still follow this leader?
    Ping {
        /// The sequence number of the ping, from 1.
        seq: u64,
    },
    /// Answer to `Ping`; also sent unsolicited at regular intervals as a sign of life.
    Pong {
        /// The ping answered, or 0 if unsolicited.
        seq: u64,
        /// The epoch promised. The answer counts only for the leader of this epoch.
        accepted: Epoch,
    },
}

/// The first message of a follower on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hello {
    /// The round in which it chose this leader.
    pub round: Round,
    /// The last epoch that it promised.
    pub accepted_epoch: Epoch,
    /// Set during a hand-over: the follower is adopting this epoch and will send `TakenOver` when that is durable.
    pub taking_over: Option<Epoch>,
}

/// A part of a snapshot. Snapshots are split so that other messages on the link do not wait for all of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotPart {
    /// The last transaction in the snapshot.
    pub zxid: Zxid,
    /// The epochs of the history that the snapshot replaces.
    pub epochs: Epochs,
    /// The byte offset of this part.
    pub offset: usize,
    /// Whether this is the last part.
    pub last: bool,
    /// The bytes of this part.
    pub body: Bytes,
}

/// A durable promise, and the history of the server that made it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Promise {
    /// The epoch promised.
    pub epoch: Epoch,
    /// Whether the promise was made for this leader. An epoch promised earlier may have been promised to another
    /// candidate, so it does not count towards a quorum, but its server is synchronised.
    pub fresh: bool,
    /// The last epoch whose history the server adopted.
    pub current_epoch: Epoch,
    /// The end of its log.
    pub last_zxid: Zxid,
    /// The shape of its history.
    pub epochs: Epochs,
    /// Whether the server never adopted a history. It may have been wiped, so it must not vote as if it had one.
    pub blank: bool,
    /// Whether the promise was made before it was asked for, so that it does not show that the server hears us.
    pub ahead: bool,
}

impl Promise {
    /// The rank of the history: the greater one is the better one.
    #[must_use]
    pub fn history(&self) -> (Epoch, Zxid) {
        (self.current_epoch, self.last_zxid)
    }
}

impl Message {
    /// The name of the message, for errors and traces.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "Hello",
            Self::Decline => "Decline",
            Self::NewEpoch { .. } => "NewEpoch",
            Self::AckEpoch(_) => "AckEpoch",
            Self::RefuseEpoch { .. } => "RefuseEpoch",
            Self::Pull { .. } => "Pull",
            Self::Truncate { .. } => "Truncate",
            Self::Snapshot(_) => "Snapshot",
            Self::Entries { .. } => "Entries",
            Self::Received => "Received",
            Self::PullEnd { .. } => "PullEnd",
            Self::NewLeader { .. } => "NewLeader",
            Self::AckLeader { .. } => "AckLeader",
            Self::UpToDate { .. } => "UpToDate",
            Self::Propose { .. } => "Propose",
            Self::Ack { .. } => "Ack",
            Self::Commit { .. } => "Commit",
            Self::Handover { .. } => "Handover",
            Self::TakenOver { .. } => "TakenOver",
            Self::Ping { .. } => "Ping",
            Self::Pong { .. } => "Pong",
        }
    }

    /// The approximate encoded size in bytes, for the simulator's bandwidth.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        const FIXED: usize = 64;
        match self {
            Self::Snapshot(part) => FIXED + part.body.len(),
            Self::Entries { entries, .. } | Self::Propose { entries, .. } => {
                FIXED + entries.iter().map(|e| 32 + e.body.len()).sum::<usize>()
            }
            Self::Hello(_)
            | Self::Decline
            | Self::NewEpoch { .. }
            | Self::AckEpoch(_)
            | Self::RefuseEpoch { .. }
            | Self::Pull { .. }
            | Self::Truncate { .. }
            | Self::Received
            | Self::PullEnd { .. }
            | Self::NewLeader { .. }
            | Self::AckLeader { .. }
            | Self::UpToDate { .. }
            | Self::Ack { .. }
            | Self::Commit { .. }
            | Self::Handover { .. }
            | Self::TakenOver { .. }
            | Self::Ping { .. }
            | Self::Pong { .. } => FIXED,
        }
    }
}
