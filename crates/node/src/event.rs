//! The events and effects of a server, and the messages between servers: closed lists.
//!
//! The contract with the driver (tokio or the simulator):
//! - Effects are carried out in the order given. Writes may be asynchronous: [`Event::Written`] follows when a write
//!   and every write before it is durable. Messages sent before a crash may arrive after it.
//! - Links are kept open to every peer, one for each channel, and reopened when they close. A link is FIFO and loses
//!   nothing while it is open. After `LinkDown`, nothing from the old link arrives, and `LinkUp` of a new link comes
//!   after `LinkDown` of the old one. After [`Effect::Reset`] the link counts as down without an event.
//! - Arming a timer that is running replaces it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use pole_election::{Cause, Record, Round};
use pole_oracle::Report;
use pole_types::{Cxid, Epoch, Membership, ServerId, SessionId, Span, Time, Zxid};
use pole_zab::{Body, DiskOp, Entry, Origin, Ticket, TransferId};

use crate::{AttachAnswer, CloseReason};

/// The links between two servers. They are separate so that a large transfer delays no election and no measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// Elections and measurements.
    Election,
    /// Messages between leader and follower.
    Quorum,
}

/// A client's connection, numbered by the driver. Not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// Something that happened to the server.
#[derive(Clone, Debug)]
pub enum Event {
    /// The server starts. This is the first event.
    Start,
    /// A link is open.
    LinkUp { peer: ServerId, channel: Channel },
    /// A link is closed.
    LinkDown { peer: ServerId, channel: Channel },
    /// A message arrived.
    Received { from: ServerId, channel: Channel, message: Message },
    /// Everything up to this write is durable.
    Written {
        /// The last durable write.
        through: Ticket,
    },
    /// A write or an fsync failed. Nothing more will be written.
    DiskFailed {
        /// The error of the operating system.
        reason: String,
    },
    /// A piece of a state, requested by [`Effect::NextPiece`].
    PieceReady { transfer: TransferId, body: Bytes, last: bool },
    /// Entries of the log, requested by [`Effect::ReadLog`]. Empty if they could not be read.
    LogRead {
        transfer: TransferId,
        /// In order and contiguous.
        entries: Vec<Entry>,
    },
    /// The state machine has the state that [`Effect::Restore`] requested.
    Restored {
        /// The write that installed the snapshot.
        ticket: Ticket,
        /// The reason if the state could not be restored.
        failed: Option<String>,
    },
    /// Deferred work continues: the answer to [`Effect::Continue`].
    Continue,
    /// A timer expired.
    Expired(Timer),
    /// A client's connection requests a session: a new one, or one to resume.
    Attach {
        client: ClientId,
        session: SessionId,
        /// The encoded request, opaque to the node.
        body: Bytes,
    },
    /// A client's write.
    Request {
        client: ClientId,
        cxid: Cxid,
        /// The encoded request, opaque to the node.
        body: Bytes,
    },
    /// A client's read.
    Read {
        client: ClientId,
        cxid: Cxid,
        /// The encoded request, opaque to the node.
        body: Bytes,
    },
    /// A client's sync. Reads after its reply reflect everything that was acknowledged to any client before the sync
    /// was sent.
    Sync { client: ClientId, cxid: Cxid },
    /// The clients of these sessions were active since the last report. Sent before each expiry of [`Timer::Liveness`],
    /// so that the leader learns of it.
    Touched {
        /// Without duplicates.
        sessions: Vec<SessionId>,
    },
    /// A client's connection was closed.
    Detach { client: ClientId },
    /// An operator, or SIGTERM, requests another leader. A follower forwards this to its leader.
    Transfer {
        /// The target; `None` for the server with the best score.
        to: Option<ServerId>,
    },
}

impl Event {
    /// Whether it is a client's request, received here or forwarded by a follower. These are gathered, so that further
    /// ones can join them before they are processed.
    pub(crate) fn is_batched(&self) -> bool {
        match self {
            Self::Request { .. } | Self::Read { .. } | Self::Sync { .. } => true,
            Self::Received { message, .. } => matches!(message, Message::Forward { .. } | Message::SyncAsk { .. }),
            Self::Start
            | Self::LinkUp { .. }
            | Self::LinkDown { .. }
            | Self::Written { .. }
            | Self::DiskFailed { .. }
            | Self::PieceReady { .. }
            | Self::LogRead { .. }
            | Self::Restored { .. }
            | Self::Continue
            | Self::Expired(_)
            | Self::Attach { .. }
            | Self::Touched { .. }
            | Self::Detach { .. }
            | Self::Transfer { .. } => false,
        }
    }
}

