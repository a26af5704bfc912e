//! A session that lives on when its connection breaks, as the client of an application keeps it.
//!
//! In: requests, from anyone who holds the [`Session`]. Out: an [`Answer`] to each, and [`Event`]s.
//! Why a task of its own: it pings, reconnects and sets watches again whether or not anybody asks for something.
//! Holds: requests are sent in the order given. When a connection breaks, those under way are answered `Lost`, for
//! nobody knows; those not sent yet wait for the next connection. The last zxid seen never goes back.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use pole_jute::{ConnectRequest, ErrorCode, GetDataRequest, OpCode, Reply, Request, SetWatches, WatcherEvent, Xid};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::connection::{decode, xid_of};
use super::{Connection, Error};
use crate::dice::Dice;

/// To ask something in a session. Clones ask in the same one. It is left without a word when the last one is gone.
#[derive(Clone, Debug)]
pub struct Session {
    requests: mpsc::UnboundedSender<Asked>,
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// What is asked for; the server may say otherwise.
    pub session_timeout: Duration,
    /// A connection on which nothing comes for so long is given up. Pings go three times as often.
    pub silence_max: Duration,
    /// Between two attempts to connect. Apache's own client waits up to a second, at random.
    pub reconnect_pause: Duration,
}

/// A reply that says yes.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Of the header: the transaction of a write; of a read, the last one that it saw.
    pub zxid: i64,
    /// The body.
    pub reply: Reply,
}

/// Why there is no reply that says yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The server said no, in this transaction.
    Code(ErrorCode, i64),
    /// The connection broke after the request was sent. It may have happened, or may yet.
    Lost,
    /// The session is over, and the request was not sent.
    Expired,
}

/// What happened to a session.
#[derive(Clone, Debug)]
pub enum Event {
    /// It has a connection, to the server with this index.
    Connected(usize),
    /// The connection to the server with this index broke.
    Disconnected(usize, String),
    /// A server did not take it; the next will be tried.
    NotTaken(usize),
    /// A watch has seen something.
    Watch(WatcherEvent),
    /// A read saw a change of this node before the watch on it told of the change.
    Overtaken(String),
    /// It is over.
    Expired,
}

impl Session {
    /// Opens a session at the first of these servers that takes it, beginning with the one at `first`, counted round and round: in
    /// every other round it goes on to the server before, not to the one after.
    ///
    /// Has to be called on a `LocalSet`. Events that nobody takes are kept: take them.
    pub fn open(servers: Vec<SocketAddr>, first: usize, timing: Timing) -> (Self, mpsc::UnboundedReceiver<Event>) {
        let (requests, asked) = mpsc::unbounded_channel();
        let (events, happened) = mpsc::unbounded_channel();
        let keeper = Keeper {
            dice: Dice::new(first as u64),
            at: first % servers.len(),
            servers,
            timing,
            identity: Identity { id: 0, password: Bytes::from_static(&[0; 16]) },
            last_zxid: 0,
            next_xid: 1,
            asked,
            under_way: VecDeque::new(),
            data_watches: BTreeMap::new(),
            events,
        };
        tokio::task::spawn_local(keeper.run());
        (Self { requests }, happened)
    }

    /// Asks. The answer comes when it comes; requests are sent in the order of these calls.
    pub fn ask(&self, request: Request) -> impl Future<Output = Result<Answer, Refusal>> + use<> {
        let (reply_to, answer) = oneshot::channel();
        // A session that is over drops both what it is sent and what it holds, which is the answer `Expired`.
        let _ = self.requests.send(Asked { request, reply_to });
        async move { answer.await.unwrap_or(Err(Refusal::Expired)) }
    }
}

struct Asked {
    request: Request,
    reply_to: oneshot::Sender<Result<Answer, Refusal>>,
}

/// What makes a session the same one at another server.
struct Identity {
    id: i64,
    password: Bytes,
}

/// The task behind a session.
struct Keeper {
    servers: Vec<SocketAddr>,
    /// The server that we are connected to, or try next.
    at: usize,
    /// Says which comes after that. Sessions that all went the same way would meet on the server that has lived the
    /// longest, and never part again.
    dice: Dice,
    timing: Timing,
    identity: Identity,
    last_zxid: i64,
    next_xid: i32,
    asked: mpsc::UnboundedReceiver<Asked>,
    under_way: VecDeque<(i32, Asked)>,
    /// Set by reads of data and not fired yet, with the transaction of the data that the read saw.
    data_watches: BTreeMap<String, i64>,
    events: mpsc::UnboundedSender<Event>,
}

/// Why a connection was left.
enum Left {
    /// Nobody holds the session any more, or it was closed.
    Done,
    /// It broke.
    Broken(Error),
}

impl Keeper {
    async fn run(mut self) {
        while let Some(mut connection) = self.connect().await {
            let left = self.serve(&mut connection).await;
            for (_, asked) in self.under_way.drain(..) {
                let _ = asked.reply_to.send(Err(Refusal::Lost));
            }
            match left {
                Left::Done => return,
                Left::Broken(why) => self.tell(Event::Disconnected(self.at, why.to_string())),
            }
            self.goes_on();
        }
    }

