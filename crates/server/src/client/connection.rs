//! A client's connection: from its first bytes to its last.
//!
//! In: bytes. Out: what becomes of them, until the connection ends or moves to another thread.
//! Holds: nothing is read beyond what may be under way; every connection that was announced to the node is also taken
//! back from it.
//! Not here: sockets and TLS (`listener`), sessions (`node`), the words of four letters (`words`).

mod opening;
mod requests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::BytesMut;
use pole_jute::Deframer;
use pole_node::Event;
use pole_tree::Caller;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::habit::Habit;
use super::handle::{Handle, State, Waiting};
use crate::mailbox::Letter;
use crate::shared::Shared;
pub(crate) use opening::connect_response;

/// The task of one connection.
pub(crate) struct Connection<R, W> {
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    reader: R,
    /// With TLS, the writing half; otherwise the handle writes.
    writer: Option<W>,
    arrived: BytesMut,
    deframer: Deframer,
    caller: Caller,
    /// The node has heard of it, and must hear of its end.
    has_session: bool,
    /// There is no quorum, and the client only reads.
    read_only: bool,
    /// Where it would be served best.
    pub(super) habit: Habit,
    /// For the node, of one batch; kept for its memory.
    letters: Vec<Letter>,
    waiting: Vec<Waiting>,
    /// Answers of one batch.
    replies: BytesMut,
}

