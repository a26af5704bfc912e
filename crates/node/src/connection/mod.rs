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
//!    After every change (bytes, a reply, a confirmation, room at the node, a deadline) call
//!    [`Connection::advance`], which consumes whole frames from the buffer, and do what [`Next`] says until it says
//!    [`Next::Wait`]. After a reply, and after output was sent, that may be skipped unless
//!    [`Connection::waits_for_replies`].
//! 2. *Touch.* If [`Connection::has_request`], add the session to the next [`crate::Event::Touched`], and only then
//!    read the clock for the call of [`Connection::advance`]. Otherwise a report sent in between would confirm a client
//!    that it does not name. Without a request do not add it: only the client itself keeps its session alive.
//! 3. *Events.* Pass what `advance` appends to `events` to the node, in order.
//! 4. *Reads.* On [`Next::Read`], call [`Connection::read`] with the tree that all connections share, and do not let
//!    the tree change before it returns: a watch must not fire before the reply that set it is in the output.
//! 5. *The node's effects.* Carry out `Attached`, `Reply`, `Notify` and `Close` in the order given, on the connection
//!    that each names, before the state that caused them can be read by any connection: an event precedes the reply
//!    that shows the change.
//! 6. *Output.* Send [`Connection::unsent`] or pieces from [`Connection::take_piece`], which are empty while the lease
//!    forbids sending. Call [`Connection::stalled`] when the client does not read.
//! 7. *Time.* Call [`Connection::expire`] when [`Connection::deadline`] has passed, and [`Connection::advance`] when
//!    [`Connection::throttle_deadline`] has.
//! 8. *End.* When [`Connection::close_reason`] is set, send what is left within a time limit, close the socket, and
//!    notify the node with [`crate::Event::Detach`] if [`Connection::is_attached`].
//! 9. *Kerberos.* On [`Next::Gssapi`], perform [`Connection::gssapi_call`] on the security context of this connection, where
//!    it may block, within a time limit, and pass the result to [`Connection::gssapi_called`]. This happens only if the
//!    settings name [`SaslMechanism::Gssapi`].
//!
//! Assertions here and in `server` check parts of this contract, and so does [`crate::Contract`], under which both
//! drivers run in tests.
//!
//! Sockets, TLS and threads are in `server`, operations in `tree`, and sessions in `node`.

mod authentication;
mod close;
mod opening;
mod output;
mod password;
mod requests;
mod sasl;
#[cfg(test)]
mod tests;
mod throttle;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};
use pole_jute::{AuthPacket, Deframer, ErrorCode, ReplyHeader};
use pole_tree::{Caller, Watcher};
use pole_types::{Span, Time};

use crate::{ClientId, Event, Lease};
pub use authentication::Authentication;
pub use close::{AttachAnswer, CloseReason};
use output::Output;
pub use password::password;
pub use sasl::{GssapiCall, GssapiResult, KerberosNames, Nonce, SECURITY_LAYERS, SaslError, SaslMechanism, SaslUsers};
use sasl::{GssapiExchange, SaslExchange};
pub use throttle::{BucketSettings, TokenBucket};

/// A client's connection.
#[derive(Debug)]
pub struct Connection {
    id: ClientId,
    limits: Limits,
    state: State,
    deframer: Deframer,
    caller: Caller,
    sasl: SaslExchange,
    gssapi: GssapiExchange,
    /// The call of the GSSAPI library that is due, with the xid of its request. No other request is taken meanwhile.
    gssapi_call: Option<(i32, GssapiCall)>,
    /// When the connection was accepted.
    accepted_at: Time,
    session: i64,
    timeout_ms: i32,
    /// When the session was requested; the lease counts from here.
    requested_at: Time,
    /// Whether the client sent the flag for read-only mode and so expects one in the reply.
    wants_read_only_flag: bool,
    /// A session that only this server knows, without a quorum.
    is_read_only: bool,
    /// `None` while the session is being attached, and for a read-only session.
    lease: Option<Lease>,
    /// Requests that the node has not answered, in order.
    pending: VecDeque<Pending>,
    /// The size of `pending` in bytes.
    pending_bytes: usize,
    /// The size of the large requests in `pending`; see [`Limits::large_request_bytes`].
    pending_large_bytes: usize,
    /// The number of reads in `pending`.
    pending_reads: usize,
    /// The expected size in bytes of the reply to a read that waits at the node.
    read_bytes: usize,
    output: Output,
    blocked: Blocked,
    /// Since when requests have waited because the server has too many outstanding.
    waits_since: Option<Time>,
    /// The connection belongs to the server itself; see [`Connection::exempt`].
    is_exempt: bool,
    /// The client has not been sent the reply to its connect request yet.
    is_unannounced: bool,
    /// Set by `advance` when `read` may be called.
    may_read: bool,
    counts: Counts,
    /// The sizes of the replies that the connection made itself; see [`Connection::take_reply_sizes`].
    reply_sizes: Option<ReplySizes>,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The first request has not arrived.
    Greeting,
    /// The session is being attached.
    Attaching,
    /// The connection has a session.
    Open,
    /// Only the remaining output is sent.
    Closing(CloseReason),
}

