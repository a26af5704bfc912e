//! One link: a peer, a channel, and its current connection, if there is one.
//!
//! Connections that passed the handshake, messages to send and resets go in; arrivals go to the inbox. The link is
//! separate from the connection because connections come and go. A task of an old connection holds its number and can
//! so detect that it is not the current one.
//!
//! A link keeps the contract of `node::Event`. It has one connection at a time; a new one ends the old one. Connections
//! are made in `dial` and `listen`.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pole_node::{Channel, Message};
use pole_types::{ServerId, Time};
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::timeout;

use super::codec;
use super::frames::{Frame, FrameError, FrameReader};
use super::hub::Hub;
use super::outgoing::Outgoing;
use super::stream::{ReadSide, Stream, WriteSide};

#[derive(Debug)]
pub(super) struct Link {
    pub(super) peer: ServerId,
    pub(super) channel: Channel,
    connection: RefCell<Option<Connection>>,
    /// The number of connections so far, which is the number of the last one.
    count: Cell<u64>,
    /// Notifies the dialling task that the connection has ended.
    gone: Notify,
    /// When the other end last answered a probe, and a notification of that or of the end of the connection.
    answered: Cell<Option<Instant>>,
    probed: Notify,
}

#[derive(Debug)]
struct Connection {
    number: u64,
    /// The socket that the node's thread writes to directly; `None` with TLS.
    direct: Option<Rc<OwnedWriteHalf>>,
    outgoing: Outgoing,
    /// Wakes the writing task.
    wake: Rc<Notify>,
    tasks: [AbortHandle; 2],
}

/// What a writer has to wait for next.
#[derive(Debug)]
enum WriteState {
    /// A message to write.
    Idle,
    /// Room in the socket.
    Blocked,
    /// The delay of the emulated line.
    Until(Time),
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum LinkError {
    /// Closed by the other end, or replaced by a newer connection, which is not an error.
    #[error("closed by the other end")]
    Closed,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("the peer is too slow: more than {max} bytes wait for it")]
    Slow { max: usize },
}

impl Link {
    pub(super) fn new(peer: ServerId, channel: Channel) -> Self {
        let (connection, count, gone) = (RefCell::new(None), Cell::new(0), Notify::new());
        Self { peer, channel, connection, count, gone, answered: Cell::new(None), probed: Notify::new() }
    }

    /// Whether there is a connection and its other end answers a probe. Used before an unauthenticated connection may
    /// replace the current one: a peer that restarted does not answer on the old connection, a live one does.
    pub(super) async fn is_alive(&self, hub: &Hub) -> bool {
        let started = Instant::now();
        let Some(number) = self.connection.borrow().as_ref().map(|connection| connection.number) else { return false };
        let is_fresh = |since: Instant| self.answered.get().is_some_and(|at| at >= since);
        // Many such connections at once cause one probe only.
        if started.checked_sub(ANSWER_AGE_MAX).is_some_and(is_fresh) {
            return true;
        }
        self.send_control(hub, number, codec::PROBE);
        let answer = async {
            loop {
                let probed = self.probed.notified();
                if !self.is_current(number) {
                    return false;
                }
                if is_fresh(started) {
                    return true;
                }
                probed.await;
            }
        };
        timeout(PROBE_LIMIT, answer).await.unwrap_or(false)
    }

    /// Sends a control frame, which is handled by the link and not by the node.
    fn send_control(&self, hub: &Hub, number: u64, kind: u8) {
        let over = self.with_outgoing(number, |outgoing| {
            outgoing.push_control(kind);
            outgoing.is_over(hub.limits.outgoing_bytes_max)
        });
        match over {
            Ok(true) => self.fail(hub, number, &LinkError::Slow { max: hub.limits.outgoing_bytes_max }),
            Ok(false) => self.flush(hub),
            Err(_) => {}
        }
    }

    /// Installs a connection that passed the handshake. It replaces the current one.
    pub(super) fn install(self: &Rc<Self>, hub: &Rc<Hub>, stream: Stream) {
        self.end(hub);
        let number = self.count.get() + 1;
        self.count.set(number);
        let line = hub.line(self.peer);
        if line.is_some() {
            hub.prepare_for_delay(stream.socket());
        }
        let (read, write) = stream.into_sides();
        let direct = match &write {
            WriteSide::Plain(socket) => Some(Rc::clone(socket)),
            WriteSide::Tls(_) => None,
        };
        let wake = Rc::new(Notify::new());
        let reading = spawn_local(Rc::clone(self).keep_reading(Rc::clone(hub), number, read));
        let writing = spawn_local(Rc::clone(self).keep_writing(Rc::clone(hub), number, write, Rc::clone(&wake)));
        let tasks = [reading.abort_handle(), writing.abort_handle()];
        let outgoing = Outgoing::new(line, hub.is_cut(self.peer), hub.seed(self.peer, number));
        *self.connection.borrow_mut() = Some(Connection { number, direct, outgoing, wake, tasks });
        hub.inbox.up(self.peer, self.channel, number);
    }

