//! The task of a client connection, which moves bytes between a socket and the state machine of `node`.
//!
//! All decisions are made in [`pole_node::Connection`]; this is the driver's side of its contract. Sockets and TLS are
//! opened by `listener`, four-letter words are answered by `four_letter`.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use pole_node::{CloseReason, Event, GssapiResult, Next};
use pole_tree::Watcher;
use pole_types::{Span, Time};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::four_letter;
use super::handle::{Handle, Taken};
use super::placement::{Placement, Thread};
use crate::kerberos::Context;
use crate::limits::Limit;
use crate::mailbox::Command;
use crate::shared::Shared;
use crate::tally::RequestKind;
use crate::timeline;

/// The task of one connection.
pub(crate) struct Connection<R, W> {
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    reader: R,
    /// The write half with TLS; without TLS the handle writes.
    writer: Option<W>,
    input: BytesMut,
    /// The security context of a client that uses Kerberos.
    gssapi: Option<Context>,
    /// The permit for the list that is sent, if a four-letter word asked for a long one.
    list_permit: Option<OwnedSemaphorePermit>,
    /// Its last requests kept others on its thread waiting.
    is_slow: bool,
    pub(super) placement: Placement,
}

/// Scratch buffers, reused to avoid reallocation. They belong to the thread: a server has many more connections.
#[derive(Default)]
struct Scratch {
    events: Vec<Event>,
    commands: Vec<Command>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
    /// Of the connections on a thread that take long, one at a time is served, and then all others that are ready. A client with
    /// small requests then waits for one batch of such a connection, however many of these there are.
    static SLOW_TURN: Arc<Semaphore> = Arc::new(Semaphore::new(1));
}