/// Something that the driver must do.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Send a message.
    Send { to: ServerId, channel: Channel, message: Message },
    /// Write to the disk, in the order of tickets.
    Write { ticket: Ticket, op: DiskOp },
    /// History will be sent to another server over some time: keep the log above `after` on disk until
    /// [`Effect::CloseTransfer`].
    OpenTransfer {
        transfer: TransferId,
        /// The log above this position may be requested.
        after: Zxid,
        /// The state to be sent in pieces ([`Effect::NextPiece`]); `None` if only the log is sent.
        state: Option<Body>,
    },
    /// Produce the next piece of a state in the background, and report it with [`Event::PieceReady`].
    NextPiece {
        transfer: TransferId,
        /// The size of a piece in bytes; only the last one may be shorter. More pieces may be requested than there are.
        bytes: usize,
    },
    /// Read the log from disk in the background, and report it with [`Event::LogRead`].
    ReadLog {
        transfer: TransferId,
        /// The position before the first entry.
        after: Zxid,
        /// The last entry to read.
        through: Zxid,
        /// The approximate number of bytes to read; at least one entry.
        bytes: usize,
    },
    /// The transfer has ended. Its outstanding requests need not be answered.
    CloseTransfer { transfer: TransferId },
    /// Build a state from the installed snapshot in the background; then, between two steps, replace the state
    /// machine's state by it and report [`Event::Restored`]. Only the last request counts.
    Restore {
        /// The write that installed the snapshot.
        ticket: Ticket,
        /// The position of the snapshot.
        zxid: Zxid,
    },
    /// There is more work than should be done in one step: process other events first, then pass [`Event::Continue`].
    Continue,
    /// Close a link, and reopen it when possible.
    Reset { peer: ServerId, channel: Channel },
    /// Start or restart a timer.
    Arm { timer: Timer, after: Span },
    /// Stop a timer.
    Cancel(Timer),
    /// The answer to [`Event::Attach`].
    Attached {
        client: ClientId,
        /// The position of the attachment.
        zxid: Zxid,
        /// Whether the session was opened.
        answer: AttachAnswer,
    },
    /// The answer to a write, a read or a sync. Replies to a connection keep the order of its requests.
    Reply {
        client: ClientId,
        cxid: Cxid,
        /// The position that the answer reflects.
        zxid: Zxid,
        body: Bytes,
    },
    /// Send a client a watch event.
    Notify {
        client: ClientId,
        /// The transaction that caused it; for an event missed before a read, the server's position.
        zxid: Zxid,
        /// The encoded event.
        body: Bytes,
    },
    /// The leader knows of all clients that were active before `at`. Replies may be sent to a session for a third of
    /// its timeout after that; later the leader may have ended it.
    Confirmed { at: Time },
    /// Close a client's connection.
    Close { client: ClientId, reason: CloseReason },
    /// A notable event for logs and records.
    Note(Note),
    /// A hand-over that was requested here will not happen, or was given up.
    TransferRefused(TransferRefusal),
    /// Other members were committed by the transaction at `version`. Links to all of them are needed from now on, at the
    /// addresses in `description`, and none to others.
    Members { description: Bytes, version: Zxid },
    /// The server cannot continue: stop the process. Nothing more is acknowledged.
    Halt { reason: String },
}

/// The timers of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// A timer of the election.
    Election(pole_election::Timer),
    /// The time limit of the present phase of becoming a leader or a follower.
    Phase,
    /// The period of liveness messages and of the check for silent peers.
    Liveness,
    /// Measurement heartbeats.
    Heartbeat,
    /// The disk watchdog.
    Disk,
    /// The time limit of a hand-over.
    Drain,
    /// Delays opening a higher epoch, which a leader may do only so often.
    Reopen,
    /// The time without a leader after which client connections are closed.
    Grace,
    /// A leader that proposes slowly may propose more.
    Pace,
}

