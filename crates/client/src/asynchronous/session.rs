//! A session that survives broken connections, like that of an application's client.
//!
//! Anyone who holds a [`Session`] can send requests. Each gets an [`Answer`] or a [`Refusal`]; [`Event`]s report what
//! else happens. The session has its own task, because it pings, reconnects and restores watches whether or not
//! requests are sent.
//!
//! Requests are sent in the order given. When a connection breaks, requests in flight fail with [`Refusal::Lost`],
//! because their outcome is unknown; requests that were not sent yet wait for the next connection. The last zxid seen
//! never decreases.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use pole_jute::{ErrorCode, OpCode, Reply, Request, WatcherEvent};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Connection;
use crate::{Due, Error, KeepAlive, Received, SessionState};

/// A handle to a session. Clones refer to the same session. When the last handle is dropped, the connection is closed
/// without closing the session, which then expires.
#[derive(Clone, Debug)]
pub struct Session {
    requests: mpsc::UnboundedSender<PendingRequest>,
}

/// The timeouts of a session.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The requested session timeout. The server may grant another.
    pub session_timeout: Duration,
    /// A connection on which nothing arrives for this long is dropped. Pings are sent three times as often.
    pub silence_max: Duration,
    /// The pause between two connection attempts. The Apache client waits a random time of up to a second.
    pub reconnect_pause: Duration,
}

/// A successful reply.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The zxid in the header: of a write, its transaction; of a read, the last transaction that it saw.
    pub zxid: i64,
    /// The body of the reply.
    pub reply: Reply,
}

/// The reason why a request has no successful reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The server replied with this error, at this zxid.
    Code(ErrorCode, i64),
    /// The connection broke after the request was sent. It may have taken effect, or may still do so.
    Lost,
    /// The session is over, and the request was not sent.
    Expired,
}

/// Something that happened to a session.
#[derive(Clone, Debug)]
pub enum Event {
    /// The session is connected to the server with this index.
    Connected(usize),
    /// The connection to the server with this index broke, for this reason.
    Disconnected(usize, String),
    /// A connection attempt failed. The next server will be tried.
    ConnectFailed {
        /// The index of the server.
        server: usize,
        /// Whether a server accepted the connection. It may have no quorum then.
        is_reached: bool,
        /// The reason, for people.
        why: String,
    },
    /// A watch fired, or was removed.
    Watch(WatcherEvent),
    /// A read saw a change of this node before the event of the watch on it arrived. The protocol forbids that.
    WatchOvertaken(String),
    /// The session has expired.
    Expired,
}

impl Session {
    /// Opens a session. It begins with the server at `first` (modulo their number) and goes on to random others until
    /// one accepts it.
    ///
    /// Must be called on a `LocalSet`. The channel of events is unbounded, so the caller should read or drop it.
    pub fn open(servers: Vec<SocketAddr>, first: usize, timing: Timing) -> (Self, mpsc::UnboundedReceiver<Event>) {
        let (requests, incoming) = mpsc::unbounded_channel();
        let (events, event_receiver) = mpsc::unbounded_channel();
        let task = SessionTask {
            order: ServerOrder::new(servers.len(), first),
            servers,
            timing,
            state: SessionState::new(timing.session_timeout),
            requests: incoming,
            events,
        };
        tokio::task::spawn_local(task.run());
        (Self { requests }, event_receiver)
    }

    /// Sends a request and returns a future of its answer. Requests are sent in the order of these calls, whether or
    /// not the futures are polled.
    pub fn ask(&self, request: Request) -> impl Future<Output = Result<Answer, Refusal>> + use<> {
        let (reply_to, answer) = oneshot::channel();
        // A session that is over drops new and queued requests, which resolves them to `Expired`.
        let _ = self.requests.send(PendingRequest { request, reply_to });
        async move { answer.await.unwrap_or(Err(Refusal::Expired)) }
    }
}

struct PendingRequest {
    request: Request,
    reply_to: ReplyTo,
}

type ReplyTo = oneshot::Sender<Result<Answer, Refusal>>;

/// The task that runs a session.
struct SessionTask {
    servers: Vec<SocketAddr>,
    order: ServerOrder,
    timing: Timing,
    state: SessionState<ReplyTo>,
    requests: mpsc::UnboundedReceiver<PendingRequest>,
    events: mpsc::UnboundedSender<Event>,
}

/// The reason why [`SessionTask::serve`] ended.
enum ServeEnd {
    /// The last handle was dropped, or the session was closed.
    Done,
    Broken(Error),
}