/// What a connection waits for, besides bytes from the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Blocked {
    /// Requests wait until the leader has confirmed that it knows of the client's last activity.
    confirmation: bool,
    /// Requests wait until the server has fewer outstanding requests.
    room: bool,
    /// Output waits until the leader has confirmed that it knows of the client's last activity.
    held: bool,
}

/// A request that the node has not answered.
#[derive(Debug)]
struct Pending {
    xid: i32,
    /// When it arrived.
    at: Time,
    bytes: usize,
    /// The size of its frame if it is large, else 0.
    large_bytes: usize,
    kind: PendingKind,
}

/// A number of requests and their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTotals {
    pub count: usize,
    pub bytes: usize,
    /// The size of the large ones; see [`Limits::large_request_bytes`].
    pub large_bytes: usize,
}

/// A request that the node has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredRequest {
    /// When it arrived.
    pub arrived: Time,
    pub is_write: bool,
    /// A write as it went to the node, if [`Limits::keeps_writes`]; else empty.
    pub write: Bytes,
    /// One request, and its size.
    pub totals: RequestTotals,
}

#[derive(Debug)]
enum PendingKind {
    /// The request, if [`Limits::keeps_writes`]; else empty.
    Write(Bytes),
    Read,
    /// The reply repeats the path of the request, which the node does not know.
    Sync(Bytes),
}

/// The limits of a connection. Each of them has a key in the configuration; the defaults are in [`Limits::default`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest request in bytes: `jute.maxbuffer`.
    pub frame_bytes_max: usize,
    /// The shortest session timeout that is granted.
    pub session_timeout_min_ms: i32,
    /// The longest session timeout that is granted.
    pub session_timeout_max_ms: i32,
    /// The largest reply in bytes. A read that would need more is answered with `MarshallingError`.
    pub reply_bytes_max: usize,
    /// The size of all identities of one connection in bytes: they are sent along with every write.
    pub identity_bytes_max: usize,
    /// The time from accepting the connection to the end of the first request, including the TLS handshake.
    pub greeting: Span,
    /// `largeRequestThreshold`: requests above this size are large. All large ones that are outstanding together are
    /// limited ([`ServerContext::has_room_for_large`]). `None` if no request is.
    pub large_request_bytes: Option<usize>,
    /// `throttledOpWaitTime`: how long a request waits for room before it is answered with `ThrottledOp`. `None` if it
    /// waits for as long as it takes.
    pub throttled_after: Option<Span>,
    /// `audit.enable`: writes are kept until they are answered, for [`AnsweredRequest::write`].
    pub keeps_writes: bool,
    /// How clients authenticate, and whether they have to.
    pub authentication: Arc<Authentication>,
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
            large_request_bytes: None,
            throttled_after: None,
            keeps_writes: false,
            authentication: Arc::default(),
        }
    }
}

/// The services of the server that a connection uses.
pub trait ServerContext {
    /// Returns an id for a new session.
    fn new_session(&self) -> i64;

    /// Whether clients are served without a quorum now.
    fn is_read_only(&self) -> bool;

