//! A client connection as shared between threads: the state machine of `node` and the socket.
//!
//! Replies come from the node's thread, reads from the thread of the connection's task. The thread that produces a
//! reply writes it to the socket, because waking the task for one system call would cost a thread switch. The task
//! writes the rest when the socket was full, and everything with TLS.
//!
//! Locks are taken in this order: the tree, then a connection, then the watches. A thread that holds a connection must
//! not wait for the tree.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use pole_jute::Id;
use pole_node::{
    AnsweredRequest, AttachAnswer, CallContext, ClientId, CloseReason, Connection, Counts, Event, GssapiCall,
    GssapiResult, Next, ReplySizes, RequestTotals, UNREAD_BYTES_MAX,
};
use pole_tree::{Caller, WriteRequest};
use pole_types::{Span, Time};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;

use crate::activity::LastActivity;
use crate::limits::Limit;
use crate::metrics::Counter;
use crate::shared::Shared;

/// A client connection, shared by its task, the node's thread and the admin server.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) id: ClientId,
    pub(crate) address: SocketAddr,
    /// When it was accepted.
    pub(crate) since: Time,
    session: AtomicI64,
    /// The activity to include in the next report to the leader.
    pub(crate) activity: LastActivity,
    inner: Mutex<Inner>,
    /// Wakes the connection's task: there is something that only the task can do.
    pub(crate) wake: Notify,
}

#[derive(Debug)]
struct Inner {
    machine: Connection,
    /// The socket for plain output. `None` if the task writes, with TLS, or while it moves from one thread to another.
    socket: Option<Arc<OwnedWriteHalf>>,
    /// The socket is full, and the task waits for room in it.
    is_full: bool,
    /// The task can go on only when earlier requests are answered and their replies sent. It must be woken then.
    waits_for_replies: bool,
    /// This connection's part in the total of the server.
    output: CountedOutput,
}

/// What a task has to wait for.
#[derive(Debug)]
pub(crate) struct Wants {
    pub(crate) input: bool,
    pub(crate) confirmation: bool,
    pub(crate) room: bool,
    pub(crate) deadline: Option<Time>,
    /// When waiting requests are to be refused.
    pub(crate) throttle_deadline: Option<Time>,
    pub(crate) is_read_only: bool,
    pub(crate) close: Option<CloseReason>,
}

/// A batch of requests taken from the input.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) count: u64,
    /// The requests of the batch that went to the node.
    pub(crate) asked: RequestTotals,
    /// Requests that the connection answered itself, and the bytes of these replies.
    pub(crate) answered: u64,
    pub(crate) answered_bytes: usize,
    pub(crate) reply_sizes: Option<ReplySizes>,
    /// The operation of the last.
    pub(crate) last_op: i32,
    /// No reply was outstanding before them.
    pub(crate) is_alone: bool,
}

impl Taken {
    /// What happened since the connection had these counts and this much output.
    fn since(
        (before, output): (Counts, usize),
        asked: RequestTotals,
        machine: &mut Connection,
        is_alone: bool,
    ) -> Self {
        let now = machine.counts();
        let (count, answered) = (now.received - before.received, now.sent - before.sent);
        // There is less output than before if the connection is closed and the output discarded.
        let answered_bytes = machine.output_bytes().saturating_sub(output);
        let reply_sizes = machine.take_reply_sizes();
        Self { count, asked, answered, answered_bytes, reply_sizes, last_op: now.last_op, is_alone }
    }

    /// Adds the counts of a later batch.
    pub(crate) fn add(&mut self, more: Self) {
        self.count += more.count;
        self.answered += more.answered;
        self.answered_bytes += more.answered_bytes;
        if let Some(later) = more.reply_sizes {
            ReplySizes::add(&mut self.reply_sizes, later);
        }
        self.last_op = more.last_op;
    }
}

impl Handle {
    pub(crate) fn new(shared: &Shared, address: SocketAddr, caller: Caller, socket: Option<OwnedWriteHalf>) -> Self {
        let (id, now) = (shared.next_client(), shared.clock.now());
        let inner = Inner {
            machine: Connection::new(id, shared.settings.limits.clone(), caller, now),
            socket: socket.map(Arc::new),
            is_full: false,
            waits_for_replies: false,
            output: CountedOutput { counted: 0, total: Arc::clone(&shared.output) },
        };
        Self {
            id,
            address,
            since: now,
            session: AtomicI64::new(0),
            activity: LastActivity::default(),
            inner: Mutex::new(inner),
            wake: Notify::new(),
        }
    }

    /// The session that it has or has asked for; 0 before.
    pub(crate) fn session(&self) -> i64 {
        self.session.load(Ordering::Relaxed)
    }

