//! Everything that can happen to a server, and everything that it can ask for: two closed lists.
//!
//! The contract with the driver (tokio or the simulator):
//! - Effects are carried out in the order given. A write may take its time; when it, and every write before it, is
//!   durable, [`Event::Written`] follows. What was sent before a crash may arrive after it.
//! - Links are kept open to every peer, one for each channel, and opened again when they close. A link is FIFO and
//!   loses nothing while it is open; after `LinkDown` nothing of the old link arrives; `LinkUp` of a new one comes
//!   after `LinkDown` of the old. After [`Effect::Reset`] the link counts as down without an event.
//! - Arming a timer that runs replaces it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use pole_election::{Cause, Record, Round, ServerId, Span, Zxid};
use pole_oracle::{Report, Time};
use pole_zab::{Body, Cxid, DiskOp, Entry, Epoch, Origin, SessionId, Ticket, TransferId};

use crate::{AttachAnswer, CloseReason};

/// The links between two servers. Apart, so that a large transfer disturbs no election and no measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// Elections and measurements.
    Election,
    /// Leader and follower.
    Quorum,
}

/// A client's connection, as the driver numbers it. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// What can happen.
#[derive(Clone, Debug)]
pub enum Event {
    /// The server starts. The first event.
    Start,
    /// A link is open.
    LinkUp {
        /// The other end.
        peer: ServerId,
        /// Which link.
        channel: Channel,
    },
    /// A link is closed.
    LinkDown {
        /// The other end.
        peer: ServerId,
        /// Which link.
        channel: Channel,
    },
    /// A message arrived.
    Received {
        /// The sender.
        from: ServerId,
        /// Its link.
        channel: Channel,
        /// What.
        message: Message,
    },
    /// Everything up to this write is durable.
    Written {
        /// The last durable write.
        through: Ticket,
    },
    /// A write or an fsync failed. Nothing more will be written.
    DiskFailed {
        /// What the system said.
        reason: String,
    },
    /// A piece of a state, as [`Effect::NextPiece`] asked.
    PieceReady {
        /// Of this transfer.
        transfer: TransferId,
        /// The piece.
        body: Bytes,
        /// Whether it is the last one.
        last: bool,
    },
    /// Entries of the log, as [`Effect::ReadLog`] asked. None: they could not be read.
    LogRead {
        /// For this transfer.
        transfer: TransferId,
        /// Contiguous.
        entries: Vec<Entry>,
    },
    /// The state machine has the state that [`Effect::Restore`] asked for.
    Restored {
        /// The write that put the snapshot in place.
        ticket: Ticket,
        /// Why it has not.
        failed: Option<String>,
    },
    /// Work that was put off goes on: the answer to [`Effect::Continue`].
    Continue,
    /// A timer expired.
    Expired(Timer),
    /// A client's connection asks for a session: a new one, or one to resume.
    Attach {
        /// The connection.
        client: ClientId,
        /// The session.
        session: SessionId,
        /// What the state machine makes of it.
        body: Bytes,
    },
    /// A client's write.
    Request {
        /// The connection.
        client: ClientId,
        /// The client's number for it.
        cxid: Cxid,
        /// What the state machine makes of it.
        body: Bytes,
    },
    /// A client's read.
    Read {
        /// The connection.
        client: ClientId,
        /// The client's number for it.
        cxid: Cxid,
        /// What the state machine makes of it.
        body: Bytes,
    },
    /// A client's sync: what it reads after the answer is at least as new as all that was acknowledged before it asked.
    Sync {
        /// The connection.
        client: ClientId,
        /// The client's number for it.
        cxid: Cxid,
    },
    /// Clients of these sessions were heard. Told before each look at liveness, so that the leader learns of it.
    Touched {
        /// Each once.
        sessions: Vec<SessionId>,
    },
    /// A client's connection is closed.
    Detach {
        /// The connection.
        client: ClientId,
    },
    /// An operator, or SIGTERM, wants another leader. A follower passes it on.
    Transfer {
        /// Which one; none: the best score.
        to: Option<ServerId>,
    },
}

impl Event {
    /// Whether it is something that a client asks, here or through a follower: it waits in a queue of its own, so that
    /// more of its kind may join it before anything is done.
    pub(crate) fn is_asked(&self) -> bool {
        match self {
            Self::Request { .. } | Self::Read { .. } => true,
            Self::Received { message, .. } => matches!(message, Message::Forward { .. }),
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
            | Self::Sync { .. }
            | Self::Touched { .. }
            | Self::Detach { .. }
            | Self::Transfer { .. } => false,
        }
    }
}