/// A message between servers.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Election channel: a message of the election.
    Election(pole_election::Message),
    /// Election channel: a measurement.
    Heartbeat {
        /// The position of the last change of the members that the sender has applied.
        members: Zxid,
        /// The sequence number of the heartbeat.
        seq: u64,
        report: Box<Report>,
    },
    /// Election channel: the members of the ensemble after the last change that the sender knows to be committed.
    Members {
        /// The position of the change.
        version: Zxid,
        /// Their description, as the state machine has it.
        members: Bytes,
    },
    /// Election channel: the immediate answer to a heartbeat.
    Echo { seq: u64 },
    /// Quorum channel: a message of the agreement.
    Zab(pole_zab::Message),
    /// Quorum channel, follower to leader: clients' writes.
    Forward {
        /// The epoch in which the follower was synchronised. A leader of another epoch drops the message.
        epoch: Epoch,
        /// In order.
        requests: Vec<Request>,
    },
    /// Quorum channel, follower to leader: the clients of these sessions were active.
    Touch {
        /// The epoch in which the follower was synchronised.
        epoch: Epoch,
        /// The follower's number for the message.
        id: u64,
        sessions: Vec<SessionId>,
    },
    /// Quorum channel, leader to follower: the timeouts of those sessions were restarted.
    TouchDone {
        /// The leader's epoch.
        epoch: Epoch,
        /// The follower's number for the message.
        id: u64,
    },
    /// Quorum channel, follower to leader: clients' syncs.
    SyncAsk {
        /// The epoch in which the follower was synchronised.
        epoch: Epoch,
        /// The follower's number of the last of them.
        through: u64,
    },
    /// Quorum channel, leader to follower: the answer to syncs.
    SyncDone {
        /// The leader's epoch.
        epoch: Epoch,
        /// The follower's number of the last of them.
        through: u64,
        /// The position that the follower must have applied before it answers its clients.
        zxid: Zxid,
    },
    /// Quorum channel, leader to the target of a hand-over, just before the hand-over: the time left until sessions
    /// expire.
    Remaining {
        /// The epoch that ends.
        epoch: Epoch,
        /// Whether this is the first part.
        begins: bool,
        /// A part of the sessions. A session that is in no part has its whole timeout.
        sessions: Vec<(SessionId, Span)>,
    },
    /// Quorum channel, follower to leader: an operator requests another leader.
    TransferAsk {
        /// The epoch in which the follower was synchronised.
        epoch: Epoch,
        /// The target; `None` for the server with the best score.
        to: Option<ServerId>,
    },
    /// Quorum channel, follower to leader: another voter holds an election, as if it had no leader.
    LeaderSought {
        /// The epoch in which the follower was synchronised.
        epoch: Epoch,
        /// The voter that holds an election.
        by: ServerId,
    },
    /// Quorum channel, follower to leader: the follower applies more slowly than the leader proposes.
    Behind {
        /// The epoch in which the follower was synchronised.
        epoch: Epoch,
    },
    /// Quorum channel, leader to follower: the answer to a `TransferAsk` if there will be no other leader.
    TransferRefused {
        /// The leader's epoch.
        epoch: Epoch,
        /// The reason.
        refusal: TransferRefusal,
    },
}

/// Why a leader does not hand over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TransferRefusal {
    /// The server that was asked does not lead.
    #[error("the server that was asked does not lead")]
    NotLeading,
    /// The ensemble has one server.
    #[error("there is no other server to hand over to")]
    Alone,
    /// A hand-over is being prepared.
    #[error("another hand-over is under way: wait for it")]
    UnderWay,
    /// The target does not follow the leader.
    #[error("server {0} does not follow: it is not caught up")]
    NotFollowing(ServerId),
    /// Nobody was named, and no other server has a score.
    #[error("no other server is known to be fit")]
    NoneFit,
    /// The target is an observer, or a voter without weight.
    #[error("server {0} may not lead: it is an observer or has no weight")]
    MayNotLead(ServerId),
    /// The target did not acknowledge the whole history in time.
    #[error("server {0} was not level within the time limit")]
    NotLevel(ServerId),
}

