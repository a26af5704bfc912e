//! A client's side of a session, which survives connections.
//!
//! Requests go in with a tag and come out with it, answered or lost. In order of calls:
//!
//! 1. [`SessionState::connect_request`] is sent on a new connection.
//! 2. [`SessionState::accepted`] takes the response, and tells the server about identities and watches.
//! 3. [`SessionState::send`] appends requests, [`SessionState::receive`] takes frames.
//! 4. [`SessionState::disconnected`] returns the requests whose outcome is unknown. Then again from 1.
//!
//! Invariant: a reply completes the oldest request, and the last zxid seen never decreases.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use pole_jute::{
    AuthPacket, ConnectRequest, ConnectResponse, ErrorCode, OpCode, Place, Reader, Reply, Request, Value as _,
    WatcherEvent, Xid,
};

use crate::watches::Watches;
use crate::{Error, Frames, decode_reply};

/// The state of a session. `T` is what the caller attaches to each request: a channel for the reply, a time.
#[derive(Debug)]
pub struct SessionState<T> {
    timeout: Duration,
    id: i64,
    password: Bytes,
    last_zxid: i64,
    next_xid: i32,
    /// Requests without a reply, oldest first.
    in_flight: VecDeque<InFlight<T>>,
    /// Added identities without a reply. Servers may answer these before earlier requests. Those that are sent again
    /// on a new connection have no tag.
    auth_in_flight: VecDeque<(Request, Option<T>)>,
    /// Accepted identities, to be sent again on the next connection.
    identities: Vec<AuthPacket>,
    watches: Watches,
}

#[derive(Debug)]
struct InFlight<T> {
    xid: i32,
    request: Request,
    tag: T,
}

/// What a frame means.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every frame is a reply, and none is kept")]
pub enum Received<T> {
    /// The reply to a request.
    Reply(Completed<T>),
    /// A watch fired.
    Event(WatcherEvent),
    /// The reply to a ping, or to something that [`SessionState::accepted`] sent.
    Nothing,
}

/// A request with its reply.
#[derive(Debug)]
pub struct Completed<T> {
    /// The request.
    pub request: Request,
    /// What the caller attached to it.
    pub tag: T,
    /// The zxid in the header: of a write, its transaction; of a read, the last transaction that it saw.
    pub zxid: i64,
    /// The body of the reply, or the error.
    pub result: Result<Reply, ErrorCode>,
    /// The reply shows a change of a node before the event of our watch on it arrived. The protocol forbids that.
    pub overtook_watch: bool,
    /// Watches that the request has removed, as events.
    pub removed_watches: Vec<WatcherEvent>,
}