    /// Whether the node accepts another request of a connection that has this many requests and bytes outstanding with it.
    /// Others may have used up all the room, but a connection with little outstanding is not to wait for them.
    fn has_room(&self, requests: usize, bytes: usize) -> bool;

    /// The identities of the connection changed: its watches are subject to their permissions.
    fn identify(&self, watcher: Watcher, caller: &Caller);

    /// Returns random bytes for one SASL exchange; `None` if the system has none.
    fn nonce(&self) -> Option<Nonce>;

    /// Whether a session may be requested now, a new one or the one that the client `resumes`. If not, the connection is
    /// closed for the reason returned.
    fn admit(&self, _resumes: bool, _now: Time) -> Result<(), CloseReason> {
        Ok(())
    }

    /// Whether a large request of this size may be accepted. If not, the connection is closed.
    fn has_room_for_large(&self, _bytes: usize) -> bool {
        true
    }

    /// An auth request was answered; for statistics.
    fn authenticated(&self, _packet: &AuthPacket, _is_accepted: bool) {}
}

/// The state of the server when a driver calls a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallContext {
    /// The server's clock.
    pub now: Time,
    /// The leader knows of all client activity before this time; see [`Lease`].
    pub confirmed: Time,
    /// The last zxid that may be read.
    pub applied: i64,
}

/// What the driver has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait until something changes.
    Wait,
    /// Yield to other connections, then call `advance` again: there is more to do with the input.
    Yield,
    /// The client sent a four-letter word instead of a request: call [`Connection::answer_four_letter_word`].
    FourLetterWord,
    /// Call [`Connection::read`].
    Read,
    /// Perform [`Connection::gssapi_call`], call [`Connection::gssapi_called`], then `advance`.
    Gssapi,
}

/// Statistics of a connection, for four-letter words and the admin server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Requests received.
    pub received: u64,
    /// Replies and events queued.
    pub sent: u64,
    /// Reads that were refused because their reply would exceed [`Limits::reply_bytes_max`].
    pub replies_over_limit: u64,
    /// How often requests had to wait because the server had too many outstanding.
    pub waits_for_room: u64,
    /// Requests answered with `ThrottledOp`.
    pub throttled: u64,
    /// The operation of the last request.
    pub last_op: i32,
    /// The xid of the last request.
    pub last_cxid: i32,
    /// The zxid of the last reply.
    pub last_zxid: i64,
    /// When the last reply was made.
    pub last_at: Time,
    pub latency: Latency,
}

/// Sizes of replies in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplySizes {
    pub last: usize,
    pub min: usize,
    pub max: usize,
}

impl ReplySizes {
    /// Adds replies that were made later.
    pub fn add(sizes: &mut Option<Self>, later: Self) {
        let Self { min, max, .. } = sizes.unwrap_or(later);
        *sizes = Some(Self { last: later.last, min: min.min(later.min), max: max.max(later.max) });
    }

    /// Adds one reply.
    pub fn add_one(sizes: &mut Option<Self>, bytes: usize) {
        Self::add(sizes, Self { last: bytes, min: bytes, max: bytes });
    }
}