/// What became of a connection.
pub(crate) enum Outcome<C> {
    /// It ended.
    Ended(End),
    /// It moves to another thread.
    Moves(C),
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    #[error("{0}")]
    Closed(CloseReason),
    #[error("{0}")]
    Socket(#[from] io::Error),
}

impl From<CloseReason> for End {
    fn from(reason: CloseReason) -> Self {
        Self::Closed(reason)
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    pub(crate) fn new(shared: Arc<Shared>, handle: Arc<Handle>, reader: R, writer: Option<W>) -> Self {
        let (input, placement) = (BytesMut::new(), Placement::default());
        Self { shared, handle, reader, writer, input, gssapi: None, list_permit: None, is_slow: false, placement }
    }

    /// Serves the client until the connection ends or should move to another thread.
    pub(crate) async fn run(mut self) -> Outcome<Self> {
        match self.serve().await {
            Ok(()) => Outcome::Moves(self),
            Err(end) => {
                if let End::Socket(_) = end {
                    self.handle.close(CloseReason::SocketFailed);
                }
                self.deregister();
                self.send_rest().await;
                Outcome::Ended(end)
            }
        }
    }

    /// Returns when the connection should move to another thread.
    async fn serve(&mut self) -> Result<(), End> {
        loop {
            self.progress().await;
            if self.placement.should_move() {
                return Ok(());
            }
            self.wait().await?;
        }
    }

    /// Processes the input as far as possible.
    async fn progress(&mut self) {
        let mut batches = 0;
        loop {
            let turn = match self.is_slow || self.input.len() >= LARGE_INPUT_BYTES {
                true => SLOW_TURN.with(Arc::clone).acquire_owned().await.ok(),
                false => None,
            };
            let (began, input_bytes) = (self.shared.clock.now(), self.input.len());
            let (next, mut taken) = self.advance();
            if next == Next::Read {
                taken.add(self.handle.read(&self.shared, &mut self.input));
            }
            let at = self.shared.call_context();
            let bytes = input_bytes - self.input.len();
            if taken.count > 0 {
                self.placement.learn(taken.count, taken.last_op, taken.is_alone);
            }
            if bytes > 0 {
                let tally = &self.shared.status.tally;
                tally.received(taken.count, bytes);
                tally.answered(RequestKind::Read, taken.answered, taken.answered_bytes, began, at.now);
                tally.reply_sizes(taken.reply_sizes, at.now);
            }
            self.is_slow = at.now - began > SLOW_BATCH;
            self.handle.flush_in_task(at);
            if turn.is_some() {
                tokio::task::yield_now().await;
            }
            drop(turn);
            match next {
                Next::Wait => return,
                Next::FourLetterWord => {
                    // Boxed, because the tasks of all connections would have room for it.
                    let answer = Box::pin(four_letter::answer(&self.shared, self.handle.address, &self.input)).await;
                    let answer = answer.unwrap_or_else(|| "".into());
                    self.handle.answer_four_letter_word(&answer.text);
                    self.list_permit = answer.permit;
                    return;
                }
                Next::Gssapi => self.call_gssapi().await,
                Next::Read | Next::Yield => {}
            }
            batches += 1;
            if batches > 1 {
                // Other connections on this thread have waited for two batches of this client.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Performs the call of the GSSAPI library that is due.
    async fn call_gssapi(&mut self) {
        let result = match (self.handle.gssapi_call(), self.shared.kerberos.get()) {
            (Some(call), Some(acceptor)) => acceptor.call(&mut self.gssapi, call).await,
            (_, _) => GssapiResult::Failed,
        };
        self.handle.gssapi_called(result, &self.shared);
        self.handle.flush_in_task(self.shared.call_context());
    }

    /// Takes requests from the input, and passes them to the node.
    fn advance(&mut self) -> (Next, Taken) {
        SCRATCH.with_borrow_mut(|Scratch { events, commands }| {
            let (next, taken) = self.handle.advance(&self.shared, &mut self.input, events);
            if events.is_empty() {
                return (next, taken);
            }
            let is_attach = |event: &Event| matches!(event, Event::Attach { .. });
            if events.iter().any(is_attach) {
                self.shared.clients.lock().insert(self.handle.id, Arc::clone(&self.handle));
            }
            self.shared.add_outstanding(taken.asked);
            commands.extend(events.drain(..).map(|event| Command::from_connection(&self.handle, event)));
            self.shared.mailbox.post_all(commands);
            (next, taken)
        })
    }

    /// Waits for something to do: input, room in the socket, a reply of the node, a deadline.
    async fn wait(&mut self) -> Result<(), End> {
        self.write_pieces().await?;
        let (shared, handle) = (Arc::clone(&self.shared), Arc::clone(&self.handle));
        // Created before `wants` is called, so that no notification in between is missed.
        let (confirmed, room) = (shared.confirmation_changed.notified(), shared.room.notified());
        let role_changed = shared.status.role_changed.notified();
        let wants = handle.wants(&self.input, shared.clock.now());
        if let Some(reason) = wants.close {
            return Err(reason.into());
        }
        if wants.room && shared.has_room_for_all() {
            // There was room before anything waited for it.
            return Ok(());
        }
        if self.input.is_empty() {
            // An idle client has no buffer.
            self.input = BytesMut::new();
        } else if wants.input && self.input.capacity() - self.input.len() < READ_BYTES / 4 {
            self.input.reserve(READ_BYTES);
        }
        tokio::select! {
            () = handle.wake.notified() => {}
            () = handle.has_drained() => {}
            () = confirmed, if wants.confirmation => {}
            () = room, if wants.room => {}
            () = role_changed, if wants.is_read_only => {}
            () = sleep_until(&shared, wants.deadline), if wants.deadline.is_some() => {}
            () = sleep_until(&shared, wants.throttle_deadline), if wants.throttle_deadline.is_some() => {}
            read = read(&mut self.reader, &mut self.input), if wants.input => {
                if read? == 0 {
                    return Err(CloseReason::ByClient.into());
                }
                timeline::step("reads from its client");
            }
        }
        Ok(())
    }

    /// With TLS: sends the output that may be sent, each frame in separate records.
    async fn write_pieces(&mut self) -> Result<(), End> {
        let (Some(writer), handle, shared) = (&mut self.writer, &self.handle, &self.shared) else { return Ok(()) };
        let (mut has_written, mut was_woken) = (false, false);
        loop {
            let piece = handle.take_piece(PIECE_BYTES_MAX, shared.call_context());
            let mut step =
                pin!(async { if piece.is_empty() { writer.flush().await } else { writer.write_all(&piece).await } });
            if piece.is_empty() && !has_written {
                return Ok(());
            }
            has_written = true;
            loop {
                let wants = handle.wants(&[], shared.clock.now());
                if let Some(reason) = wants.close.filter(|reason| Limit::of(*reason).is_some()) {
                    return Err(reason.into());
                }
                tokio::select! {
                    done = &mut step => break done?,
                    () = handle.wake.notified(), if wants.close.is_none() => was_woken = true,
                    () = sleep_until(shared, wants.deadline), if wants.deadline.is_some() => {}
                    () = tokio::time::sleep(LAST_BYTES), if wants.close.is_some() => {
                        return Err(wants.close.unwrap_or(CloseReason::ClientStalled).into());
                    }
                }
            }
            if piece.is_empty() {
                if was_woken {
                    // There may be more to do than to send.
                    handle.wake.notify_one();
                }
                return Ok(());
            }
            handle.piece_sent();
        }
    }

    /// Sends the remaining output when the connection ends, within a time limit.
    async fn send_rest(mut self) {
        let at = self.shared.call_context();
        let _ = timeout(LAST_BYTES, async {
            let Some(writer) = &mut self.writer else { return self.handle.send_last(at).await };
            loop {
                let piece = self.handle.take_piece(PIECE_BYTES_MAX, at);
                if piece.is_empty() {
                    return writer.shutdown().await;
                }
                writer.write_all(&piece).await?;
                self.handle.piece_sent();
            }
        })
        .await;
    }
}

impl<R, W> Connection<R, W> {
    /// Tells the node that the connection has ended, and removes its watches.
    pub(super) fn deregister(&self) {
        self.shared.remove_outstanding(self.handle.abandon_pending());
        if self.handle.is_attached() {
            self.shared.clients.lock().remove(&self.handle.id);
            self.shared.mailbox.post(Command::Event(Event::Detach { client: self.handle.id }));
        }
        // The node does the same on `Detach`, because it may still perform reads that wait behind writes.
        self.shared.watches.lock().forget(Watcher(self.handle.id.0));
        if self.shared.watches.lock().sweep(0) {
            tokio::spawn(sweep_watches(Arc::clone(&self.shared)));
        }
    }

    /// Replaces the reader. Returns the previous one.
    pub(super) fn exchange_reader<S>(self, reader: S) -> (R, Connection<S, W>) {
        let Self { shared, handle, reader: before, writer, input, gssapi, list_permit, is_slow, placement } = self;
        (before, Connection { shared, handle, reader, writer, input, gssapi, list_permit, is_slow, placement })
    }

    /// Records that it is served on this thread from now on.
    pub(super) fn moved_to(&mut self, thread: Thread) {
        self.placement.moved_to(thread);
    }
}

/// Removes the watches of ended connections, with pauses in which other threads can take the lock.
async fn sweep_watches(shared: Arc<Shared>) {
    while shared.watches.lock().sweep(SWEPT_AT_ONCE) {
        tokio::time::sleep(SWEEP_PAUSE).await;
    }
}

/// Watches removed while holding the lock once: about half a millisecond of work.
const SWEPT_AT_ONCE: usize = 1000;
const SWEEP_PAUSE: Duration = Duration::from_millis(1);

/// Waits for input and appends it. Into an empty buffer it is copied, so that a client needs none while it is silent.
/// What is larger than one read goes into the buffer directly from then on.
async fn read<R: AsyncRead + Unpin>(reader: &mut R, input: &mut BytesMut) -> io::Result<usize> {
    if !input.is_empty() {
        return reader.read_buf(input).await;
    }
    poll_fn(|context| {
        let mut first = [const { MaybeUninit::uninit() }; READ_BYTES];
        let mut first = ReadBuf::uninit(&mut first);
        ready!(Pin::new(&mut *reader).poll_read(context, &mut first))?;
        input.extend_from_slice(first.filled());
        Poll::Ready(Ok(first.filled().len()))
    })
    .await
}

async fn sleep_until(shared: &Shared, deadline: Option<Time>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(shared.clock.instant(at).into()).await,
        None => std::future::pending().await,
    }
}

/// The most that the first read takes: several small requests.
const READ_BYTES: usize = 8 << 10;

/// The largest piece to send with TLS: one record.
const PIECE_BYTES_MAX: usize = 16 << 10;

/// How long a client may take to receive the remaining output when its connection ends.
const LAST_BYTES: Duration = Duration::from_secs(1);

/// A batch of requests that takes longer makes a connection a slow one. Ordinary batches end after 2 ms.
const SLOW_BATCH: Span = Span::from_ms(3);

/// A connection with this much buffered input counts as slow, too.
const LARGE_INPUT_BYTES: usize = 64 << 10;

#[cfg(test)]
impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// Processes whole requests and discards the replies.
    pub(super) fn feed(&mut self, frames: &[u8]) {
        self.input.extend_from_slice(frames);
        while !self.input.is_empty() {
            let (next, _) = self.handle.advance(&self.shared, &mut self.input, &mut Vec::new());
            assert_eq!(next, Next::Read, "good reads");
            let began = self.shared.clock.now();
            let taken = self.handle.read(&self.shared, &mut self.input);
            let (tally, now) = (&self.shared.status.tally, self.shared.clock.now());
            tally.answered(RequestKind::Read, taken.answered, taken.answered_bytes, began, now);
            tally.reply_sizes(taken.reply_sizes, now);
            tally.received(taken.count, frames.len());
            while !self.handle.take_piece(usize::MAX, self.shared.call_context()).is_empty() {
                self.handle.piece_sent();
            }
        }
    }
}
