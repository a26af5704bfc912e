//! A session that survives broken connections, like that of an application's client.
//!
//! Anyone who holds a [`Session`] can send requests. Each gets an [`Answer`] or a [`Refusal`]; [`Event`]s report what
//! else happens. The session has its own task, because it pings, reconnects and restores watches whether or not
//! requests are sent.
//!
//! Requests are sent in the order given. When a connection breaks, requests in flight fail with [`Refusal::Lost`],
//! because their outcome is unknown; requests that were not sent yet wait for the next connection. The last zxid seen
//! never decreases.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use pole_jute::{ConnectRequest, ErrorCode, GetDataRequest, OpCode, Reply, Request, SetWatches, WatcherEvent, Xid};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::connection::{decode, xid_of};
use super::{Connection, Error};
use crate::rng::Rng;

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
    /// A connection attempt to the server with this index failed. The next server will be tried.
    ConnectFailed(usize),
    /// A watch fired.
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
            rng: Rng::new(first as u64),
            server: first % servers.len(),
            servers,
            timing,
            identity: Identity { id: 0, password: Bytes::from_static(&[0; 16]) },
            last_zxid: 0,
            next_xid: 1,
            requests: incoming,
            in_flight: VecDeque::new(),
            data_watches: BTreeMap::new(),
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
    reply_to: oneshot::Sender<Result<Answer, Refusal>>,
}

/// Identifies a session when it reconnects.
struct Identity {
    id: i64,
    password: Bytes,
}