    pub(crate) fn timeout_ms(&self) -> i32 {
        self.inner.lock().machine.timeout_ms()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.inner.lock().machine.counts()
    }

    /// The number of requests that the node has not answered yet.
    pub(crate) fn pending(&self) -> usize {
        self.inner.lock().machine.pending()
    }

    /// Resets the counts, for `crst`.
    pub(crate) fn reset_counts(&self) {
        self.inner.lock().machine.reset_counts();
    }

    pub(crate) fn is_greeting(&self) -> bool {
        self.inner.lock().machine.is_greeting()
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.inner.lock().machine.is_attached()
    }

    /// Declares that the connection is the server's own.
    pub(crate) fn exempt(&self) {
        self.inner.lock().machine.exempt();
    }

    pub(crate) fn is_exempt(&self) -> bool {
        self.inner.lock().machine.is_exempt()
    }

    pub(crate) fn add_identities(&self, ids: impl IntoIterator<Item = Id>) {
        self.inner.lock().machine.add_identities(ids);
    }

    /// Called by the task: takes requests from the input.
    pub(crate) fn advance(
        self: &Arc<Self>,
        shared: &Shared,
        input: &mut BytesMut,
        events: &mut Vec<Event>,
    ) -> (Next, Taken) {
        let mut inner = self.inner.lock();
        let machine = &mut inner.machine;
        let mut at = shared.call_context();
        // Required by rule 2 of the contract of `Connection`.
        if machine.has_request(input) {
            at.now = shared.touch(self);
        }
        let (before, output) = (machine.counts(), machine.output_bytes());
        let (pending, was_greeting) = (machine.pending_totals(), machine.is_greeting());
        let next = machine.advance(input, shared, at, events);
        if was_greeting && !machine.is_greeting() {
            count_connect(shared, machine, events);
        }
        let now = machine.pending_totals();
        let asked = RequestTotals {
            count: now.count - pending.count,
            bytes: now.bytes - pending.bytes,
            large_bytes: now.large_bytes - pending.large_bytes,
        };
        let taken = Taken::since((before, output), asked, machine, pending.count == 0);
        shared.status.counters.add(Counter::ThrottledOps, machine.counts().throttled - before.throttled);
        shared.status.limits.add(Limit::Outstanding, machine.counts().waits_for_room - before.waits_for_room);
        self.session.store(machine.session(), Ordering::Relaxed);
        inner.waits_for_replies = next == Next::Wait && inner.machine.waits_for_replies(input);
        let Inner { machine, output, .. } = &mut *inner;
        output.note(machine);
        (next, taken)
    }

    /// Called by the task: answers the reads at the front of the input.
    pub(crate) fn read(&self, shared: &Shared, input: &mut BytesMut) -> Taken {
        let tree = shared.tree.read();
        let mut inner = self.inner.lock();
        let at = shared.call_context();
        let until = at.now + READ_TIME_MAX;
        let Inner { machine, output, .. } = &mut *inner;
        let (before, bytes) = (machine.counts(), machine.output_bytes());
        machine.read(input, &tree, || shared.watches.lock(), at, || shared.clock.now() >= until);
        let taken = Taken::since((before, bytes), RequestTotals::default(), machine, true);
        output.note(machine);
        let refused = machine.counts().replies_over_limit - before.replies_over_limit;
        shared.status.limits.add(Limit::ReplyBytes, refused);
        taken
    }

    /// Called by the task: the call of the GSSAPI library that is due.
    pub(crate) fn gssapi_call(&self) -> Option<GssapiCall> {
        self.inner.lock().machine.gssapi_call().cloned()
    }

    /// Called by the task: takes the result of that call.
    pub(crate) fn gssapi_called(&self, result: GssapiResult, shared: &Shared) {
        let mut inner = self.inner.lock();
        let Inner { machine, output, .. } = &mut *inner;
        machine.gssapi_called(result, shared);
        output.note(machine);
    }

    /// Takes the node's answer to the request for a session.
    pub(crate) fn attached(&self, answer: AttachAnswer) {
        self.inner.lock().machine.attached(answer);
        self.wake.notify_one();
    }

    /// Takes the node's reply to the oldest outstanding request. Returns that request, and the bytes of the reply.
    pub(crate) fn reply(&self, xid: i32, zxid: i64, reply: &[u8], now: Time) -> Option<(AnsweredRequest, usize)> {
        let mut inner = self.inner.lock();
        let Inner { machine, output, .. } = &mut *inner;
        let bytes = machine.output_bytes();
        let asked = machine.reply(xid, zxid, reply, now);
        let asked = asked.map(|asked| (asked, machine.output_bytes().saturating_sub(bytes)));
        output.note(machine);
        if std::mem::take(&mut inner.waits_for_replies) || asked.is_none() {
            self.wake.notify_one();
        }
        asked
    }