/// What became of a connection.
pub(crate) enum Outcome<C> {
    /// It ended.
    Ended(End),
    /// It is to be served on another thread.
    Moves(C),
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    #[error("closed by the client")]
    ByClient,
    #[error("{0}")]
    ByUs(&'static str),
    #[error("{0}")]
    Socket(#[from] std::io::Error),
    #[error("{0}")]
    Frame(#[from] pole_jute::FrameError),
    #[error("{0}")]
    Record(#[from] pole_jute::Error),
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    pub(crate) fn new(shared: Arc<Shared>, handle: Arc<Handle>, reader: R, writer: Option<W>, caller: Caller) -> Self {
        let deframer = Deframer::new(shared.settings.frame_bytes_max);
        Self {
            shared,
            handle,
            reader,
            writer,
            arrived: BytesMut::with_capacity(READ_BYTES),
            deframer,
            caller,
            has_session: false,
            read_only: false,
            habit: Habit::default(),
            letters: Vec::new(),
            waiting: Vec::new(),
            replies: BytesMut::new(),
        }
    }

    /// Serves the client until the connection ends, or would better be served on another thread.
    pub(crate) async fn run(mut self) -> Outcome<Self> {
        let served = match self.has_session {
            true => self.serve_session().await,
            false => self.begin().await,
        };
        match served {
            Ok(()) => Outcome::Moves(self),
            Err(end) => {
                self.say_the_rest().await;
                Outcome::Ended(end)
            }
        }
    }

    /// Returns when the connection moves; if it ends, the node hears of it.
    async fn serve_session(&mut self) -> Result<(), End> {
        let served = match self.attached().await {
            Ok(()) => self.serve().await,
            Err(end) => Err(end),
        };
        if served.is_err() {
            self.take_back();
        }
        served
    }

    /// Returns when it would better be served elsewhere.
    async fn serve(&mut self) -> Result<(), End> {
        loop {
            self.handle_arrived().await?;
            if self.habit.is_to_move() {
                return Ok(());
            }
            self.wait().await?;
            if self.read_only && !self.shared.is_read_only() {
                return Err(End::ByUs("there is a quorum again"));
            }
        }
    }

    /// Waits for something to do: bytes, room in the socket, or a word from the node.
    async fn wait(&mut self) -> Result<(), End> {
        if self.handle.is_held() {
            self.wait_for_belief().await?;
            self.flush();
        }
        if let Some(writer) = &mut self.writer {
            let unsent = self.handle.take_unsent(self.shared.clock.now(), self.shared.confirmed());
            if !unsent.is_empty() {
                writer.write_all(&unsent).await?;
                writer.flush().await?;
            }
        }
        match self.handle.state() {
            State::Connecting | State::Open => {}
            State::Closing(reason) => return Err(End::ByUs(reason)),
            State::Broken => return Err(End::ByUs("the client does not read")),
        }
        let has_room = self.handle.has_room();
        if has_room && self.arrived.capacity() - self.arrived.len() < READ_BYTES / 4 {
            self.arrived.reserve(READ_BYTES);
        }
        tokio::select! {
            () = self.handle.wake.notified() => {}
            () = self.handle.has_drained() => self.flush(),
            () = self.shared.status.role_changed.notified(), if self.read_only => {}
            read = self.reader.read_buf(&mut self.arrived), if has_room => {
                if read? == 0 {
                    return Err(End::ByClient);
                }
            }
        }
        Ok(())
    }

    /// Handles the whole frames that have arrived, as far as there is room for what they ask.
    async fn handle_arrived(&mut self) -> Result<(), End> {
        while self.deframer.has_frame(&self.arrived)? && self.handle.has_room() {
            if !self.read_only {
                let heard = self.shared.touch(&self.handle);
                self.handle.with_lease(|lease| lease.hear(heard));
                self.wait_for_belief().await?;
                self.wait_for_room().await?;
            }
            self.handle_batch()?;
            self.flush();
        }
        Ok(())
    }

    /// Sends what there is.
    fn flush(&self) {
        self.handle.flush(self.shared.clock.now(), self.shared.confirmed());
    }

    /// Holds the client's requests while it must not be told that all is well.
    async fn wait_for_belief(&mut self) -> Result<(), End> {
        loop {
            let anew = self.shared.confirmed_anew.notified();
            let (now, confirmed) = (self.shared.clock.now(), self.shared.confirmed());
            match self.handle.with_lease(|lease| (lease.allows(now, confirmed), lease.is_known())) {
                None | Some((true, _)) => return Ok(()),
                Some((false, false)) => {}
                Some((false, true)) => {
                    let heard = self.shared.touch(&self.handle);
                    self.handle.with_lease(|lease| lease.hear(heard));
                }
            }
            tokio::select! {
                () = anew => {}
                () = self.handle.wake.notified() => {
                    if let State::Closing(reason) = self.handle.state() {
                        return Err(End::ByUs(reason));
                    }
                }
            }
        }
    }

    /// Holds the client's requests while the server has too many under way.
    async fn wait_for_room(&mut self) -> Result<(), End> {
        loop {
            let room = self.shared.room.notified();
            if self.shared.outstanding.load(Ordering::Acquire) < self.shared.settings.outstanding_max {
                return Ok(());
            }
            tokio::select! {
                () = room => {}
                () = self.handle.wake.notified() => {
                    if let State::Closing(reason) = self.handle.state() {
                        return Err(End::ByUs(reason));
                    }
                }
            }
        }
    }

    /// The last words, if the client still listens, within a time limit.
    async fn say_the_rest(mut self) {
        let rest = self.handle.take_unsent(self.shared.clock.now(), self.shared.confirmed());
        let _ = timeout(LAST_WORDS, async {
            match (&mut self.writer, rest.is_empty()) {
                (Some(writer), _) => {
                    writer.write_all(&rest).await?;
                    writer.shutdown().await
                }
                (None, false) => self.handle.send_last(&rest).await,
                (None, true) => Ok(()),
            }
        })
        .await;
    }
}

impl<R, W> Connection<R, W> {
    /// The node hears that the connection is no more.
    pub(super) fn take_back(&self) {
        self.shared.clients.lock().remove(&self.handle.id);
        self.shared.settled(self.handle.drop_waiting());
        self.shared.mailbox.post(Letter::Event(Event::Detach { client: self.handle.id }));
    }

    /// The same connection with another reader, and the one that it had.
    pub(super) fn exchange_reader<S>(self, reader: S) -> (R, Connection<S, W>) {
        let Self { shared, handle, reader: before, writer, arrived, deframer, caller, .. } = self;
        let Self { has_session, read_only, habit, letters, waiting, replies, .. } = self;
        let after = Connection {
            shared,
            handle,
            reader,
            writer,
            arrived,
            deframer,
            caller,
            has_session,
            read_only,
            habit,
            letters,
            waiting,
            replies,
        };
        (before, after)
    }
}

/// What is read at once: sixteen requests of a kilobyte, or one small one of an idle client.
const READ_BYTES: usize = 8 << 10;

/// How long a client that is sent away may take to hear it.
const LAST_WORDS: Duration = Duration::from_secs(1);

#[cfg(test)]
impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// Whole frames arrive, are handled, and the answers are taken.
    pub(super) fn feed(&mut self, frames: &[u8]) {
        self.arrived.extend_from_slice(frames);
        self.handle_batch().expect("good requests");
        drop(self.handle.take_unsent(self.shared.clock.now(), self.shared.confirmed()));
    }
}
