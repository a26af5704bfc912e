//! One client's connection to this server, as a state machine that does no I/O.
//!
//! It decides everything between the bytes of a client and the node: the handshake, the order of requests and replies,
//! which reads bypass the node, when the lease allows a reply, what is held back, when the connection is closed and why,
//! and the limits of all of that. `server` drives it with sockets, the simulator with its network, the admin server with
//! calls.
//!
//! # The driver's side of the contract
//!
//! 1. *Input.* Keep the bytes that arrive in order in one buffer. While [`Connection::wants_input`], read more into it.
//!    After every change (bytes, a reply, a confirmation, a free place at the node, a deadline) call
//!    [`Connection::advance`], which consumes whole frames from the buffer, and do what [`Next`] says until it says
//!    [`Next::Wait`].
//! 2. *Touch.* If [`Connection::has_request`], note the session for the next [`crate::Event::Touched`] and call
//!    [`Connection::advance`] with a time that was read when the session was already noted: a report that is made in
//!    between would otherwise confirm a client that it does not name. Without a request do not note it: only the client
//!    itself keeps its session alive.
//! 3. *Events.* Hand what `advance` appends to `events` to the node, in order.
//! 4. *Reads.* When told [`Next::Read`], call [`Connection::read`] with the tree that all connections share, and let
//!    nobody change the tree before it returns: a watch must not fire before the reply that set it is in the output.
//! 5. *The node's effects.* Carry out `Attached`, `Reply`, `Notify` and `Close` in the order given, on the connection that
//!    each names, before the state that caused them can be read by any connection: an event precedes the reply that shows
//!    the change.
//! 6. *Output.* Send [`Connection::unsent`] or pieces from [`Connection::take_piece`], which are empty while the lease
//!    forbids telling the client anything. Say [`Connection::stalled`] when the client takes nothing.
//! 7. *Time.* Call [`Connection::expire`] when [`Connection::deadline`] has passed.
//! 8. *End.* When [`Connection::close_reason`] is set, send what is left within a time limit, close the socket, and tell
//!    the node with [`crate::Event::Detach`] if [`Connection::is_attached`].
//!
//! What can be checked of this is checked: by assertions here and in `server`, and by [`crate::Contract`], under which
//! both drivers run in tests.
//!
//! Not here: sockets, TLS and threads (`server`), what an operation does (`tree`), sessions (`node`).

mod close;
mod opening;
mod output;
mod password;
mod requests;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};
use pole_election::Span;
use pole_jute::{Deframer, ErrorCode, ReplyHeader};
use pole_oracle::Time;
use pole_tree::{Caller, Watcher};

use crate::{ClientId, Event, Lease};
pub use close::{AttachAnswer, CloseReason};
use output::Output;
pub use password::password;

/// A client's connection.
#[derive(Debug)]
pub struct Connection {
    id: ClientId,
    limits: Limits,
    state: State,
    deframer: Deframer,
    caller: Caller,
    /// When the connection was accepted.
    accepted_at: Time,
    session: i64,
    timeout_ms: i32,
    /// When the session was asked for; the lease counts from there.
    asked_at: Time,
    /// Whether the client sent the flag for read-only mode and so expects one in the reply.
    wants_flag: bool,
    /// A session that only this server knows, without a quorum.
    is_read_only: bool,
    /// None: the session is on its way, or is known to this server only.
    lease: Option<Lease>,
    /// Requests that the node has not answered, in order.
    pending: VecDeque<Pending>,
    /// What they take.
    pending_bytes: usize,
    /// How many of them are reads.
    pending_reads: usize,
    /// What a read that waits at the node is expected to return, in bytes.
    read_bytes: usize,
    output: Output,
    blocked: Blocked,
    /// The client has not been told that it has its session.
    is_fresh: bool,
    /// `advance` has allowed the next read.
    may_read: bool,
    counts: Counts,
}

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The first request has not arrived.
    Greeting,
    /// The session is on its way.
    Attaching,
    /// It has a session.
    Open,
    /// What is in the output still goes out, and nothing else happens.
    Closing(CloseReason),
}

