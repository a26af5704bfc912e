//! What travels on the link between a leader and a follower. Links are FIFO; one that loses a message is closed.

use alloc::vec::Vec;
use bytes::Bytes;
use pole_election::{Epoch, Proposal, Round, ServerId, Zxid};

use crate::{Entry, Epochs};

/// A message of the agreement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// Follower to leader: I chose you.
    Hello(Hello),
    /// The answer of a server that does not lead: choose again.
    Decline,
    /// Leader to follower: promise this epoch.
    NewEpoch {
        /// Above every epoch that the leader knows to be promised.
        epoch: Epoch,
    },
    /// The promise is durable.
    AckEpoch(Promise),
    /// A higher epoch was promised to another.
    RefuseEpoch {
        /// What was asked.
        refused: Epoch,
        /// What was promised.
        accepted: Epoch,
    },
    /// Leader to the follower with the best history: send me what I lack.
    Pull {
        /// The history that the leader has.
        epochs: Epochs,
    },
    /// Drop everything above `to`. From a leader, or from the source of a pull.
    Truncate {
        /// The last position that both share.
        to: Zxid,
    },
    /// A part of what replaces the whole history.
    Snapshot(SnapshotPart),
    /// A part of the difference.
    Entries {
        /// The position before the first entry.
        prev: Zxid,
        /// In order.
        entries: Vec<Entry>,
    },
    /// One more part of a difference or a snapshot is on the receiver's disk; of the last part of a snapshot: its state is
    /// restored. Lets the sender go on.
    Received,
    /// The source of a pull has sent all it has.
    PullEnd {
        /// Where its history ends.
        last: Zxid,
    },
    /// The difference is complete: make it durable, then the epoch.
    NewLeader {
        /// The leader's epoch.
        epoch: Epoch,
        /// Where the history must end now.
        last: Zxid,
    },
    /// History and epoch are durable.
    AckLeader {
        /// The epoch taken over.
        epoch: Epoch,
        /// Up to where.
        last: Zxid,
    },
    /// The leader is established: serve.
    UpToDate {
        /// The leader's epoch.
        epoch: Epoch,
        /// The last committed position now.
        committed: Zxid,
    },
    /// New transactions, and how far earlier ones are committed.
    Propose {
        /// The leader's epoch.
        epoch: Epoch,
        /// The position before the first entry: a gap closes the link.
        prev: Zxid,
        /// In order.
        entries: Vec<Entry>,
        /// The last committed position.
        committed: Zxid,
    },
    /// Everything up to `zxid` is durable on `server`. Cumulative.
    Ack {
        /// The epoch under which it became durable.
        epoch: Epoch,
        /// The last durable position.
        zxid: Zxid,
        /// Who acknowledges; named, because acknowledgements will also travel between followers.
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
        /// Where the history ends: all of it is committed.
        last: Zxid,
        /// The round in which the target counts as chosen.
        round: Round,
        /// The target's proposal, for the votes of its followers.
        choice: Proposal,
        /// Whether somebody asked the leader to; otherwise it resigns of its own accord.
        asked: bool,
    },
    /// To the target: promise and take-over of `epoch` are durable, the history ends at `last`.
    TakenOver {
        /// The epoch that begins.
        epoch: Epoch,
        /// Where the history ends.
        last: Zxid,
    },
    /// Leader to follower: are you still mine?
    Ping {
        /// Counts the leader's questions.
        seq: u64,
    },
    /// The answer; or, at regular intervals, a sign of life.
    Pong {
        /// The question answered; zero for none.
        seq: u64,
        /// The epoch promised: an answer counts only for the leader of this epoch.
        accepted: Epoch,
    },
}

/// How a follower introduces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hello {
    /// The round in which it chose this leader.
    pub round: Round,
    /// The last epoch that it promised.
    pub accepted_epoch: Epoch,
    /// Hand-over: it is taking this epoch over and will say so when that is durable.
    pub taking_over: Option<Epoch>,
}

/// A part of a snapshot. In parts, so that nothing on the link waits for the whole of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotPart {
    /// The last transaction in the snapshot.
    pub zxid: Zxid,
    /// The epochs of the history that it stands for.
    pub epochs: Epochs,
    /// Where this part begins.
    pub offset: usize,
    /// Whether it is the last one.
    pub last: bool,
    /// This part.
    pub body: Bytes,
}

/// A durable promise, and the history that it reports.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Promise {
    /// The epoch promised.
    pub epoch: Epoch,
    /// Made for this question. An epoch that was promised before may have been promised to another candidate, so it
    /// does not count, but its server is synchronised.
    pub fresh: bool,
    /// The last epoch whose history the server took over.
    pub current_epoch: Epoch,
    /// Where its log ends.
    pub last_zxid: Zxid,
    /// The shape of its history.
    pub epochs: Epochs,
    /// It never took a history over: it may have been wiped, and must not vote as if it had one.
    pub blank: bool,
}

impl Promise {
    /// What ranks histories.
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

    /// The bytes that the message would take on a wire, near enough for the simulator's bandwidth.
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