/// What the server asks for.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Send a message.
    Send {
        /// The receiver.
        to: ServerId,
        /// On which link.
        channel: Channel,
        /// What.
        message: Message,
    },
    /// Write to the disk, in the order of tickets.
    Write {
        /// Names the write.
        ticket: Ticket,
        /// What.
        op: DiskOp,
    },
    /// History will be sent to another server, over some time: keep the log above `after` on disk until
    /// [`Effect::CloseTransfer`].
    OpenTransfer {
        /// Names it.
        transfer: TransferId,
        /// The log above this position may be asked for.
        after: Zxid,
        /// The state to be sent, which [`Effect::NextPiece`] asks for in pieces.
        state: Option<Body>,
    },
    /// Produce the next piece of a state, beside all else; [`Event::PieceReady`] brings it.
    NextPiece {
        /// Of this transfer.
        transfer: TransferId,
        /// The size of a piece; only the last one is shorter. More may be asked for than there are.
        bytes: usize,
    },
    /// Read the log from disk, beside all else; [`Event::LogRead`] brings it.
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
    /// The transfer has ended. What it asked for need not be answered.
    CloseTransfer {
        /// Which.
        transfer: TransferId,
    },
    /// Make a state from the snapshot that is now in place, beside all else; then, between two steps, give it to the
    /// state machine in place of its own, and say [`Event::Restored`]. Only the last one asked for counts.
    Restore {
        /// The write that put the snapshot in place.
        ticket: Ticket,
        /// Its position.
        zxid: Zxid,
    },
    /// There is more to do than should be done at once: take what else has happened, then say [`Event::Continue`].
    Continue,
    /// Close a link, and open it again when possible.
    Reset {
        /// The other end.
        peer: ServerId,
        /// Which link.
        channel: Channel,
    },
    /// Start a timer, or start it anew.
    Arm {
        /// Which.
        timer: Timer,
        /// How long from now.
        after: Span,
    },
    /// Stop a timer.
    Cancel(Timer),
    /// The answer to [`Event::Attach`].
    Attached {
        /// The connection.
        client: ClientId,
        /// The position of the attachment.
        zxid: Zxid,
        /// Whether the connection has its session.
        answer: AttachAnswer,
    },
    /// The answer to a write, a read or a sync, in the order in which the connection asked.
    Reply {
        /// The connection.
        client: ClientId,
        /// The client's number for the request.
        cxid: Cxid,
        /// The position that the answer reflects.
        zxid: Zxid,
        /// The state machine's answer.
        body: Bytes,
    },
    /// Tell a client something that it did not ask now: what a watch has seen.
    Notify {
        /// The connection.
        client: ClientId,
        /// The transaction that did it; for what a read found missed, where the server is.
        zxid: Zxid,
        /// What the state machine says.
        body: Bytes,
    },
    /// The leader knows of everyone who was heard before this moment. Until a third of its timeout after that, a session
    /// may be told that all is well, and no longer: the others may have ended it.
    Confirmed {
        /// The moment.
        at: Time,
    },
    /// Close a client's connection.
    Close {
        /// The connection.
        client: ClientId,
        /// Why.
        reason: CloseReason,
    },
    /// Something that an operator may want to know.
    Note(Note),
    /// The server can go no further: stop the process. Nothing more is acknowledged.
    Halt {
        /// Why.
        reason: String,
    },
}

/// Timers by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// The election's.
    Election(pole_election::Timer),
    /// Patience with the present phase of becoming a leader or a follower.
    Phase,
    /// Liveness messages of a leader; a follower's and a leader's look at who is silent.
    Liveness,
    /// Measurement heartbeats.
    Heartbeat,
    /// The disk watchdog.
    Disk,
    /// The limit of a hand-over's drain.
    Drain,
    /// A leader outbid opens a higher epoch, but not too often.
    Reopen,
    /// Patience with having no leader: then client connections are closed.
    Grace,
}

/// What servers tell each other.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Election channel: the election.
    Election(pole_election::Message),
    /// Election channel: a measurement.
    Heartbeat {
        /// Numbers the sender's heartbeats.
        seq: u64,
        /// What the sender measured.
        report: Box<Report>,
    },
    /// Election channel: the answer at once.
    Echo {
        /// The heartbeat answered.
        seq: u64,
    },
    /// Quorum channel: the agreement.
    Zab(pole_zab::Message),
    /// Quorum channel, follower to leader: clients' writes.
    Forward {
        /// The epoch in which the follower was synchronised: a leader drops what belongs to another.
        epoch: Epoch,
        /// In order.
        requests: Vec<Request>,
    },
    /// Quorum channel, follower to leader: whose clients were heard.
    Touch {
        /// The epoch in which the follower was synchronised.
        epoch: Epoch,
        /// The follower's number for it.
        id: u64,
        /// The sessions.
        sessions: Vec<SessionId>,
    },
    /// Quorum channel, leader to follower: their time runs anew.
    TouchDone {
        /// The leader's epoch.
        epoch: Epoch,
        /// The follower's number for it.
        id: u64,
    },
    /// Quorum channel, follower to leader: a sync.
    SyncAsk {
        /// The epoch in which the follower was synchronised.
        epoch: Epoch,
        /// The follower's number for it.
        id: u64,
    },
    /// Quorum channel, leader to follower: its answer.
    SyncDone {
        /// The leader's epoch.
        epoch: Epoch,
        /// The follower's number for it.
        id: u64,
        /// The position that the follower must have applied.
        zxid: Zxid,
    },
    /// Quorum channel, leader to the target of a hand-over, right before it: what is left to sessions until they expire.
    Remaining {
        /// The epoch that ends.
        epoch: Epoch,
        /// The first part.
        begins: bool,
        /// A part of them. Whoever is in none has its whole time.
        sessions: Vec<(SessionId, Span)>,
    },
    /// Quorum channel, follower to leader: an operator wants another leader.
    TransferAsk {
        /// The epoch in which the follower was synchronised.
        epoch: Epoch,
        /// Which one; none: the best score.
        to: Option<ServerId>,
    },
}