    /// Queues a watch event.
    pub(crate) fn notify(&self, zxid: i64, event: &[u8]) {
        let mut inner = self.inner.lock();
        let Inner { machine, output, .. } = &mut *inner;
        machine.notify(zxid, event);
        output.note(machine);
        if machine.close_reason().is_some() {
            self.wake.notify_one();
        }
    }

    /// Called by the task: queues the answer to a four-letter word.
    pub(crate) fn answer_four_letter_word(&self, text: &str) {
        self.inner.lock().machine.answer_four_letter_word(text);
    }

    /// Sends the output, as far as the lease allows and the socket has room. Wakes the task if something is left, or if the
    /// task waited for this.
    pub(crate) fn flush(&self, at: CallContext) {
        let mut inner = self.inner.lock();
        let is_left = inner.write_output(at);
        if std::mem::take(&mut inner.waits_for_replies) || is_left {
            self.wake.notify_one();
        }
    }

    /// Called by the task: the same, but the task is awake and is about to wait for whatever the rest needs. If it woke
    /// itself, it would never wait: output that the lease holds back stays until the client is heard or its session ends.
    pub(crate) fn flush_in_task(&self, at: CallContext) {
        self.inner.lock().write_output(at);
    }

    /// Ends the connection once the queued output has been sent.
    pub(crate) fn close(&self, reason: CloseReason) {
        self.inner.lock().machine.close(reason);
        self.wake.notify_one();
    }

    /// Called by the task: returns what to wait for, with this input left.
    pub(crate) fn wants(&self, input: &[u8], now: Time) -> Wants {
        let mut inner = self.inner.lock();
        let Inner { machine, waits_for_replies, .. } = &mut *inner;
        machine.expire(now);
        // Replies may have filled the output since the input was last looked at.
        *waits_for_replies |= machine.waits_for_replies(input);
        Wants {
            input: machine.wants_input(input),
            confirmation: machine.waits_for_confirmation(),
            room: machine.waits_for_room(),
            deadline: machine.deadline(),
            throttle_deadline: machine.throttle_deadline(),
            is_read_only: machine.is_read_only(),
            close: machine.close_reason(),
        }
    }

    /// Called by the task: waits until a full socket has room. Never returns if the socket is not full.
    pub(crate) async fn has_drained(&self) {
        let full = Some(self.inner.lock()).filter(|inner| inner.is_full).and_then(|inner| inner.socket.clone());
        match full {
            Some(socket) if socket.writable().await.is_ok() => {}
            Some(_) | None => return std::future::pending().await,
        }
        self.inner.lock().is_full = false;
    }

    /// The task, which is about to move to another thread: takes the socket. What is to be sent waits for the next one.
    pub(crate) fn take_socket(&self) -> Option<OwnedWriteHalf> {
        self.inner.lock().socket.take().and_then(Arc::into_inner)
    }

    /// The task: it has moved.
    pub(crate) fn put_socket(&self, socket: OwnedWriteHalf) {
        let mut inner = self.inner.lock();
        inner.socket = Some(Arc::new(socket));
        // Whether the new one is full is not known.
        inner.is_full = false;
    }

    /// Returns a piece of one frame, which the caller must send before it takes another; empty if nothing may be sent
    /// now.
    pub(crate) fn take_piece(&self, max: usize, at: CallContext) -> Bytes {
        let mut inner = self.inner.lock();
        let piece = inner.machine.take_piece(max, at);
        if !piece.is_empty() {
            inner.machine.stalled(at.now);
        }
        piece
    }

    /// Reports that the piece was sent.
    pub(crate) fn piece_sent(&self) {
        let mut inner = self.inner.lock();
        let Inner { machine, output, .. } = &mut *inner;
        machine.piece_sent();
        output.note(machine);
    }

    /// Sends the remaining output of a connection without TLS that ends.
    pub(crate) async fn send_last(&self, at: CallContext) -> std::io::Result<()> {
        loop {
            let socket = {
                let mut inner = self.inner.lock();
                let Some(socket) = inner.socket.clone() else { return Ok(()) };
                inner.is_full = false;
                inner.write_to(&socket, at);
                if !inner.is_full {
                    return Ok(());
                }
                socket
            };
            socket.writable().await?;
        }
    }

    /// Ends the connection. Returns the requests that the node had not answered.
    pub(crate) fn abandon_pending(&self) -> RequestTotals {
        self.inner.lock().machine.abandon_pending()
    }
}