    /// Queues a message. It is dropped if there is no connection, and also if the node has not yet learned that the
    /// connection was replaced, because the message is meant for the old one. On the new connection it would arrive
    /// before the first message of the protocol, or after a gap of lost requests.
    pub(super) fn send(&self, hub: &Hub, message: &Message) {
        let mut connection = self.connection.borrow_mut();
        let known = |connection: &&mut Connection| hub.inbox.is_open(self.peer, self.channel, connection.number);
        let over = connection.as_mut().filter(known).is_some_and(|connection| {
            connection.outgoing.push(hub.alarm.now(), message);
            connection.outgoing.is_over(hub.limits.outgoing_bytes_max)
        });
        drop(connection);
        if over {
            self.fail(hub, self.count.get(), &LinkError::Slow { max: hub.limits.outgoing_bytes_max });
        }
    }

    /// Writes as much as the socket accepts now; the task writes the rest.
    pub(super) fn flush(&self, hub: &Hub) {
        let (number, direct, wake) = match &*self.connection.borrow() {
            Some(connection) => (connection.number, connection.direct.clone(), Rc::clone(&connection.wake)),
            None => return,
        };
        let written = match direct {
            Some(socket) => self.write_ready(hub, number, &socket),
            None => return wake.notify_one(),
        };
        match written {
            Ok(WriteState::Idle) => {}
            Ok(WriteState::Blocked | WriteState::Until(_)) => wake.notify_one(),
            Err(error) => self.fail(hub, number, &error),
        }
    }

    /// Closes the link on behalf of the node. Nothing of it arrives any more, and there is no event.
    pub(super) fn reset(&self, hub: &Hub) {
        self.close();
        hub.inbox.forget(self.peer, self.channel);
    }

    /// Applies a change of the emulated line.
    pub(super) fn set_line(&self, hub: &Hub) {
        let line = hub.line(self.peer);
        if let Some(connection) = &mut *self.connection.borrow_mut() {
            connection.outgoing.set_line(line, hub.is_cut(self.peer));
            // What waited while the line was cut can be written now.
            connection.wake.notify_one();
            if let (Some(_), Some(socket)) = (line, &connection.direct) {
                hub.prepare_for_delay((**socket).as_ref());
            }
        }
    }

    /// Whether there is a connection.
    pub(super) fn is_connected(&self) -> bool {
        self.connection.borrow().is_some()
    }

    /// Waits until there is no connection.
    pub(super) async fn gone(&self) {
        while self.connection.borrow().is_some() {
            self.gone.notified().await;
        }
    }

    /// Ends the current connection, if there is one, and reports it to the node.
    pub(super) fn end(&self, hub: &Hub) {
        if self.close() {
            hub.inbox.down(self.peer, self.channel);
        }
    }

    fn fail(&self, hub: &Hub, number: u64, error: &LinkError) {
        if self.is_current(number) {
            if matches!(error, LinkError::Slow { .. }) {
                hub.counters.slow.fetch_add(1, Ordering::Relaxed);
            }
            if !matches!(error, LinkError::Closed) {
                hub.inbox.note(format!("the {} link with server {} broke: {error}", self.name(), self.peer));
            }
            self.end(hub);
        }
    }

    fn close(&self) -> bool {
        let Some(connection) = self.connection.borrow_mut().take() else { return false };
        if let Some(socket) = &connection.direct {
            // The other end should notice at once, not only when the tasks have ended. A failure means that it is
            // closed already.
            let _ = socket2::SockRef::from((**socket).as_ref()).shutdown(std::net::Shutdown::Both);
        }
        connection.tasks.iter().for_each(AbortHandle::abort);
        self.answered.set(None);
        self.probed.notify_waiters();
        self.gone.notify_one();
        true
    }

    fn is_current(&self, number: u64) -> bool {
        self.connection.borrow().as_ref().is_some_and(|connection| connection.number == number)
    }

