//! The server's end of a client's connection, as `server` has it.
//!
//! In: frames of the client, what the node says. Out: events for the node, words for the client.
//! Why reads happen here: the real server answers them beside the node, between two of its steps, if no earlier request of
//! the connection is under way.
//! Holds: nothing is answered while the lease does not allow it; words of one connection arrive in the order said.

use std::collections::VecDeque;

use bytes::BytesMut;
use pole_election::{Span, Zxid};
use pole_jute::{ErrorCode, Record, Request, Writer};
use pole_node::{ClientId, Effect, Event, Lease};
use pole_oracle::Time;
use pole_tree::{Ask, Caller, Watcher};
use pole_zab::{Cxid, SessionId};

use super::guest::Word;
use crate::sim::judge::{Heard, Verdict};
use crate::sim::world::{Happening, World};

/// A connection at its server.
#[derive(Debug)]
pub(crate) struct Desk {
    guest: usize,
    session: SessionId,
    /// When the session was asked for, by the server's clock.
    asked: Time,
    /// None: the session is on its way.
    lease: Option<Lease>,
    arrived: VecDeque<Frame>,
    /// The first of what arrived was heard, and waits for the lease.
    heard: bool,
    /// When the client was last heard, in true time, and since when without long pauses.
    heard_at: u64,
    heard_since: u64,
    /// Requests that the node has not answered.
    waiting: usize,
    /// What the client is to be told and must not be told yet.
    untold: VecDeque<Word>,
    /// When the last word arrives at the client: none after it arrives before it.
    told_until: u64,
}

/// What a client sends.
#[derive(Clone, Debug)]
pub(crate) enum Frame {
    /// The first: a session is asked for.
    Connect {
        guest: usize,
        session: SessionId,
        timeout_ms: i32,
        resume: bool,
        seen: Zxid,
    },
    Ping,
    Sync(Cxid),
    Write(Cxid, bytes::Bytes),
    Read(Cxid, Request),
    /// The client has closed the connection.
    Bye,
}

impl Desk {
    /// Whether it hears this session now and did so for the whole of a timeout.
    pub(crate) fn hears(&self, session: SessionId, timeout: u64, now: u64) -> bool {
        self.session == session && self.heard_since + timeout < now && self.heard_at + timeout / 2 > now
    }
}

impl World {
    /// A frame of a client reaches a server.
    pub(crate) fn frame_arrives(&mut self, server: usize, boot: u32, connection: u64, frame: Frame) -> Verdict {
        if self.hosts[server].boot != boot || self.is_dead(server) {
            return Ok(());
        }
        match frame {
            Frame::Connect { guest, session, timeout_ms, resume, seen } => {
                self.desk_opens(server, connection, guest, session, Ask::attach(timeout_ms, resume), seen);
            }
            Frame::Bye => {
                if self.hosts[server].desks.remove(&connection).is_some() {
                    self.hand_batched(server, Event::Detach { client: ClientId(connection) });
                }
            }
            Frame::Ping | Frame::Sync(_) | Frame::Write(..) | Frame::Read(..) => {
                if let Some(desk) = self.hosts[server].desks.get_mut(&connection) {
                    desk.arrived.push_back(frame);
                    self.serve(server, connection);
                }
            }
        }
        Ok(())
    }

    fn desk_opens(
        &mut self,
        server: usize,
        connection: u64,
        guest: usize,
        session: SessionId,
        body: bytes::Bytes,
        seen: Zxid,
    ) {
        let host = &mut self.hosts[server];
        let asked = Time(host.clock.read(self.now));
        let desk = Desk {
            guest,
            session,
            asked,
            lease: None,
            arrived: VecDeque::new(),
            heard: false,
            heard_at: self.now,
            heard_since: self.now,
            waiting: 0,
            untold: VecDeque::new(),
            told_until: 0,
        };
        host.desks.insert(connection, desk);
        if host.node.as_ref().is_some_and(|node| node.applied() < seen) {
            self.say(server, connection, Word::Closed(BEHIND));
            self.hosts[server].desks.remove(&connection);
            return;
        }
        self.hand_batched(server, Event::Attach { client: ClientId(connection), session, body });
    }