/// What a connection waits for, besides bytes from the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Blocked {
    /// Requests wait until the leader has confirmed that the client was heard.
    confirmation: bool,
    /// Requests wait until the server has fewer of them outstanding.
    room: bool,
    /// Output waits until the leader has confirmed that the client was heard.
    held: bool,
}

/// A request that the node has not answered.
#[derive(Debug)]
struct Pending {
    xid: i32,
    /// When it arrived.
    at: Time,
    bytes: usize,
    kind: PendingKind,
}

/// Requests that the node no longer owes a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// How many.
    pub count: usize,
    /// What they took.
    pub bytes: usize,
}

#[derive(Debug)]
enum PendingKind {
    Write,
    Read,
    /// The reply repeats the path of the request, which the node does not know.
    Sync(Bytes),
}

/// What a connection may cost. Every limit has a key in the configuration; the defaults are in [`Limits::default`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest request: `jute.maxbuffer`.
    pub frame_bytes_max: usize,
    /// The shortest session timeout that is granted.
    pub session_timeout_min_ms: i32,
    /// The longest session timeout that is granted.
    pub session_timeout_max_ms: i32,
    /// The largest reply. A read that would need more is answered with `MarshallingError`.
    pub reply_bytes_max: usize,
    /// All identities of one connection: they travel with every write.
    pub identity_bytes_max: usize,
    /// From the accepted connection to the whole first request, TLS handshake included.
    pub greeting: Span,
    /// The digest of the super user, if there is one.
    pub super_digest: Option<String>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes_max: pole_jute::MAX_BUFFER_DEFAULT,
            session_timeout_min_ms: 4_000,
            session_timeout_max_ms: 40_000,
            reply_bytes_max: 16 << 20,
            identity_bytes_max: 8 << 10,
            greeting: Span::from_ms(10_000),
            super_digest: None,
        }
    }
}

/// The server around a connection.
pub trait Surroundings {
    /// An id for a new session.
    fn new_session(&self) -> i64;

    /// Whether clients are served without a quorum now.
    fn is_read_only(&self) -> bool;

    /// Whether the node takes more requests.
    fn has_room(&self) -> bool;

    /// The connection has other identities: its watches see what these may see.
    fn identify(&self, watcher: Watcher, caller: &Caller);
}

/// What a driver knows when it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The server's clock.
    pub now: Time,
    /// The leader knows of every client that was heard before this time; see [`Lease`].
    pub confirmed: Time,
    /// The last zxid that may be read.
    pub applied: i64,
}

/// What the driver has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing, until something changes.
    Wait,
    /// Call `advance` again after a pause for others: there is more to do with what has arrived.
    Again,
    /// The client sent a four-letter word instead of a request: answer with [`Connection::answer_word`].
    Word,
    /// Call [`Connection::read`].
    Read,
}

/// What a connection has done, for four-letter words and the admin server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Requests received.
    pub received: u64,
    /// Replies and events queued.
    pub sent: u64,
    /// Reads that were refused because their reply would exceed [`Limits::reply_bytes_max`].
    pub replies_over_limit: u64,
    /// How often requests waited because the server had too many outstanding.
    pub waits_for_room: u64,
    /// The operation of the last request.
    pub last_op: i32,
    /// The xid of the last request.
    pub last_cxid: i32,
    /// The zxid of the last reply.
    pub last_zxid: i64,
    /// When the last reply was made.
    pub last_at: Time,
    /// How long replies took.
    pub latency: Latency,
}

/// How long replies took, in whole milliseconds as ZooKeeper counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latency {
    /// Replies counted.
    pub count: u64,
    /// Sum.
    pub total_ms: u64,
    /// The last one.
    pub last_ms: u64,
    /// The shortest.
    pub min_ms: u64,
    /// The longest.
    pub max_ms: u64,
}