/// A client's write on its way to validation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Whose it is.
    pub origin: Origin,
    /// The position of the attachment under which it was asked; zero for an attachment itself.
    pub floor: Zxid,
    /// What was asked.
    pub body: Bytes,
}

/// What happened, for logs and records.
#[derive(Clone, Debug)]
pub enum Note {
    /// An election began.
    Electing {
        /// Why.
        cause: Cause,
        /// Its round.
        round: Round,
    },
    /// An election ended, and this is why as it did.
    Elected(Box<Record>),
    /// This server took the role; discovery begins.
    Leading {
        /// The round.
        round: Round,
    },
    /// This server follows.
    Following {
        /// Whom.
        leader: ServerId,
    },
    /// The leader is established, and this server serves.
    Serving {
        /// Who leads.
        leader: ServerId,
        /// In which epoch.
        epoch: Epoch,
    },
    /// This leader wants to give way.
    Resigning {
        /// To whom.
        to: ServerId,
        /// Its own decision, or an operator's.
        cause: Cause,
    },
    /// The hand-over was not possible within its limit.
    ResignationAborted {
        /// Why.
        reason: String,
    },
    /// The leader handed over.
    HandedOver {
        /// To whom.
        to: ServerId,
    },
    /// This server gave its role up.
    Abandoned {
        /// Why.
        reason: String,
    },
    /// A peer sent something that cannot be right; its link is closed.
    BadPeer {
        /// The peer.
        from: ServerId,
        /// What is wrong.
        error: String,
    },
    /// Requests of a connection are in the log in another order than they were asked, so somebody else asked in its name;
    /// the connection is closed.
    OutOfOrder {
        /// Which request came before which.
        error: String,
    },
    /// A score was impossible and ranks as unknown.
    InvalidScore {
        /// The peer.
        from: ServerId,
        /// What is wrong.
        reason: String,
    },
    /// The ensemble chose an oracle that this server cannot build; it keeps the one it has.
    BadOracle {
        /// Where in the history it was chosen.
        version: Zxid,
        /// What is wrong.
        error: String,
    },
    /// The state was replaced by a snapshot, and client connections were closed.
    Installed {
        /// Up to where.
        zxid: Zxid,
    },
    /// The disk has not answered for too long.
    DiskHangs,
}

impl Message {
    /// The name of the message, for errors and traces.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Election(pole_election::Message::Propose(_)) => "P",
            Self::Election(pole_election::Message::Vote(_)) => "V",
            Self::Heartbeat { .. } => "Heartbeat",
            Self::Echo { .. } => "Echo",
            Self::Zab(message) => message.name(),
            Self::Forward { .. } => "Forward",
            Self::Touch { .. } => "Touch",
            Self::TouchDone { .. } => "TouchDone",
            Self::SyncAsk { .. } => "SyncAsk",
            Self::SyncDone { .. } => "SyncDone",
            Self::Remaining { .. } => "Remaining",
            Self::TransferAsk { .. } => "TransferAsk",
        }
    }

    /// The bytes that the message would take on a wire, near enough for the simulator's bandwidth.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Election(_) | Self::Heartbeat { .. } => 256,
            Self::Echo { .. }
            | Self::SyncAsk { .. }
            | Self::SyncDone { .. }
            | Self::TouchDone { .. }
            | Self::TransferAsk { .. } => 32,
            Self::Touch { sessions, .. } => 32 + sessions.len() * size_of::<SessionId>(),
            Self::Remaining { sessions, .. } => 32 + sessions.len() * size_of::<(SessionId, Span)>(),
            Self::Zab(message) => message.size_bytes(),
            Self::Forward { requests, .. } => 32 + requests.iter().map(|r| 32 + r.body.len()).sum::<usize>(),
        }
    }
}