    /// Does what a client asked, if it may be answered.
    fn serve(&mut self, server: usize, connection: u64) {
        let host = &mut self.hosts[server];
        if host.paused {
            return;
        }
        let (now, confirmed) = (Time(host.clock.read(self.now)), host.confirmed);
        let Some(desk) = host.desks.get_mut(&connection) else { return };
        let Some(lease) = desk.lease.as_mut().filter(|_| !desk.arrived.is_empty()) else { return };
        if !std::mem::replace(&mut desk.heard, true) {
            lease.hear(now);
            host.touched.insert(desk.session);
            let timeout = self.guests[desk.guest].timeout();
            if desk.heard_at + timeout / 2 < self.now {
                desk.heard_since = self.now;
            }
            desk.heard_at = self.now;
        }
        if !lease.allows(now, confirmed) {
            if lease.is_known() {
                lease.hear(now);
                host.touched.insert(desk.session);
            }
            self.report.held += 1;
            return;
        }
        desk.heard = false;
        for frame in std::mem::take(&mut desk.arrived) {
            self.handle(server, connection, frame);
        }
    }

    fn handle(&mut self, server: usize, connection: u64, frame: Frame) {
        let client = ClientId(connection);
        let host = &mut self.hosts[server];
        let Some(desk) = host.desks.get_mut(&connection) else { return };
        let event = match frame {
            Frame::Ping => {
                let zxid = host.node.as_ref().map_or(Zxid::ZERO, |node| node.applied());
                return self.say(server, connection, Word::Pong(zxid));
            }
            Frame::Read(cxid, request) if desk.waiting == 0 => {
                return self.read_here(server, connection, cxid, &request);
            }
            Frame::Read(cxid, request) => Event::Read { client, cxid, body: encode(&request) },
            Frame::Sync(cxid) => Event::Sync { client, cxid },
            Frame::Write(cxid, body) => Event::Request { client, cxid, body },
            Frame::Connect { .. } | Frame::Bye => return,
        };
        desk.waiting += 1;
        self.hand_batched(server, event);
    }

    /// A read that nothing has to wait for.
    fn read_here(&mut self, server: usize, connection: u64, cxid: Cxid, request: &Request) {
        let host = &self.hosts[server];
        let Some(stand) = host.node.as_ref().and_then(|node| node.machine().stand()) else { return };
        let Some(session) = host.desks.get(&connection).map(|desk| desk.session.0) else { return };
        let mut writer = Writer::over(BytesMut::new());
        writer.int(0);
        let (mut events, watcher, caller) = (Vec::new(), Watcher(connection), Caller::default());
        let (tree, watches) = (stand.nodes(), || stand.watches_mut());
        let code = pole_tree::read(tree, watches, watcher, session, &caller, request, &mut writer, &mut events);
        let zxid = Zxid(tree.last_zxid().cast_unsigned());
        let body = writer.into_bytes();
        let body =
            if code == ErrorCode::Ok { body } else { bytes::Bytes::copy_from_slice(&code.number().to_be_bytes()) };
        for event in events {
            self.say(server, connection, Word::Event(zxid, event.encode()));
        }
        self.say(server, connection, Word::Reply(cxid, Heard { zxid, body }));
    }