/// The latency of replies, in whole milliseconds as ZooKeeper counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latency {
    /// Replies counted.
    pub count: u64,
    pub total_ms: u64,
    pub last_ms: u64,
    pub min_ms: u64,
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
            sasl: SaslExchange::default(),
            gssapi: GssapiExchange::default(),
            gssapi_call: None,
            accepted_at: now,
            session: 0,
            timeout_ms: 0,
            requested_at: now,
            wants_read_only_flag: false,
            is_read_only: false,
            lease: None,
            pending: VecDeque::new(),
            pending_bytes: 0,
            pending_large_bytes: 0,
            pending_reads: 0,
            read_bytes: READ_BYTES_FIRST,
            output: Output::default(),
            blocked: Blocked::default(),
            waits_since: None,
            is_exempt: false,
            is_unannounced: false,
            may_read: false,
            counts: Counts::default(),
            reply_sizes: None,
        }
    }

    #[must_use]
    pub fn id(&self) -> ClientId {
        self.id
    }

    /// The session of the connection, or the one that it requests; 0 before.
    #[must_use]
    pub fn session(&self) -> i64 {
        self.session
    }

    /// The negotiated session timeout in milliseconds; 0 before.
    #[must_use]
    pub fn timeout_ms(&self) -> i32 {
        self.timeout_ms
    }

    /// Whether the first request has not arrived yet.
    #[must_use]
    pub fn is_greeting(&self) -> bool {
        self.state == State::Greeting
    }

    /// Whether the node knows of the connection and must be notified of its end.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.session != 0 && !self.is_read_only
    }

    /// Whether its session is known to this server only. Such a session ends when there is a quorum again.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Why the connection is being closed, if it is.
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        match self.state {
            State::Closing(reason) => Some(reason),
            State::Greeting | State::Attaching | State::Open => None,
        }
    }

    /// The number of replies that the node has not sent yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The sizes of the replies that [`Connection::advance`] and [`Connection::read`] made since the last call.
    pub fn take_reply_sizes(&mut self) -> Option<ReplySizes> {
        self.reply_sizes.take()
    }

    pub fn reset_counts(&mut self) {
        self.counts = Counts::default();
    }

    /// The identities of the client.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Declares that the connection is the server's own: it is admitted whenever there is a quorum, and never throttled.
    pub fn exempt(&mut self) {
        self.is_exempt = true;
    }

    #[must_use]
    pub fn is_exempt(&self) -> bool {
        self.is_exempt
    }

    /// Adds identities that the client proved outside of the protocol, with its certificate.
    pub fn add_identities(&mut self, ids: impl IntoIterator<Item = pole_jute::Id>) {
        self.caller.ids.extend(ids);
    }

    /// Whether more bytes should be read from the client, given the bytes not consumed so far. False while the client
    /// does not read its replies, or while too many of its requests are outstanding.
    #[must_use]
    pub fn wants_input(&self, input: &[u8]) -> bool {
        match self.state {
            State::Greeting => true,
            State::Attaching => input.len() < READ_AHEAD_BYTES_MAX,
            State::Open => {
                let is_blocked = self.blocked.confirmation || self.blocked.room;
                // If the output waits for activity of the client, its input must be read, whatever else is pending.
                !is_blocked && (self.has_room() || (self.blocked.held && !self.has_frame(input)))
            }
            State::Closing(_) => false,
        }
    }

    /// Whether the connection can go on only when earlier requests are answered and their replies sent: it has requests in
    /// its input, or is to read no more.
    #[must_use]
    pub fn waits_for_replies(&self, input: &[u8]) -> bool {
        self.state == State::Open && (self.has_frame(input) || !self.wants_input(input))
    }

    /// Whether a client with a session waits for an answer; see the contract, 2. A client that waits for the reply to
    /// its connect request counts too, since it sends nothing more until then.
    #[must_use]
    pub fn has_request(&self, input: &[u8]) -> bool {
        self.state == State::Open && !self.is_read_only && (self.is_unannounced || self.has_frame(input))
    }

    fn has_frame(&self, input: &[u8]) -> bool {
        self.deframer.has_frame(input).unwrap_or(false)
    }

    /// Whether the connection waits for the leader's confirmation ([`crate::Effect::Confirmed`]).
    #[must_use]
    pub fn waits_for_confirmation(&self) -> bool {
        self.blocked.confirmation || self.blocked.held
    }

    /// Whether the connection waits until [`ServerContext::has_room`].
    #[must_use]
    pub fn waits_for_room(&self) -> bool {
        self.blocked.room
    }

    /// Whether another request may be accepted.
    fn has_room(&self) -> bool {
        self.pending.len() < PENDING_MAX
            && self.pending_bytes < PENDING_BYTES_MAX
            && self.output.len() < UNREAD_BYTES_MAX
    }

    /// Takes the node's answer to the request for a session.
    pub fn attached(&mut self, answer: AttachAnswer) {
        if self.state != State::Attaching {
            return;
        }
        let flag = self.wants_read_only_flag.then_some(false);
        match answer {
            AttachAnswer::Opened { timeout_ms } => {
                self.state = State::Open;
                self.timeout_ms = timeout_ms;
                let timeout = Span::from_ms(timeout_ms.unsigned_abs().into());
                self.lease = Some(Lease::new(timeout, self.requested_at));
                self.is_unannounced = true;
                self.output.raw(&opening::connect_response(timeout_ms, self.session, password(self.session), flag));
            }
            AttachAnswer::Expired => {
                self.output.raw(&opening::connect_response(0, 0, [0; 16], flag));
                self.close(CloseReason::SessionExpired);
            }
        }
    }

    /// Takes the node's reply to the oldest outstanding request, which must have this xid: a code and a body, or
    /// nothing for a sync. Returns that request.
    pub fn reply(&mut self, xid: i32, zxid: i64, reply: &[u8], now: Time) -> Option<AnsweredRequest> {
        if self.close_reason().is_some() {
            return None;
        }
        let Some(Pending { at, bytes, large_bytes, kind, .. }) =
            self.pending.pop_front_if(|pending| pending.xid == xid)
        else {
            self.close(CloseReason::OutOfOrder);
            return None;
        };
        let (code, body) = match (&kind, reply.split_first_chunk()) {
            (PendingKind::Sync(path), _) => (ErrorCode::Ok.number(), &path[..]),
            (PendingKind::Write(_) | PendingKind::Read, Some((code, body))) => (i32::from_be_bytes(*code), body),
            (PendingKind::Write(_) | PendingKind::Read, None) => (ErrorCode::SystemError.number(), reply),
        };
        self.output.frame(xid, zxid, code, body);
        self.pending_bytes -= bytes;
        self.pending_large_bytes -= large_bytes;
        if matches!(kind, PendingKind::Read) {
            self.pending_reads -= 1;
            // The estimate grows at once with a large reply and decays slowly with small ones.
            self.read_bytes = (self.read_bytes / 2).max(body.len()).max(READ_BYTES_MIN);
        }
        self.answered(at, zxid, 1, now);
        let (is_write, write) = match kind {
            PendingKind::Write(request) => (true, request),
            PendingKind::Read | PendingKind::Sync(_) => (false, Bytes::new()),
        };
        Some(AnsweredRequest { arrived: at, is_write, write, totals: RequestTotals { count: 1, bytes, large_bytes } })
    }

    /// Queues a watch event. A client that does not read is disconnected before it uses too much memory.
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

    /// Starts to close the connection. The output is still sent, unless its size or the client's failure to read is the
    /// reason.
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

    /// Drops the outstanding requests of a connection that has ended, and returns their number and size.
    pub fn abandon_pending(&mut self) -> RequestTotals {
        self.close(CloseReason::ByClient);
        self.pending_reads = 0;
        let totals = self.pending_totals();
        (self.pending_bytes, self.pending_large_bytes) = (0, 0);
        self.pending.clear();
        totals
    }

    /// The outstanding requests.
    #[must_use]
    pub fn pending_totals(&self) -> RequestTotals {
        let (bytes, large_bytes) = (self.pending_bytes, self.pending_large_bytes);
        RequestTotals { count: self.pending.len(), bytes, large_bytes }
    }

    /// The number of bytes that the client has not received, whether they may be sent or not.
    #[must_use]
    pub fn output_bytes(&self) -> usize {
        self.output.len()
    }

    /// The bytes that may be sent now; none while the lease forbids it.
    pub fn unsent(&mut self, context: CallContext) -> &[u8] {
        if self.may_send(context) { self.output.unsent() } else { &[] }
    }

    /// Removes `count` bytes of [`Connection::unsent`], which were sent.
    pub fn sent(&mut self, count: usize) {
        self.output.sent(count);
    }

    /// Takes a piece of one frame, to be sent by itself; empty if nothing may be sent now. It counts as unsent until
    /// [`Connection::piece_sent`].
    pub fn take_piece(&mut self, max: usize, context: CallContext) -> Bytes {
        let is_framed = self.state != State::Closing(CloseReason::FourLetterWordAnswered);
        if self.may_send(context) { self.output.take(max, is_framed) } else { Bytes::new() }
    }

    /// Reports that the last piece was sent.
    pub fn piece_sent(&mut self) {
        self.output.taken_sent();
    }

    /// Reports that the client does not read for now.
    pub fn stalled(&mut self, now: Time) {
        self.output.stalled(now);
    }

    /// Whether the output may be sent. If not, the connection waits for a confirmation.
    fn may_send(&mut self, context: CallContext) -> bool {
        if self.output.is_empty() || self.close_reason().is_some() {
            self.blocked.held = false;
            return true;
        }
        self.blocked.held = self.lease.as_mut().is_some_and(|lease| !lease.may_send(context.now, context.confirmed));
        self.is_unannounced &= self.blocked.held;
        !self.blocked.held
    }

    /// When to call [`Connection::advance`] although nothing else happened: requests have waited for long enough.
    #[must_use]
    pub fn throttle_deadline(&self) -> Option<Time> {
        let limit = self.limits.throttled_after.filter(|_| self.pending.is_empty() && self.blocked.room)?;
        Some(self.waits_since? + limit)
    }

    /// When to call [`Connection::expire`].
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

    /// How long a client may read no bytes.
    fn stall_limit(&self) -> Span {
        Span::from_ms(self.timeout_ms.unsigned_abs().into())
    }

    fn answered(&mut self, arrived: Time, zxid: i64, count: u64, now: Time) {
        self.counts.sent += count;
        self.counts.last_zxid = zxid;
        self.counts.last_at = now;
        self.counts.latency.record(arrived, now, count);
    }

    /// Counts a request.
    fn received(&mut self, xid: i32, op: i32) {
        self.counts.received += 1;
        (self.counts.last_cxid, self.counts.last_op) = (xid, op);
    }

    /// Runs a step and closes the connection if it fails.
    fn close_on_error(&mut self, step: impl FnOnce(&mut Self) -> Result<Next, CloseReason>) -> Next {
        match step(self) {
            Ok(next) => next,
            Err(reason) => {
                self.close(reason);
                Next::Wait
            }
        }
    }

    /// Processes the input as far as possible; see the contract above. Appends events for the node to `events`.
    pub fn advance(
        &mut self,
        input: &mut BytesMut,
        server: &impl ServerContext,
        context: CallContext,
        events: &mut Vec<Event>,
    ) -> Next {
        self.may_read = false;
        match self.state {
            State::Greeting => self.close_on_error(|this| this.read_first_request(input, server, context, events)),
            State::Open => self.close_on_error(|this| this.take_requests(input, server, context, events)),
            State::Attaching | State::Closing(_) => Next::Wait,
        }
    }
}