    /// The name of the channel in messages.
    pub(super) fn name(&self) -> &'static str {
        match self.channel {
            Channel::Election => "election",
            Channel::Quorum => "quorum",
        }
    }

    /// Calls `act` with the output queue of a connection, if that is still the current one.
    fn with_outgoing<T>(&self, number: u64, act: impl FnOnce(&mut Outgoing) -> T) -> Result<T, LinkError> {
        let mut connection = self.connection.borrow_mut();
        let present = connection.as_mut().filter(|connection| connection.number == number);
        present.map(|connection| act(&mut connection.outgoing)).ok_or(LinkError::Closed)
    }

    fn write_ready(&self, hub: &Hub, number: u64, socket: &OwnedWriteHalf) -> Result<WriteState, LinkError> {
        let now = hub.alarm.now();
        self.with_outgoing(number, |outgoing| {
            loop {
                let ready = outgoing.ready(now);
                if ready.is_empty() {
                    return Ok(outgoing.next().map_or(WriteState::Idle, WriteState::Until));
                }
                match socket.try_write(ready) {
                    Ok(0) => return Err(LinkError::Closed),
                    Ok(bytes) => outgoing.written(bytes),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(WriteState::Blocked),
                    Err(error) => return Err(error.into()),
                }
            }
        })?
    }

    async fn keep_writing(self: Rc<Self>, hub: Rc<Hub>, number: u64, side: WriteSide, wake: Rc<Notify>) {
        let result = match side {
            WriteSide::Plain(socket) => self.write_plain(&hub, number, &socket, &wake).await,
            WriteSide::Tls(mut stream) => self.write_tls(&hub, number, &mut stream, &wake).await,
        };
        if let Err(error) = result {
            self.fail(&hub, number, &error);
        }
    }

    async fn write_plain(
        &self,
        hub: &Hub,
        number: u64,
        socket: &OwnedWriteHalf,
        wake: &Notify,
    ) -> Result<(), LinkError> {
        loop {
            match self.write_ready(hub, number, socket)? {
                WriteState::Idle => wake.notified().await,
                WriteState::Blocked => socket.writable().await?,
                WriteState::Until(at) => hub.alarm.sleep_until(at).await,
            }
        }
    }

    async fn write_tls(
        &self,
        hub: &Hub,
        number: u64,
        stream: &mut (impl AsyncWriteExt + Unpin),
        wake: &Notify,
    ) -> Result<(), LinkError> {
        loop {
            let now = hub.alarm.now();
            let (ready, next) = self.with_outgoing(number, |outgoing| (outgoing.take(now), outgoing.next()))?;
            if !ready.is_empty() {
                stream.write_all(&ready).await?;
                stream.flush().await?;
                continue;
            }
            match next {
                None => wake.notified().await,
                Some(at) => hub.alarm.sleep_until(at).await,
            }
        }
    }

    async fn keep_reading(self: Rc<Self>, hub: Rc<Hub>, number: u64, mut side: ReadSide) {
        let error = match self.read_frames(&hub, number, &mut side).await {
            Ok(never) => match never {},
            Err(error) => error,
        };
        self.fail(&hub, number, &error);
    }

    async fn read_frames(
        &self,
        hub: &Hub,
        number: u64,
        side: &mut ReadSide,
    ) -> Result<std::convert::Infallible, LinkError> {
        let mut frames = FrameReader::new(self.channel, hub.limits.frame_bytes_max);
        loop {
            hub.inbox.room().await;
            if side.read(frames.buffer()).await? == 0 || !self.is_current(number) {
                return Err(LinkError::Closed);
            }
            while let Some(frame) = frames.next_frame()? {
                match frame {
                    Frame::Message { message, bytes } => hub.inbox.received(self.peer, self.channel, message, bytes),
                    Frame::Probe => {
                        self.send_control(hub, number, codec::PROBE_ANSWER);
                        // Sending the answer may have ended the connection. Then the rest of its messages must be
                        // dropped, since `Down` is already queued.
                        if !self.is_current(number) {
                            return Err(LinkError::Closed);
                        }
                    }
                    Frame::ProbeAnswer => {
                        self.answered.set(Some(Instant::now()));
                        self.probed.notify_waiters();
                    }
                }
            }
        }
    }
}

/// Timeout of a probe, longer than the round trips that failure detection tolerates; see `pole.livenessTimeoutMs`.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// How long an answered probe counts as proof that the link is alive.
const ANSWER_AGE_MAX: Duration = Duration::from_millis(500);
