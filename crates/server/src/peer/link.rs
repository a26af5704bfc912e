//! One link: a peer, a channel, and the connection that carries it now, if one does.
//!
//! In: connections that passed the handshake, messages to send, resets. Out: arrivals in the inbox.
//! Why apart from the connection: connections come and go, the link stays; a task of an old connection that still runs
//! holds its number and finds that it is no longer the one.
//! Holds: the contract of `node::Event` on links. One connection at a time; a new one ends the old one.
//! Not here: how connections come about (`dial`, `listen`).

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pole_election::ServerId;
use pole_node::{Channel, Message};
use pole_oracle::Time;
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
    /// Numbers the connections.
    count: Cell<u64>,
    /// Tells whoever dials that the connection is gone.
    gone: Notify,
    /// When the other end last answered a probe, and wakes who waits for that or for the end of the connection.
    answered: Cell<Option<Instant>>,
    probed: Notify,
}

#[derive(Debug)]
struct Connection {
    number: u64,
    /// What the node's loop writes to by itself.
    direct: Option<Rc<OwnedWriteHalf>>,
    outgoing: Outgoing,
    /// Tells the writing task that there is something to do.
    wake: Rc<Notify>,
    tasks: [AbortHandle; 2],
}

/// What a writer has to wait for.
#[derive(Debug)]
enum Pumped {
    /// Something to write.
    Nothing,
    /// Room in the socket.
    Blocked,
    /// The emulated line.
    Until(Time),
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum Broken {
    /// The other end closed it, or a newer one replaced it: no error.
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

    /// Whether there is a connection and its other end answers. Asked before a connection of which nobody knows whose it is
    /// may take its place: a peer that restarted does not answer on the old one, a living one does.
    pub(super) async fn is_alive(&self, hub: &Hub) -> bool {
        let asked = Instant::now();
        let Some(number) = self.connection.borrow().as_ref().map(|connection| connection.number) else { return false };
        let is_fresh = |since: Instant| self.answered.get().is_some_and(|at| at >= since);
        // Many strangers at once make one probe.
        if asked.checked_sub(ANSWER_AGE_MAX).is_some_and(is_fresh) {
            return true;
        }
        self.control(hub, number, codec::PROBE);
        let answer = async {
            loop {
                let probed = self.probed.notified();
                if !self.is_current(number) {
                    return false;
                }
                if is_fresh(asked) {
                    return true;
                }
                probed.await;
            }
        };
        timeout(PROBE_LIMIT, answer).await.unwrap_or(false)
    }

    /// Sends a frame of the link's own, which is no message of the node.
    fn control(&self, hub: &Hub, number: u64, kind: u8) {
        let over = self.with_outgoing(number, |outgoing| {
            outgoing.push_control(kind);
            outgoing.is_over(hub.limits.outgoing_bytes_max)
        });
        match over {
            Ok(true) => self.broken(hub, number, &Broken::Slow { max: hub.limits.outgoing_bytes_max }),
            Ok(false) => self.flush(hub),
            Err(_) => {}
        }
    }

    /// A connection that passed the handshake. It takes the place of the one before it.
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
        let outgoing = Outgoing::new(line, hub.seed(self.peer, number));
        *self.connection.borrow_mut() = Some(Connection { number, direct, outgoing, wake, tasks });
        hub.inbox.up(self.peer, self.channel, number);
    }

    /// Queues a message. Without a connection it is lost, as a link that is down loses. So is what the node says before it
    /// has heard that the connection was replaced: it is meant for the old one. On the new one it would come before the
    /// greeting of the protocol, and a later request before the earlier ones that were lost.
    pub(super) fn send(&self, hub: &Hub, message: &Message) {
        let mut connection = self.connection.borrow_mut();
        let known = |connection: &&mut Connection| hub.inbox.is_open(self.peer, self.channel, connection.number);
        let over = connection.as_mut().filter(known).is_some_and(|connection| {
            connection.outgoing.push(hub.alarm.now(), message);
            connection.outgoing.is_over(hub.limits.outgoing_bytes_max)
        });
        drop(connection);
        if over {
            self.broken(hub, self.count.get(), &Broken::Slow { max: hub.limits.outgoing_bytes_max });
        }
    }

    /// Writes what the socket takes now; the task does the rest.
    pub(super) fn flush(&self, hub: &Hub) {
        let (number, direct, wake) = match &*self.connection.borrow() {
            Some(connection) => (connection.number, connection.direct.clone(), Rc::clone(&connection.wake)),
            None => return,
        };
        let pumped = match direct {
            Some(socket) => self.pump(hub, number, &socket),
            None => return wake.notify_one(),
        };
        match pumped {
            Ok(Pumped::Nothing) => {}
            Ok(Pumped::Blocked | Pumped::Until(_)) => wake.notify_one(),
            Err(why) => self.broken(hub, number, &why),
        }
    }

    /// The node closes the link: nothing of it arrives any more, and no event says so.
    pub(super) fn reset(&self, hub: &Hub) {
        self.close();
        hub.inbox.forget(self.peer, self.channel);
    }