impl SessionTask {
    async fn run(mut self) {
        while let Some(mut connection) = self.connect().await {
            let end = self.serve(&mut connection).await;
            for reply_to in self.state.disconnected() {
                let _ = reply_to.send(Err(Refusal::Lost));
            }
            match end {
                ServeEnd::Done => return,
                ServeEnd::Broken(why) => self.emit(Event::Disconnected(self.order.current, why.to_string())),
            }
            self.order.choose_next();
        }
    }

    /// Tries one server after the other until one accepts the session. Returns `None` if the session has expired or
    /// all handles were dropped.
    async fn connect(&mut self) -> Option<Connection> {
        loop {
            let (server, request) = (self.order.current, self.state.connect_request());
            match Connection::open(self.servers[server], &request, self.timing.silence_max).await {
                Ok((mut connection, response)) => {
                    self.state.accepted(response, connection.frames());
                    self.emit(Event::Connected(server));
                    return Some(connection);
                }
                Err(Error::Expired) => {
                    self.emit(Event::Expired);
                    return None;
                }
                Err(_) if self.requests.is_closed() => return None,
                Err(why) => {
                    let is_reached = !matches!(why, Error::Io(_));
                    self.emit(Event::ConnectFailed { server, is_reached, why: why.to_string() });
                    self.order.choose_next();
                    sleep(self.timing.reconnect_pause).await;
                }
            }
        }
    }

    async fn serve(&mut self, connection: &mut Connection) -> ServeEnd {
        let mut timers = KeepAlive::new(self.timing.silence_max, Instant::now().into());
        loop {
            let wake = match timers.due(Instant::now().into()) {
                Due::Silent => return ServeEnd::Broken(Error::Silent(self.timing.silence_max)),
                Due::Ping => {
                    self.state.ping(connection.frames());
                    continue;
                }
                Due::At(time) => time,
            };
            // A stopped server also blocks writes, once the socket buffers are full.
            match timeout(self.timing.silence_max, connection.flush()).await {
                Ok(Ok(())) => (),
                Ok(Err(why)) => return ServeEnd::Broken(why),
                Err(_) => return ServeEnd::Broken(Error::Silent(self.timing.silence_max)),
            }
            tokio::select! {
                frame = connection.frame() => {
                    timers.received(Instant::now().into());
                    match frame.and_then(|frame| self.receive(frame)) {
                        Ok(Some(OpCode::CloseSession)) => return ServeEnd::Done,
                        Ok(_) => (),
                        Err(why) => return ServeEnd::Broken(why),
                    }
                }
                request = self.requests.recv() => match request {
                    None => return ServeEnd::Done,
                    Some(PendingRequest { request, reply_to }) => {
                        self.state.send(connection.frames(), request, reply_to);
                    }
                },
                () = sleep_until(wake.into()) => (),
            }
        }
    }

    /// Handles a frame. Returns the operation that it completes.
    fn receive(&mut self, frame: Bytes) -> Result<Option<OpCode>, Error> {
        match self.state.receive(frame)? {
            Received::Nothing => Ok(None),
            Received::Event(event) => {
                self.emit(Event::Watch(event));
                Ok(None)
            }
            Received::Reply(done) => {
                let op = done.request.op();
                if let (true, Request::GetData(read)) = (done.overtook_watch, done.request) {
                    self.emit(Event::WatchOvertaken(read.path));
                }
                done.removed_watches.into_iter().for_each(|event| self.emit(Event::Watch(event)));
                let zxid = done.zxid;
                let answer = done.result.map(|reply| Answer { zxid, reply }).map_err(|code| Refusal::Code(code, zxid));
                // The caller may have dropped the future.
                let _ = done.tag.send(answer);
                Ok(Some(op))
            }
        }
    }

    fn emit(&self, event: Event) {
        // The receiver may have been dropped.
        let _ = self.events.send(event);
    }
}

/// Chooses servers in a random order. If all sessions tried the servers in the same order, they would all end up at
/// the server with the longest uptime and stay there.
struct ServerOrder {
    count: usize,
    /// The index of the server that we are connected to or try next.
    current: usize,
    /// A xorshift generator (Marsaglia).
    random: u64,
}

impl ServerOrder {
    fn new(count: usize, first: usize) -> Self {
        // The state must not be 0, and consecutive numbers should not produce similar sequences.
        Self { count, current: first % count, random: (first as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// Chooses a random other server, if there is one.
    fn choose_next(&mut self) {
        if self.count > 1 {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            self.current = (self.current + 1 + (self.random >> 11) as usize % (self.count - 1)) % self.count;
        }
    }
}

#[cfg(test)]
mod tests;