impl Inner {
    /// Returns whether something is left for the task: output that waits, or the end of the connection.
    fn write_output(&mut self, at: CallContext) -> bool {
        let is_closing = self.machine.close_reason().is_some();
        if self.machine.output_bytes() == 0 && !is_closing {
            return false;
        }
        match self.socket.clone() {
            None => true,
            Some(socket) if !self.is_full => {
                self.write_to(&socket, at);
                self.machine.output_bytes() > 0 || self.machine.close_reason().is_some()
            }
            // The task waits for room in the socket.
            Some(_) => is_closing,
        }
    }

    fn write_to(&mut self, socket: &OwnedWriteHalf, at: CallContext) {
        loop {
            let unsent = self.machine.unsent(at);
            if unsent.is_empty() {
                break;
            }
            match socket.try_write(unsent) {
                Ok(count) => self.machine.sent(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_full = true;
                    self.machine.stalled(at.now);
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.machine.close(CloseReason::SocketFailed);
                    break;
                }
            }
        }
        self.output.note(&mut self.machine);
    }
}

/// Counts a connect request, whatever its answer.
fn count_connect(shared: &Shared, machine: &Connection, events: &[Event]) {
    let closed = machine.close_reason();
    if matches!(closed, Some(CloseReason::BadFrame(_) | CloseReason::BadRecord(_))) {
        return;
    }
    let counters = &shared.status.counters;
    counters.add(Counter::ConnectionRequestCount, 1);
    let resumes = |event: &Event| matches!(event, Event::Attach { body, .. } if WriteRequest::is_resumption(body));
    if closed == Some(CloseReason::WrongPassword) || events.last().is_some_and(resumes) {
        counters.add(Counter::ConnectionRevalidateCount, 1);
    }
}

/// Output that clients have not read, over all connections of a server.
#[derive(Debug, Default)]
pub(crate) struct OutputTotal {
    bytes: std::sync::atomic::AtomicUsize,
    pub(crate) bytes_max: usize,
}

impl OutputTotal {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes: 0.into(), bytes_max }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The part of one connection in [`OutputTotal`].
#[derive(Debug)]
struct CountedOutput {
    counted: usize,
    total: Arc<OutputTotal>,
}

impl CountedOutput {
    /// Updates the total after a change of the output. Small changes are not counted, because all threads share the
    /// total. If the total is over its limit, a connection with more than [`UNREAD_BYTES_MAX`] is closed, so that only
    /// clients that do not read are affected.
    fn note(&mut self, machine: &mut Connection) {
        let bytes = machine.output_bytes();
        if bytes.abs_diff(self.counted) < COUNTED_BYTES_MIN && (bytes > 0 || self.counted == 0) {
            return;
        }
        let total = match bytes.checked_sub(self.counted) {
            Some(more) => self.total.bytes.fetch_add(more, Ordering::Relaxed) + more,
            None => {
                let less = self.counted - bytes;
                self.total.bytes.fetch_sub(less, Ordering::Relaxed) - less
            }
        };
        self.counted = bytes;
        if total > self.total.bytes_max && bytes > UNREAD_BYTES_MAX {
            machine.close(CloseReason::OutputLimit);
            self.note(machine);
        }
    }
}

impl Drop for CountedOutput {
    fn drop(&mut self) {
        self.total.bytes.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

/// How long a batch of reads may hold the lock on the tree, unless a single read takes longer.
const READ_TIME_MAX: Span = Span::from_ms(2);

/// Smaller changes of the output are not counted.
const COUNTED_BYTES_MIN: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise a client thread would be busy for as long as the output of a silent client is held back.
    #[test]
    fn a_task_that_leaves_output_behind_does_not_wake_itself() {
        let shared = Shared::configured("");
        let handle = Handle::new(&shared, ([10, 0, 0, 1], 9).into(), Caller::default(), None);
        handle.notify(1, &[0; 10]);
        let is_awake = || std::pin::pin!(handle.wake.notified()).as_mut().enable();
        handle.flush_in_task(shared.call_context());
        assert!(!is_awake());
        handle.flush(shared.call_context());
        assert!(is_awake());
    }

    #[test]
    fn who_leaves_most_unread_is_closed_when_all_leave_too_much() {
        let shared = Shared::configured("pole.client.outputBytesMax=2097152\n");
        let client = |unread_bytes: usize| {
            let handle = Handle::new(&shared, ([10, 0, 0, 1], 9).into(), Caller::default(), None);
            handle.notify(1, &vec![0; unread_bytes]);
            handle
        };
        let clients = [client(3 << 19), client(3 << 18), client(3 << 19)];
        let closed = clients.each_ref().map(|client| client.wants(&[], client.since).close);
        assert_eq!(closed, [None, None, Some(CloseReason::OutputLimit)]);
    }
}