    /// What the node says to clients of the service.
    pub(crate) fn node_says(&mut self, server: usize, effect: Effect) {
        match effect {
            Effect::Attached { client, zxid, body } => self.desk_attached(server, client.0, Heard { zxid, body }),
            Effect::Reply { client, cxid, zxid, body } => {
                if let Some(desk) = self.hosts[server].desks.get_mut(&client.0) {
                    desk.waiting -= 1;
                }
                self.say(server, client.0, Word::Reply(cxid, Heard { zxid, body }));
            }
            Effect::Notify { client, zxid, body } => self.say(server, client.0, Word::Event(zxid, body)),
            Effect::Close { client, reason } => {
                if let Some(desk) = self.hosts[server].desks.get_mut(&client.0) {
                    desk.lease = None; // whoever leaves may say what there is
                }
                self.say(server, client.0, Word::Closed(reason));
                self.hosts[server].desks.remove(&client.0);
            }
            Effect::Confirmed { at } => {
                let host = &mut self.hosts[server];
                host.confirmed = host.confirmed.max(at);
                self.serve_all(server);
            }
            Effect::Send { .. }
            | Effect::Write { .. }
            | Effect::OpenTransfer { .. }
            | Effect::NextPiece { .. }
            | Effect::ReadLog { .. }
            | Effect::CloseTransfer { .. }
            | Effect::Restore { .. }
            | Effect::Continue
            | Effect::Reset { .. }
            | Effect::Arm { .. }
            | Effect::Cancel(_)
            | Effect::Note(_)
            | Effect::Halt { .. } => {}
        }
    }

    /// Goes on with everyone who waits.
    pub(crate) fn serve_all(&mut self, server: usize) {
        let waits = |(connection, desk): (&u64, &Desk)| {
            (!desk.arrived.is_empty() || !desk.untold.is_empty()).then_some(*connection)
        };
        let waiting: Vec<_> = self.hosts[server].desks.iter().filter_map(waits).collect();
        for connection in waiting {
            self.tell_guest(server, connection);
            self.serve(server, connection);
        }
    }

    fn desk_attached(&mut self, server: usize, connection: u64, heard: Heard) {
        let (code, timeout) = (heard.body.first_chunk::<4>().copied(), heard.body.get(4..8));
        let timeout = timeout.and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes);
        if let Some(desk) = self.hosts[server].desks.get_mut(&connection) {
            let is_open = code == Some([0; 4]);
            desk.lease = is_open.then(|| Lease::new(Span::from_ms(u64::from(timeout)), desk.asked));
            self.say(server, connection, Word::Attached(heard));
            if !is_open {
                self.hosts[server].desks.remove(&connection);
            }
            self.serve(server, connection);
        }
    }

    /// Something is to be told to a client.
    fn say(&mut self, server: usize, connection: u64, word: Word) {
        let Some(desk) = self.hosts[server].desks.get_mut(&connection) else { return };
        desk.untold.push_back(word);
        self.tell_guest(server, connection);
    }

    /// What there is to tell is on its way to the client, if it may be told.
    fn tell_guest(&mut self, server: usize, connection: u64) {
        let host = &mut self.hosts[server];
        let (now, confirmed) = (Time(host.clock.read(self.now)), host.confirmed);
        let Some(desk) = host.desks.get_mut(&connection).filter(|desk| !desk.untold.is_empty()) else { return };
        if let Some(lease) = &mut desk.lease
            && !lease.may_tell(now, confirmed)
        {
            if lease.is_known() {
                lease.hear(now);
                host.touched.insert(desk.session);
            }
            self.report.held += 1;
            return;
        }
        let (guest, at) = (desk.guest, self.now + host.step_cost + self.guests[desk.guest].delay);
        desk.told_until = desk.told_until.max(at);
        for word in desk.untold.drain(..) {
            self.queue.push(desk.told_until, Happening::Word { guest, connection, word });
        }
    }
}

fn encode(request: &Request) -> bytes::Bytes {
    let mut writer = Writer::new();
    request.write(&mut writer);
    Ask::encode(request.op(), &Caller::default(), &writer.into_bytes())
}

/// What the real server says, too.
pub(crate) const BEHIND: &str = "the client has seen more than this server has: it must try another";