    /// The line changed.
    pub(super) fn set_line(&self, hub: &Hub) {
        let line = hub.line(self.peer);
        if let Some(connection) = &mut *self.connection.borrow_mut() {
            connection.outgoing.set_line(line);
            if let (Some(_), Some(socket)) = (line, &connection.direct) {
                hub.prepare_for_delay((**socket).as_ref());
            }
        }
    }

    /// Waits until there is no connection.
    pub(super) async fn gone(&self) {
        while self.connection.borrow().is_some() {
            self.gone.notified().await;
        }
    }

    /// The present connection, if there is one, ends, and the node hears of it.
    pub(super) fn end(&self, hub: &Hub) {
        if self.close() {
            hub.inbox.down(self.peer, self.channel);
        }
    }

    fn broken(&self, hub: &Hub, number: u64, why: &Broken) {
        if self.is_current(number) {
            if matches!(why, Broken::Slow { .. }) {
                hub.counters.slow.fetch_add(1, Ordering::Relaxed);
            }
            if !matches!(why, Broken::Closed) {
                hub.inbox.note(format!("the {} link with server {} broke: {why}", self.name(), self.peer));
            }
            self.end(hub);
        }
    }

    fn close(&self) -> bool {
        let Some(connection) = self.connection.borrow_mut().take() else { return false };
        if let Some(socket) = &connection.direct {
            // At once, so that the other end hears of it before the tasks are gone. If it fails, it is closed already.
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

    /// What the operator calls the channel.
    pub(super) fn name(&self) -> &'static str {
        match self.channel {
            Channel::Election => "election",
            Channel::Quorum => "quorum",
        }
    }

    /// What `act` finds in the outgoing messages of a connection that is still the present one.
    fn with_outgoing<T>(&self, number: u64, act: impl FnOnce(&mut Outgoing) -> T) -> Result<T, Broken> {
        let mut connection = self.connection.borrow_mut();
        let present = connection.as_mut().filter(|connection| connection.number == number);
        present.map(|connection| act(&mut connection.outgoing)).ok_or(Broken::Closed)
    }

    fn pump(&self, hub: &Hub, number: u64, socket: &OwnedWriteHalf) -> Result<Pumped, Broken> {
        let now = hub.alarm.now();
        self.with_outgoing(number, |outgoing| {
            loop {
                let ready = outgoing.ready(now);
                if ready.is_empty() {
                    return Ok(outgoing.next().map_or(Pumped::Nothing, Pumped::Until));
                }
                match socket.try_write(ready) {
                    Ok(0) => return Err(Broken::Closed),
                    Ok(bytes) => outgoing.written(bytes),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Pumped::Blocked),
                    Err(error) => return Err(error.into()),
                }
            }
        })?
    }

    async fn keep_writing(self: Rc<Self>, hub: Rc<Hub>, number: u64, side: WriteSide, wake: Rc<Notify>) {
        let why = match side {
            WriteSide::Plain(socket) => self.write_plain(&hub, number, &socket, &wake).await,
            WriteSide::Tls(mut stream) => self.write_tls(&hub, number, &mut stream, &wake).await,
        };
        if let Err(why) = why {
            self.broken(&hub, number, &why);
        }
    }

    async fn write_plain(&self, hub: &Hub, number: u64, socket: &OwnedWriteHalf, wake: &Notify) -> Result<(), Broken> {
        loop {
            match self.pump(hub, number, socket)? {
                Pumped::Nothing => wake.notified().await,
                Pumped::Blocked => socket.writable().await?,
                Pumped::Until(at) => hub.alarm.sleep_until(at).await,
            }
        }
    }

    async fn write_tls(
        &self,
        hub: &Hub,
        number: u64,
        stream: &mut (impl AsyncWriteExt + Unpin),
        wake: &Notify,
    ) -> Result<(), Broken> {
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
        let why = match self.read_until_broken(&hub, number, &mut side).await {
            Ok(never) => match never {},
            Err(why) => why,
        };
        self.broken(&hub, number, &why);
    }

    async fn read_until_broken(
        &self,
        hub: &Hub,
        number: u64,
        side: &mut ReadSide,
    ) -> Result<std::convert::Infallible, Broken> {
        let mut frames = FrameReader::new(self.channel, hub.limits.frame_bytes_max);
        loop {
            hub.inbox.room().await;
            if side.read(frames.buffer()).await? == 0 || !self.is_current(number) {
                return Err(Broken::Closed);
            }
            while let Some(frame) = frames.next_frame()? {
                match frame {
                    Frame::Message { message, bytes } => hub.inbox.received(self.peer, self.channel, message, bytes),
                    Frame::Probe => {
                        self.control(hub, number, codec::PROBE_ANSWER);
                        // The answer may have found the connection broken. What else it brought comes too late then: the node
                        // is told of its end.
                        if !self.is_current(number) {
                            return Err(Broken::Closed);
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

/// How long a probe may take: a round trip that is longer than failure detection tolerates, see `pole.livenessTimeoutMs`.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// For so long the answer to a probe stands for a link that is alive.
const ANSWER_AGE_MAX: Duration = Duration::from_millis(500);