impl Connection {
    /// A connection that was accepted now.
    #[must_use]
    pub fn new(id: ClientId, limits: Limits, caller: Caller, now: Time) -> Self {
        Self {
            id,
            deframer: Deframer::new(limits.frame_bytes_max),
            limits,
            state: State::Greeting,
            caller,
            accepted_at: now,
            session: 0,
            timeout_ms: 0,
            asked_at: now,
            wants_flag: false,
            is_read_only: false,
            lease: None,
            pending: VecDeque::new(),
            pending_bytes: 0,
            pending_reads: 0,
            read_bytes: READ_BYTES_FIRST,
            output: Output::default(),
            blocked: Blocked::default(),
            is_fresh: false,
            may_read: false,
            counts: Counts::default(),
        }
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> ClientId {
        self.id
    }

    /// The session that it has or asks for; 0 before.
    #[must_use]
    pub fn session(&self) -> i64 {
        self.session
    }

    /// The negotiated session timeout; 0 before.
    #[must_use]
    pub fn timeout_ms(&self) -> i32 {
        self.timeout_ms
    }

    /// Whether its first request has not arrived.
    #[must_use]
    pub fn is_greeting(&self) -> bool {
        self.state == State::Greeting
    }

    /// Whether the node knows of it and must hear of its end.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.session != 0 && !self.is_read_only
    }