    /// Another server is the next one, if there is another.
    fn goes_on(&mut self) {
        if self.servers.len() > 1 {
            self.at = (self.at + 1 + self.dice.below(self.servers.len() - 1)) % self.servers.len();
        }
    }

    /// Tries one server after the other until one takes the session; none if it is over or nobody wants it.
    async fn connect(&mut self) -> Option<Connection> {
        loop {
            match Connection::open(self.servers[self.at], &self.introduction(), self.timing.silence_max).await {
                Ok((mut connection, response)) => {
                    self.identity = Identity { id: response.session_id, password: response.passwd.unwrap_or_default() };
                    self.watch_again(&mut connection);
                    self.tell(Event::Connected(self.at));
                    return Some(connection);
                }
                Err(Error::Expired) => {
                    self.tell(Event::Expired);
                    return None;
                }
                Err(_) if self.asked.is_closed() => return None,
                Err(_) => {
                    self.tell(Event::NotTaken(self.at));
                    self.goes_on();
                    sleep(self.timing.reconnect_pause).await;
                }
            }
        }
    }

    fn introduction(&self) -> ConnectRequest {
        ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.last_zxid,
            timeout: i32::try_from(self.timing.session_timeout.as_millis()).unwrap_or(i32::MAX),
            session_id: self.identity.id,
            passwd: Some(self.identity.password.clone()),
            read_only: Some(false),
        }
    }

    fn watch_again(&self, connection: &mut Connection) {
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

    async fn serve(&mut self, connection: &mut Connection) -> Left {
        let mut heard = Instant::now();
        let mut next_ping = heard + self.timing.silence_max / 3;
        loop {
            // A server that stands still takes nothing either, once the buffers are full.
            match timeout(self.timing.silence_max, connection.flush()).await {
                Ok(Ok(())) => (),
                Ok(Err(why)) => return Left::Broken(why),
                Err(_) => return Left::Broken(Error::Silent(self.timing.silence_max)),
            }
            tokio::select! {
                frame = connection.frame() => {
                    heard = Instant::now();
                    match frame.and_then(|frame| self.take(frame)) {
                        Ok(Some(OpCode::CloseSession)) => return Left::Done,
                        Ok(_) => (),
                        Err(why) => return Left::Broken(why),
                    }
                }
                asked = self.asked.recv() => match asked {
                    None => return Left::Done,
                    Some(asked) => self.send(connection, asked),
                },
                () = sleep_until(next_ping.min(heard + self.timing.silence_max)) => {
                    if heard.elapsed() >= self.timing.silence_max {
                        return Left::Broken(Error::Silent(self.timing.silence_max));
                    }
                    connection.send(Xid::PING, &Request::Ping);
                    next_ping = Instant::now() + self.timing.silence_max / 3;
                }
            }
        }
    }

    fn send(&mut self, connection: &mut Connection, asked: Asked) {
        let xid = self.next_xid;
        // Negative numbers have meanings of their own.
        self.next_xid = self.next_xid.checked_add(1).unwrap_or(1);
        connection.send(xid, &asked.request);
        self.under_way.push_back((xid, asked));
    }

    /// Takes a frame: an event, the reply to one of our own pings, or the answer to the oldest request. Returns the
    /// operation that it answers.
    fn take(&mut self, frame: Bytes) -> Result<Option<OpCode>, Error> {
        match xid_of(&frame)? {
            Xid::NOTIFICATION => {
                if let (_, Some(Reply::Notification(event))) = decode(frame, OpCode::Notification)? {
                    self.data_watches.remove(&event.path);
                    self.tell(Event::Watch(event));
                }
                Ok(None)
            }
            Xid::PING | Xid::SET_WATCHES | Xid::AUTH => Ok(None),
            xid => self.answer(xid, frame).map(Some),
        }
    }

    fn answer(&mut self, xid: i32, frame: Bytes) -> Result<OpCode, Error> {
        let oldest = self.under_way.front().filter(|(oldest, _)| *oldest == xid);
        let Some((_, asked)) = oldest else {
            let expected = self.under_way.front().map_or(0, |(oldest, _)| *oldest);
            return Err(Error::Order { expected, got: xid });
        };
        let op = asked.request.op();
        let (header, body) = decode(frame, op)?;
        let (_, asked) = self.under_way.pop_front().expect("it was there a moment ago");
        self.last_zxid = self.last_zxid.max(header.zxid);
        if let (Request::GetData(GetDataRequest { path, watch }), Some(Reply::GetData(read))) = (&asked.request, &body)
        {
            if self.data_watches.get(path).is_some_and(|seen| *seen < read.stat.mzxid) {
                self.tell(Event::Overtaken(path.clone()));
            }
            if *watch {
                self.data_watches.insert(path.clone(), read.stat.mzxid);
            }
        }
        let answer = match body {
            Some(reply) => Ok(Answer { zxid: header.zxid, reply }),
            None => Err(Refusal::Code(header.err, header.zxid)),
        };
        // Whoever asked may have stopped waiting.
        let _ = asked.reply_to.send(answer);
        Ok(op)
    }

    fn tell(&self, event: Event) {
        // Nobody has to listen.
        let _ = self.events.send(event);
    }
}

#[cfg(test)]
mod tests;
