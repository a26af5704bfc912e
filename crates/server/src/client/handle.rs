//! One client's connection as the rest of the server sees it: what is to be sent, and what it waits for.
//!
//! In: frames from the node's thread and from the connection's own task. Out: bytes on the socket.
//! Why written by whoever has something to say: a reply that had to wake the connection's task first would pay a thread
//! switch for one system call. The task only finishes what the socket had no room for.
//! Holds: frames leave in the order in which they were pushed, and none while the client must not be told that all is
//! well; what is waiting is bounded.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use pole_election::Span;
use pole_jute::{ErrorCode, ReplyHeader};
use pole_node::{ClientId, Lease};
use pole_oracle::Time;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;

use crate::heard::Heard;

/// A connection.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) id: ClientId,
    pub(crate) address: SocketAddr,
    /// When it was opened.
    pub(crate) since: Time,
    session: AtomicI64,
    timeout_ms: AtomicI32,
    /// Heard since the last report to the leader.
    pub(crate) heard: Heard,
    out: Mutex<Out>,
    /// Wakes the connection's task: its state changed, or there are bytes that only the task can send.
    pub(crate) wake: Notify,
}

#[derive(Debug)]
struct Out {
    state: State,
    /// Where bytes go as they are. None: the task writes, with TLS, or it moves from one thread to another.
    socket: Option<Arc<OwnedWriteHalf>>,
    buffer: BytesMut,
    /// When its session was asked for.
    asked: Option<Time>,
    /// None: its session is on its way, or is known here only.
    lease: Option<Lease>,
    /// The lease does not allow what there is to leave, and the task waits until it does.
    is_held: bool,
    /// The socket is full, and the task waits for room in it.
    is_full: bool,
    /// What was asked of the node and is not answered, in order.
    waiting: VecDeque<Waiting>,
    /// The task reads no more until fewer wait.
    is_throttled: bool,
    counts: Counts,
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Its session is on its way.
    Connecting,
    /// It has a session.
    Open,
    /// What is in the buffer still goes out.
    Closing(&'static str),
    /// The socket is of no use any more.
    Broken,
}

/// Something that the node was asked.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// When it came.
    pub(crate) at: Time,
    /// A sync is answered with its path, which the node does not know.
    pub(crate) sync: Option<Bytes>,
}

/// What a connection has done, for those who look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) received: u64,
    pub(crate) sent: u64,
    /// The last request: number of its operation, the client's number, and the position it was answered with.
    pub(crate) last_op: i32,
    pub(crate) last_cxid: i32,
    pub(crate) last_zxid: i64,
    pub(crate) last_at: Time,
    pub(crate) latency: Latency,
}

/// How long answers took, in milliseconds, as ZooKeeper counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Latency {
    pub(crate) count: u64,
    pub(crate) total_ms: u64,
    pub(crate) last_ms: u64,
    pub(crate) min_ms: u64,
    pub(crate) max_ms: u64,
}

impl Handle {
    pub(crate) fn new(id: ClientId, address: SocketAddr, since: Time, socket: Option<OwnedWriteHalf>) -> Self {
        let out = Out {
            state: State::Connecting,
            socket: socket.map(Arc::new),
            buffer: BytesMut::new(),
            asked: None,
            lease: None,
            is_held: false,
            is_full: false,
            waiting: VecDeque::new(),
            is_throttled: false,
            counts: Counts::default(),
        };
        Self {
            id,
            address,
            since,
            session: AtomicI64::new(0),
            timeout_ms: AtomicI32::new(0),
            heard: Heard::default(),
            out: Mutex::new(out),
            wake: Notify::new(),
        }
    }

    /// The session that it has or is about to have; 0 before.
    pub(crate) fn session(&self) -> i64 {
        self.session.load(Ordering::Relaxed)
    }

    /// Names the session before it is asked for, and when that is; never if nobody counts on it.
    pub(crate) fn wants(&self, session: i64, asked: Option<Time>) {
        self.session.store(session, Ordering::Relaxed);
        self.out.lock().asked = asked;
    }