    /// Whether its session is known to this server only, and ends when there is a quorum again.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Why it is being closed, if it is.
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        match self.state {
            State::Closing(reason) => Some(reason),
            State::Greeting | State::Attaching | State::Open => None,
        }
    }

    /// How many replies the node owes.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// What it has done.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Forgets what it has done.
    pub fn reset_counts(&mut self) {
        self.counts = Counts::default();
    }

    /// The identities of the client.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The client proved an identity outside the protocol, by its certificate.
    pub fn add_identities(&mut self, ids: impl IntoIterator<Item = pole_jute::Id>) {
        self.caller.ids.extend(ids);
    }

    /// Whether more bytes should be read from the client, given those that were not consumed. Not while the client takes
    /// no replies, nor while too many of its requests are outstanding.
    #[must_use]
    pub fn wants_input(&self, input: &[u8]) -> bool {
        match self.state {
            State::Greeting => true,
            State::Attaching => input.len() < READ_AHEAD_BYTES_MAX,
            State::Open => {
                let is_blocked = self.blocked.confirmation || self.blocked.room;
                // A client that must be heard before it may be told anything has to be read, whatever waits for it.
                !is_blocked && (self.has_room() || (self.blocked.held && !self.has_frame(input)))
            }
            State::Closing(_) => false,
        }
    }

    /// Whether a client that has its session waits for an answer: see the contract, 2. One that waits to be told of its
    /// session says nothing more until then.
    #[must_use]
    pub fn has_request(&self, input: &[u8]) -> bool {
        self.state == State::Open && !self.is_read_only && (self.is_fresh || self.has_frame(input))
    }

    fn has_frame(&self, input: &[u8]) -> bool {
        self.deframer.has_frame(input).unwrap_or(false)
    }

    /// Whether it waits for the leader's confirmation ([`crate::Effect::Confirmed`]).
    #[must_use]
    pub fn waits_for_confirmation(&self) -> bool {
        self.blocked.confirmation || self.blocked.held
    }

    /// Whether it waits until [`Surroundings::has_room`].
    #[must_use]
    pub fn waits_for_room(&self) -> bool {
        self.blocked.room
    }

    /// Whether another request may be taken.
    fn has_room(&self) -> bool {
        self.pending.len() < PENDING_MAX
            && self.pending_bytes < PENDING_BYTES_MAX
            && self.output.len() < UNREAD_BYTES_MAX
    }

    /// The node's answer to the request for a session.
    pub fn attached(&mut self, answer: AttachAnswer) {
        if self.state != State::Attaching {
            return;
        }
        let flag = self.wants_flag.then_some(false);
        match answer {
            AttachAnswer::Opened { timeout_ms } => {
                self.state = State::Open;
                self.timeout_ms = timeout_ms;
                let timeout = Span::from_ms(timeout_ms.unsigned_abs().into());
                self.lease = Some(Lease::new(timeout, self.asked_at));
                self.is_fresh = true;
                self.output.raw(&opening::connect_response(timeout_ms, self.session, password(self.session), flag));
            }
            AttachAnswer::Expired => {
                self.output.raw(&opening::connect_response(0, 0, [0; 16], flag));
                self.close(CloseReason::SessionExpired);
            }
        }
    }

    /// The node's reply to the oldest outstanding request, which has this xid: a code and a body, for a sync nothing.
    /// Returns when the request arrived, and what it took.
    pub fn reply(&mut self, xid: i32, zxid: i64, reply: &[u8], now: Time) -> Option<(Time, Settled)> {
        if self.close_reason().is_some() {
            return None;
        }
        let Some(Pending { at, bytes, kind, .. }) = self.pending.pop_front_if(|pending| pending.xid == xid) else {
            self.close(CloseReason::OutOfOrder);
            return None;
        };
        let (code, body) = match (&kind, reply.split_first_chunk()) {
            (PendingKind::Sync(path), _) => (ErrorCode::Ok.number(), &path[..]),
            (PendingKind::Write | PendingKind::Read, Some((code, body))) => (i32::from_be_bytes(*code), body),
            (PendingKind::Write | PendingKind::Read, None) => (ErrorCode::SystemError.number(), reply),
        };
        self.output.frame(xid, zxid, code, body);
        self.pending_bytes -= bytes;
        if matches!(kind, PendingKind::Read) {
            self.pending_reads -= 1;
            // The estimate follows a large reply at once and small ones slowly.
            self.read_bytes = (self.read_bytes / 2).max(body.len()).max(READ_BYTES_MIN);
        }
        self.answered(at, zxid, 1, now);
        Some((at, Settled { count: 1, bytes }))
    }

    /// A watch event. A client that does not read loses its connection before it costs too much memory.
    pub fn notify(&mut self, zxid: i64, event: &[u8]) {
        if self.close_reason().is_some() {
            return;
        }
        let header = ReplyHeader::notification(zxid);
        self.output.frame(header.xid, header.zxid, header.err.number(), event);
        self.counts.sent += 1;
        if self.output.len() > self.limits.reply_bytes_max + EVENT_BYTES_MAX {
            self.close(CloseReason::OutputLimit);
        }
    }

    /// The connection is to end. What is in the output still goes out, unless the client is why there is so much of it.
    pub fn close(&mut self, reason: CloseReason) {
        if self.close_reason().is_some() {
            return;
        }
        self.state = State::Closing(reason);
        self.blocked = Blocked::default();
        if matches!(reason, CloseReason::OutputLimit | CloseReason::ClientStalled | CloseReason::SocketFailed) {
            self.output.clear();
        }
    }

    /// The connection is over: nobody waits for the outstanding replies any more. Returns what they were.
    pub fn abandon_pending(&mut self) -> Settled {
        self.close(CloseReason::ByClient);
        self.pending_reads = 0;
        let bytes = core::mem::take(&mut self.pending_bytes);
        Settled { count: core::mem::take(&mut self.pending).len(), bytes }
    }

    /// What the outstanding requests take.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// Bytes that the client has not taken, whether it may be told or not.
    #[must_use]
    pub fn output_bytes(&self) -> usize {
        self.output.len()
    }

    /// What may be sent now: nothing while the lease forbids it.
    pub fn unsent(&mut self, at: Moment) -> &[u8] {
        if self.may_tell(at) { self.output.unsent() } else { &[] }
    }

    /// So many bytes of [`Connection::unsent`] were sent.
    pub fn sent(&mut self, count: usize) {
        self.output.sent(count);
    }

    /// A piece of one frame to be sent by itself; empty if there is nothing to send now. It counts as not taken until
    /// [`Connection::piece_sent`].
    pub fn take_piece(&mut self, max: usize, at: Moment) -> Bytes {
        let is_framed = self.state != State::Closing(CloseReason::WordAnswered);
        if self.may_tell(at) { self.output.take(max, is_framed) } else { Bytes::new() }
    }

    /// The last piece was sent.
    pub fn piece_sent(&mut self) {
        self.output.taken_sent();
    }

    /// The client takes nothing for now.
    pub fn stalled(&mut self, now: Time) {
        self.output.stalled(now);
    }

    /// Whether the client may be told what there is. If not, the connection waits for a confirmation.
    fn may_tell(&mut self, at: Moment) -> bool {
        if self.output.is_empty() || self.close_reason().is_some() {
            self.blocked.held = false;
            return true;
        }
        self.blocked.held = self.lease.as_mut().is_some_and(|lease| !lease.may_tell(at.now, at.confirmed));
        self.is_fresh &= self.blocked.held;
        !self.blocked.held
    }

    /// When [`Connection::expire`] is to be called.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        match self.state {
            State::Greeting => Some(self.accepted_at + self.limits.greeting),
            State::Open => self.output.stalled_since().map(|since| since + self.stall_limit()),
            State::Attaching | State::Closing(_) => None,
        }
    }

    /// Closes the connection if its deadline has passed.
    pub fn expire(&mut self, now: Time) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            let is_greeting = self.is_greeting();
            self.close(if is_greeting { CloseReason::SlowGreeting } else { CloseReason::ClientStalled });
        }
    }

    /// How long a client may take no bytes.
    fn stall_limit(&self) -> Span {
        Span::from_ms(self.timeout_ms.unsigned_abs().into())
    }

    fn answered(&mut self, asked: Time, zxid: i64, count: u64, now: Time) {
        self.counts.sent += count;
        self.counts.last_zxid = zxid;
        self.counts.last_at = now;
        self.counts.latency.record(asked, now, count);
    }

    /// Notes a request.
    fn received(&mut self, xid: i32, op: i32) {
        self.counts.received += 1;
        (self.counts.last_cxid, self.counts.last_op) = (xid, op);
    }

    /// Runs a step that may find the connection beyond help.
    fn guarded(&mut self, step: impl FnOnce(&mut Self) -> Result<Next, CloseReason>) -> Next {
        match step(self) {
            Ok(next) => next,
            Err(reason) => {
                self.close(reason);
                Next::Wait
            }
        }
    }

    /// Takes what has arrived as far as it may; see the contract above. Events for the node are appended to `events`.
    pub fn advance(
        &mut self,
        input: &mut BytesMut,
        server: &impl Surroundings,
        at: Moment,
        events: &mut Vec<Event>,
    ) -> Next {
        self.may_read = false;
        match self.state {
            State::Greeting => self.guarded(|this| this.greet(input, server, at, events)),
            State::Open => self.guarded(|this| this.take_requests(input, server, at, events)),
            State::Attaching | State::Closing(_) => Next::Wait,
        }
    }
}