impl Latency {
    /// Counts `count` replies to requests that arrived at `arrived`.
    pub fn record(&mut self, arrived: Time, now: Time, count: u64) {
        let ms = (now - arrived).0 / 1_000_000;
        self.min_ms = if self.count == 0 { ms } else { self.min_ms.min(ms) };
        self.max_ms = self.max_ms.max(ms);
        self.last_ms = ms;
        self.total_ms += ms * count;
        self.count += count;
    }

    /// Adds the statistics of another connection. `last_ms` is not changed.
    pub fn add(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min_ms = if self.count == 0 { other.min_ms } else { self.min_ms.min(other.min_ms) };
        self.max_ms = self.max_ms.max(other.max_ms);
        self.total_ms += other.total_ms;
        self.count += other.count;
    }

    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total_ms as f64 / self.count as f64 }
    }
}

/// The maximum number of outstanding requests of one connection: enough to fill the pipeline.
const PENDING_MAX: usize = 1024;

/// The maximum size in bytes of the outstanding requests of one connection, unless a single one is larger.
const PENDING_BYTES_MAX: usize = 4 << 20;

/// The size of unread output beyond which no further request is accepted.
pub const UNREAD_BYTES_MAX: usize = 1 << 20;

/// The size of watch events that a client may leave unread, in addition to one reply of the largest size.
const EVENT_BYTES_MAX: usize = 8 << 20;

/// The number of bytes that a client may send before it has a session: credentials and watches.
const READ_AHEAD_BYTES_MAX: usize = 1 << 20;

/// The initial estimate of the size of a reply to a read at the node. It keeps their number low until their size is
/// known.
const READ_BYTES_FIRST: usize = 256 << 10;

/// The minimum estimate of the size of a reply to a read at the node.
const READ_BYTES_MIN: usize = 4 << 10;