    pub(crate) fn timeout_ms(&self) -> i32 {
        self.timeout_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn state(&self) -> State {
        self.out.lock().state
    }

    pub(crate) fn counts(&self) -> Counts {
        self.out.lock().counts
    }

    /// How many answers the node owes.
    pub(crate) fn waiting(&self) -> usize {
        self.out.lock().waiting.len()
    }

    /// Whether more may be read from the client: not while it takes no answers, or while too many are under way. If not,
    /// the task is woken when that has changed.
    pub(crate) fn has_room(&self) -> bool {
        let mut out = self.out.lock();
        out.is_throttled = out.waiting.len() >= WAITING_MAX;
        !out.is_throttled && out.buffer.len() < UNREAD_BYTES_MAX
    }

    /// Forgets the counts, for `crst`.
    pub(crate) fn reset_counts(&self) {
        self.out.lock().counts = Counts::default();
    }

    /// Its session is there, and this frame says so.
    pub(crate) fn open(&self, timeout_ms: i32, frame: &[u8]) {
        self.timeout_ms.store(timeout_ms, Ordering::Relaxed);
        let mut out = self.out.lock();
        if out.state == State::Connecting {
            out.state = State::Open;
            let timeout = Span::from_ms(timeout_ms.unsigned_abs().into());
            out.lease = out.asked.map(|asked| Lease::new(timeout, asked));
            out.buffer.extend_from_slice(frame);
            drop(out);
            self.wake.notify_one();
        }
    }

    /// Its lease, if it has one.
    pub(crate) fn with_lease<R>(&self, ask: impl FnOnce(&mut Lease) -> R) -> Option<R> {
        self.out.lock().lease.as_mut().map(ask)
    }

    /// Whether there is something to say that must not be said yet.
    pub(crate) fn is_held(&self) -> bool {
        self.out.lock().is_held
    }

    /// Requests were read; `waiting` of them go to the node.
    pub(crate) fn asked(&self, received: u64, last: (i32, i32), waiting: impl IntoIterator<Item = Waiting>) {
        let mut out = self.out.lock();
        out.counts.received += received;
        (out.counts.last_cxid, out.counts.last_op) = last;
        out.waiting.extend(waiting);
    }

    /// Frames that the connection's own task has made.
    pub(crate) fn push_frames(&self, frames: &[u8], count: u64, zxid: i64, took: Option<(Time, Time)>) {
        let mut out = self.out.lock();
        out.buffer.extend_from_slice(frames);
        out.counts.sent += count;
        out.counts.last_zxid = zxid;
        if let Some((asked, now)) = took {
            out.counts.latency.record(asked, now, count);
            out.counts.last_at = now;
        }
    }

    /// The node's answer to the oldest that waits: a code and a body, or for a sync nothing. Returns when it was asked.
    pub(crate) fn push_reply(&self, xid: i32, zxid: i64, answer: &[u8], now: Time) -> Option<Time> {
        let mut out = self.out.lock();
        let waiting = out.waiting.pop_front()?;
        let Out { buffer, counts, .. } = &mut *out;
        let (code, body) = match &waiting.sync {
            Some(path) => (ErrorCode::Ok.number(), &path[..]),
            None => match answer.split_first_chunk() {
                Some((code, body)) => (i32::from_be_bytes(*code), body),
                None => (ErrorCode::SystemError.number(), answer),
            },
        };
        put_frame(buffer, xid, zxid, code, body);
        counts.sent += 1;
        counts.last_zxid = zxid;
        counts.last_at = now;
        counts.latency.record(waiting.at, now, 1);
        if out.is_throttled && out.waiting.len() < WAITING_MAX / 2 {
            out.is_throttled = false;
            self.wake.notify_one();
        }
        Some(waiting.at)
    }

    /// What a watch has seen. A client that does not read loses its connection before it costs too much memory.
    pub(crate) fn push_event(&self, zxid: i64, event: &[u8]) {
        let mut out = self.out.lock();
        let header = ReplyHeader::notification(zxid);
        put_frame(&mut out.buffer, header.xid, header.zxid, header.err.number(), event);
        out.counts.sent += 1;
        if out.buffer.len() > UNSENT_BYTES_MAX && out.state == State::Open {
            out.state = State::Broken;
            drop(out);
            self.wake.notify_one();
        }
    }

    /// Sends what there is, as far as the lease allows and the socket takes it. The leader knows of all who were heard
    /// before `confirmed`.
    pub(crate) fn flush(&self, now: Time, confirmed: Time) {
        let mut out = self.out.lock();
        if out.buffer.is_empty() && !matches!(out.state, State::Closing(_)) {
            return;
        }
        if !out.may_leave(now, confirmed) {
            return self.wake.notify_one();
        }
        match out.socket.clone() {
            None => self.wake.notify_one(),
            Some(socket) if !out.is_full => {
                out.write_to(&socket);
                if out.is_full || out.state != State::Open {
                    self.wake.notify_one();
                }
            }
            Some(_) => {}
        }
    }

    /// No more is to be said: the connection ends when what there is has gone out.
    pub(crate) fn close(&self, reason: &'static str) {
        let mut out = self.out.lock();
        if matches!(out.state, State::Connecting | State::Open) {
            out.state = State::Closing(reason);
        }
        drop(out);
        self.wake.notify_one();
    }

    /// The task: waits until a socket that was full has room. Never returns for another.
    pub(crate) async fn has_drained(&self) {
        let full = Some(self.out.lock()).filter(|out| out.is_full).and_then(|out| out.socket.clone());
        match full {
            Some(socket) if socket.writable().await.is_ok() => {}
            Some(_) | None => return std::future::pending().await,
        }
        self.out.lock().is_full = false;
    }

    /// The task, which is about to move to another thread: takes the socket. What is to be sent waits for the next one.
    pub(crate) fn take_socket(&self) -> Option<OwnedWriteHalf> {
        self.out.lock().socket.take().and_then(Arc::into_inner)
    }

    /// The task: it has moved.
    pub(crate) fn put_socket(&self, socket: OwnedWriteHalf) {
        let mut out = self.out.lock();
        out.socket = Some(Arc::new(socket));
        // It has not been asked.
        out.is_full = false;
    }

    /// The task of a connection with TLS: takes what is to be sent.
    pub(crate) fn take_unsent(&self, now: Time, confirmed: Time) -> Bytes {
        let mut out = self.out.lock();
        if out.buffer.is_empty() || out.may_leave(now, confirmed) {
            return out.buffer.split().freeze();
        }
        self.wake.notify_one();
        Bytes::new()
    }

    /// The last words of a connection that ends.
    pub(crate) async fn send_last(&self, mut rest: &[u8]) -> std::io::Result<()> {
        let Some(socket) = self.out.lock().socket.clone() else { return Ok(()) };
        while !rest.is_empty() {
            socket.writable().await?;
            match socket.try_write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The connection is over: nobody waits any more. Returns how many answers were owed.
    pub(crate) fn drop_waiting(&self) -> usize {
        let mut out = self.out.lock();
        if matches!(out.state, State::Connecting | State::Open) {
            out.state = State::Closing("closed by the client");
        }
        std::mem::take(&mut out.waiting).len()
    }
}

impl Out {
    /// Whether the client may be told what there is. If not, the task has to wait, and is to be woken.
    fn may_leave(&mut self, now: Time, confirmed: Time) -> bool {
        let is_closing = matches!(self.state, State::Closing(_));
        self.is_held = !is_closing && self.lease.as_mut().is_some_and(|lease| !lease.may_tell(now, confirmed));
        !self.is_held
    }

    fn write_to(&mut self, socket: &OwnedWriteHalf) {
        while !self.buffer.is_empty() {
            match socket.try_write(&self.buffer) {
                Ok(count) => self.buffer.advance(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_full = true;
                    return;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.state = State::Broken;
                    return;
                }
            }
        }
        // A burst must not hold its memory for as long as the connection lasts.
        if self.buffer.capacity() > KEPT_BYTES_MAX {
            self.buffer = BytesMut::new();
        }
    }
}

impl Latency {
    pub(crate) fn record(&mut self, asked: Time, now: Time, count: u64) {
        let ms = (now - asked).0 / 1_000_000;
        self.min_ms = if self.count == 0 { ms } else { self.min_ms.min(ms) };
        self.max_ms = self.max_ms.max(ms);
        self.last_ms = ms;
        self.total_ms += ms * count;
        self.count += count;
    }

    /// What was recorded elsewhere too; which of them was last is not known.
    pub(crate) fn add(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min_ms = if self.count == 0 { other.min_ms } else { self.min_ms.min(other.min_ms) };
        self.max_ms = self.max_ms.max(other.max_ms);
        self.total_ms += other.total_ms;
        self.count += other.count;
    }

    /// The mean.
    pub(crate) fn mean_ms(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total_ms as f64 / self.count as f64 }
    }
}

/// A reply: length, number, position, code, body.
pub(crate) fn put_frame(buffer: &mut BytesMut, xid: i32, zxid: i64, code: i32, body: &[u8]) {
    let length = HEADER_BYTES + body.len();
    buffer.reserve(4 + length);
    buffer.put_u32(u32::try_from(length).expect("a reply is bounded by what the tree holds in one node"));
    buffer.put_i32(xid);
    buffer.put_i64(zxid);
    buffer.put_i32(code);
    buffer.put_slice(body);
}

/// Number, position and code.
const HEADER_BYTES: usize = 16;

/// What a client that watches much and reads nothing may cost. Twice the largest frame that it may send, so that any
/// reply fits.
const UNSENT_BYTES_MAX: usize = 8 << 20;

/// Answers that a client has not taken, beyond which it is not asked for more.
const UNREAD_BYTES_MAX: usize = 1 << 20;

/// Requests of one connection under way. A client with more of them gains nothing: they fill the pipeline.
const WAITING_MAX: usize = 1024;

/// The room that an idle connection keeps for its next replies.
const KEPT_BYTES_MAX: usize = 16 << 10;