/// A client's write on its way to validation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// The session and its number for the request.
    pub origin: Origin,
    /// The position of the attachment under which it was sent; zero for an attachment itself.
    pub floor: Zxid,
    /// The encoded request, opaque to the node.
    pub body: Bytes,
}

/// A notable event, for logs and records.
#[derive(Clone, Debug)]
pub enum Note {
    /// Other members count from the transaction at `version` on. While that is not committed, `members` are those before
    /// and after it.
    Members { members: Membership, version: Zxid },
    /// An election began.
    Electing { cause: Cause, round: Round },
    /// An election ended. The record says why it ended this way.
    Elected(Box<Record>),
    /// This server was elected; discovery begins.
    Leading { round: Round },
    /// This server follows another one.
    Following { leader: ServerId },
    /// The leader is established, and this server serves.
    Serving { leader: ServerId, epoch: Epoch },
    /// This leader prepares a hand-over.
    Resigning {
        to: ServerId,
        /// The leader's own decision, or an operator's request.
        cause: Cause,
    },
    /// This leader does not reach a voter that a follower hears, and will hand over to that follower.
    Unreached { voter: ServerId, heard_by: ServerId },
    /// The hand-over was not possible within its limit.
    ResignationAborted { refusal: TransferRefusal },
    /// The leader handed over.
    HandedOver { to: ServerId },
    /// This server gave up its role.
    Abandoned { reason: String },
    /// A peer sent an invalid message; its link is closed.
    BadPeer { from: ServerId, error: String },
    /// The log holds requests of a connection in another order than the connection sent them, so another server must
    /// have sent requests in its name. The connection is closed.
    OutOfOrder { error: String },
    /// A score was invalid and ranks as unknown.
    InvalidScore { from: ServerId, reason: String },
    /// The ensemble chose an oracle that this server cannot build; it keeps the present one.
    BadOracle {
        /// The position of the transaction that chose it.
        version: Zxid,
        error: String,
    },
    /// The state was replaced by a snapshot, and client connections were closed.
    Installed {
        /// The position of the snapshot.
        zxid: Zxid,
    },
    /// The disk has exceeded its time limit.
    DiskHangs,
    /// A write took longer than `fsync.warningthresholdms`.
    SlowWrite { took: Span },
}

impl Message {
    /// The name of the message, for errors and traces.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Election(pole_election::Message::Propose(_)) => "P",
            Self::Election(pole_election::Message::Vote(_)) => "V",
            Self::Election(pole_election::Message::Ask) => "Ask",
            Self::Heartbeat { .. } => "Heartbeat",
            Self::Echo { .. } => "Echo",
            Self::Members { .. } => "Members",
            Self::Zab(message) => message.name(),
            Self::Forward { .. } => "Forward",
            Self::Touch { .. } => "Touch",
            Self::TouchDone { .. } => "TouchDone",
            Self::SyncAsk { .. } => "SyncAsk",
            Self::SyncDone { .. } => "SyncDone",
            Self::Remaining { .. } => "Remaining",
            Self::TransferAsk { .. } => "TransferAsk",
            Self::LeaderSought { .. } => "LeaderSought",
            Self::Behind { .. } => "Behind",
            Self::TransferRefused { .. } => "TransferRefused",
        }
    }

    /// The approximate encoded size in bytes, for the simulator's bandwidth.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Election(_) | Self::Heartbeat { .. } => 256,
            Self::Echo { .. }
            | Self::SyncAsk { .. }
            | Self::SyncDone { .. }
            | Self::TouchDone { .. }
            | Self::TransferAsk { .. }
            | Self::LeaderSought { .. }
            | Self::Behind { .. }
            | Self::TransferRefused { .. } => 32,
            Self::Members { members, .. } => 32 + members.len(),
            Self::Touch { sessions, .. } => 32 + sessions.len() * size_of::<SessionId>(),
            Self::Remaining { sessions, .. } => 32 + sessions.len() * size_of::<(SessionId, Span)>(),
            Self::Zab(message) => message.size_bytes(),
            Self::Forward { requests, .. } => 32 + requests.iter().map(|r| 32 + r.body.len()).sum::<usize>(),
        }
    }
}