impl Latency {
    /// So many replies to what was asked then.
    pub fn record(&mut self, asked: Time, now: Time, count: u64) {
        let ms = (now - asked).0 / 1_000_000;
        self.min_ms = if self.count == 0 { ms } else { self.min_ms.min(ms) };
        self.max_ms = self.max_ms.max(ms);
        self.last_ms = ms;
        self.total_ms += ms * count;
        self.count += count;
    }

    /// Adds what was recorded elsewhere; which of them was last is not known.
    pub fn add(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min_ms = if self.count == 0 { other.min_ms } else { self.min_ms.min(other.min_ms) };
        self.max_ms = self.max_ms.max(other.max_ms);
        self.total_ms += other.total_ms;
        self.count += other.count;
    }

    /// The mean.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total_ms as f64 / self.count as f64 }
    }
}

/// Outstanding requests of one connection. They fill the pipeline, so that a client with more of them gains nothing.
const PENDING_MAX: usize = 1024;

/// What the outstanding requests of one connection may take together, unless a single one is longer.
const PENDING_BYTES_MAX: usize = 4 << 20;

/// Unread output beyond which no further request is taken.
pub const UNREAD_BYTES_MAX: usize = 1 << 20;

/// Watch events that a client may leave unread, beside one reply of the largest size.
const EVENT_BYTES_MAX: usize = 8 << 20;

/// What a client may send before it has a session: credentials and watches.
const READ_AHEAD_BYTES_MAX: usize = 1 << 20;

/// What a read at the node is first expected to return, so that few of them are there until their size is known.
const READ_BYTES_FIRST: usize = 256 << 10;

/// The least that a read at the node is expected to return.
const READ_BYTES_MIN: usize = 4 << 10;