impl<T> SessionState<T> {
    /// A session that no server knows yet. The server may grant another timeout.
    pub fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            id: 0,
            password: Bytes::from_static(&[0; 16]),
            last_zxid: 0,
            next_xid: 1,
            in_flight: VecDeque::new(),
            auth_in_flight: VecDeque::new(),
            identities: Vec::new(),
            watches: Watches::default(),
        }
    }

    /// The id of the session; 0 before a server opened it.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// The number of requests without a reply.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len() + self.auth_in_flight.len()
    }

    /// Opens the session, or resumes it.
    pub fn connect_request(&self) -> ConnectRequest {
        ConnectRequest {
            last_zxid_seen: self.last_zxid,
            session_id: self.id,
            passwd: Some(self.password.clone()),
            ..crate::connect_request(self.timeout)
        }
    }

    /// The server opened or resumed the session. Appends what it must know before any other request.
    pub fn accepted(&mut self, response: ConnectResponse, frames: &mut Frames) {
        self.id = response.session_id;
        self.password = response.passwd.unwrap_or_default();
        for identity in &self.identities {
            let request = Request::Auth(identity.clone());
            frames.send(Xid::AUTH, &request);
            self.auth_in_flight.push_back((request, None));
        }
        self.watches.set_again(self.last_zxid).iter().for_each(|request| frames.send(Xid::SET_WATCHES, request));
    }

    /// Appends a request. Pings are not for here: see [`Self::ping`].
    pub fn send(&mut self, frames: &mut Frames, request: Request, tag: T) {
        if request.op() == OpCode::Auth {
            frames.send(Xid::AUTH, &request);
            self.auth_in_flight.push_back((request, Some(tag)));
            return;
        }
        let xid = self.next_xid;
        // Negative xids are reserved by the protocol.
        self.next_xid = self.next_xid.checked_add(1).unwrap_or(1);
        frames.send(xid, &request);
        self.in_flight.push_back(InFlight { xid, request, tag });
    }

    /// Appends a ping.
    pub fn ping(&self, frames: &mut Frames) {
        frames.send(Xid::PING, &Request::Ping);
    }

    /// Takes the next frame of the connection.
    pub fn receive(&mut self, frame: Bytes) -> Result<Received<T>, Error> {
        match xid_of(&frame)? {
            Xid::NOTIFICATION => match decode_reply(frame, OpCode::Notification)? {
                (_, Some(Reply::Notification(event))) => {
                    self.watches.fired(&event);
                    Ok(Received::Event(event))
                }
                _ => Ok(Received::Nothing),
            },
            Xid::PING | Xid::SET_WATCHES => Ok(Received::Nothing),
            Xid::AUTH => self.complete_auth(frame),
            xid => self.complete_oldest(xid, frame).map(Received::Reply),
        }
    }

    fn complete_oldest(&mut self, xid: i32, frame: Bytes) -> Result<Completed<T>, Error> {
        let expected = self.in_flight.front().map_or(0, |oldest| oldest.xid);
        let wrong_order = Error::Order { expected, got: xid };
        let Some(oldest) = self.in_flight.front().filter(|oldest| oldest.xid == xid) else { return Err(wrong_order) };
        // A reply that cannot be decoded leaves its request in flight, so that it is reported as lost.
        let (header, body) = decode_reply(frame, oldest.request.op())?;
        let Some(InFlight { request, tag, .. }) = self.in_flight.pop_front() else { return Err(wrong_order) };
        self.last_zxid = self.last_zxid.max(header.zxid);
        let result = body.ok_or(header.err);
        let overtook_watch = self.watches.is_overtaken_by(&request, &result);
        self.watches.replied(&request, &result);
        let removed_watches = self.watches.removed(&request, &result);
        Ok(Completed { request, tag, zxid: header.zxid, result, overtook_watch, removed_watches })
    }

    fn complete_auth(&mut self, frame: Bytes) -> Result<Received<T>, Error> {
        let (header, body) = decode_reply(frame, OpCode::Auth)?;
        let (request, tag) = self.auth_in_flight.pop_front().ok_or(Error::Order { expected: 0, got: header.xid })?;
        let result = body.ok_or(header.err);
        match tag {
            None => result.map(|_| Received::Nothing).map_err(Error::Refused),
            Some(tag) => {
                if let (Request::Auth(identity), Ok(_)) = (&request, &result)
                    && !self.identities.contains(identity)
                {
                    self.identities.push(identity.clone());
                }
                let (zxid, overtook_watch, removed_watches) = (header.zxid, false, Vec::new());
                Ok(Received::Reply(Completed { request, tag, zxid, result, overtook_watch, removed_watches }))
            }
        }
    }

    /// The connection is gone. Returns the tags of the requests that were sent and not answered, in order: they may
    /// have taken effect.
    pub fn disconnected(&mut self) -> impl Iterator<Item = T> {
        let requests = self.in_flight.drain(..).map(|lost| lost.tag);
        requests.chain(self.auth_in_flight.drain(..).filter_map(|(_, tag)| tag))
    }
}

/// Decodes only the xid of a reply. It determines the operation, which is needed to decode the body.
fn xid_of(frame: &Bytes) -> Result<i32, Error> {
    Ok(i32::take(&mut Reader::new(frame.clone()), Place::new("ReplyHeader", "xid"))?)
}

#[cfg(test)]
mod tests;