/// The task that runs a session.
struct SessionTask {
    servers: Vec<SocketAddr>,
    /// The index of the server that we are connected to or try next.
    server: usize,
    /// Chooses the server after that. If all sessions tried the servers in the same order, they would all end up at the
    /// server with the longest uptime and stay there.
    rng: Rng,
    timing: Timing,
    identity: Identity,
    last_zxid: i64,
    next_xid: i32,
    requests: mpsc::UnboundedReceiver<PendingRequest>,
    /// Requests without a reply, by xid, oldest first.
    in_flight: VecDeque<(i32, PendingRequest)>,
    /// Watches that were set by `getData` and have not fired, each with the mzxid that the read saw.
    data_watches: BTreeMap<String, i64>,
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
            for (_, pending) in self.in_flight.drain(..) {
                let _ = pending.reply_to.send(Err(Refusal::Lost));
            }
            match end {
                ServeEnd::Done => return,
                ServeEnd::Broken(why) => self.emit(Event::Disconnected(self.server, why.to_string())),
            }
            self.choose_next_server();
        }
    }

    /// Chooses a random other server, if there is one.
    fn choose_next_server(&mut self) {
        if self.servers.len() > 1 {
            self.server = (self.server + 1 + self.rng.below(self.servers.len() - 1)) % self.servers.len();
        }
    }

    /// Tries one server after the other until one accepts the session. Returns `None` if the session has expired or
    /// all handles were dropped.
    async fn connect(&mut self) -> Option<Connection> {
        loop {
            match Connection::open(self.servers[self.server], &self.connect_request(), self.timing.silence_max).await {
                Ok((mut connection, response)) => {
                    self.identity = Identity { id: response.session_id, password: response.passwd.unwrap_or_default() };
                    self.restore_watches(&mut connection);
                    self.emit(Event::Connected(self.server));
                    return Some(connection);
                }
                Err(Error::Expired) => {
                    self.emit(Event::Expired);
                    return None;
                }
                Err(_) if self.requests.is_closed() => return None,
                Err(_) => {
                    self.emit(Event::ConnectFailed(self.server));
                    self.choose_next_server();
                    sleep(self.timing.reconnect_pause).await;
                }
            }
        }
    }

    fn connect_request(&self) -> ConnectRequest {
        ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.last_zxid,
            timeout: i32::try_from(self.timing.session_timeout.as_millis()).unwrap_or(i32::MAX),
            session_id: self.identity.id,
            passwd: Some(self.identity.password.clone()),
            read_only: Some(false),
        }
    }

    fn restore_watches(&self, connection: &mut Connection) {
        if !self.data_watches.is_empty() {
            let watches = SetWatches {
                relative_zxid: self.last_zxid,
                data_watches: self.data_watches.keys().cloned().collect(),
                exist_watches: Vec::new(),
                child_watches: Vec::new(),
            };
            connection.send(Xid::SET_WATCHES, &Request::SetWatches(watches));
        }
    }

    async fn serve(&mut self, connection: &mut Connection) -> ServeEnd {
        let mut last_received = Instant::now();
        let mut next_ping = last_received + self.timing.silence_max / 3;
        loop {
            // A stopped server also blocks writes, once the socket buffers are full.
            match timeout(self.timing.silence_max, connection.flush()).await {
                Ok(Ok(())) => (),
                Ok(Err(why)) => return ServeEnd::Broken(why),
                Err(_) => return ServeEnd::Broken(Error::Silent(self.timing.silence_max)),
            }
            tokio::select! {
                frame = connection.frame() => {
                    last_received = Instant::now();
                    match frame.and_then(|frame| self.receive(frame)) {
                        Ok(Some(OpCode::CloseSession)) => return ServeEnd::Done,
                        Ok(_) => (),
                        Err(why) => return ServeEnd::Broken(why),
                    }
                }
                request = self.requests.recv() => match request {
                    None => return ServeEnd::Done,
                    Some(request) => self.send(connection, request),
                },
                () = sleep_until(next_ping.min(last_received + self.timing.silence_max)) => {
                    if last_received.elapsed() >= self.timing.silence_max {
                        return ServeEnd::Broken(Error::Silent(self.timing.silence_max));
                    }
                    connection.send(Xid::PING, &Request::Ping);
                    next_ping = Instant::now() + self.timing.silence_max / 3;
                }
            }
        }
    }

    fn send(&mut self, connection: &mut Connection, pending: PendingRequest) {
        let xid = self.next_xid;
        // Negative xids are reserved by the protocol.
        self.next_xid = self.next_xid.checked_add(1).unwrap_or(1);
        connection.send(xid, &pending.request);
        self.in_flight.push_back((xid, pending));
    }

    /// Handles a frame: a watch event, the reply to one of our own pings, or the reply to the oldest request. Returns
    /// the operation of that request.
    fn receive(&mut self, frame: Bytes) -> Result<Option<OpCode>, Error> {
        match xid_of(&frame)? {
            Xid::NOTIFICATION => {
                if let (_, Some(Reply::Notification(event))) = decode(frame, OpCode::Notification)? {
                    self.data_watches.remove(&event.path);
                    self.emit(Event::Watch(event));
                }
                Ok(None)
            }
            Xid::PING | Xid::SET_WATCHES | Xid::AUTH => Ok(None),
            xid => self.complete_oldest(xid, frame).map(Some),
        }
    }

    fn complete_oldest(&mut self, xid: i32, frame: Bytes) -> Result<OpCode, Error> {
        let oldest = self.in_flight.front().filter(|(oldest, _)| *oldest == xid);
        let Some((_, pending)) = oldest else {
            let expected = self.in_flight.front().map_or(0, |(oldest, _)| *oldest);
            return Err(Error::Order { expected, got: xid });
        };
        let op = pending.request.op();
        let (header, body) = decode(frame, op)?;
        let (_, pending) = self.in_flight.pop_front().expect("it was there a moment ago");
        self.last_zxid = self.last_zxid.max(header.zxid);
        if let (Request::GetData(GetDataRequest { path, watch }), Some(Reply::GetData(read))) =
            (&pending.request, &body)
        {
            if self.data_watches.get(path).is_some_and(|seen| *seen < read.stat.mzxid) {
                self.emit(Event::WatchOvertaken(path.clone()));
            }
            if *watch {
                self.data_watches.insert(path.clone(), read.stat.mzxid);
            }
        }
        let answer = match body {
            Some(reply) => Ok(Answer { zxid: header.zxid, reply }),
            None => Err(Refusal::Code(header.err, header.zxid)),
        };
        // The caller may have dropped the future.
        let _ = pending.reply_to.send(answer);
        Ok(op)
    }

    fn emit(&self, event: Event) {
        // The receiver may have been dropped.
        let _ = self.events.send(event);
    }
}

#[cfg(test)]
mod tests;
