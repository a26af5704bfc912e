//! A client library: it keeps a session alive, believes in it as long as it may, and brings its watches along.
//!
//! As in ZooKeeper's own clients: a ping after a third of the timeout without a request; a server that is silent for two
//! thirds of it is left for another; a session is over when a server says so, and not before.
//! What it hears is held against what it was promised (`judge::service`, `judge::watches`).

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use pole_election::Zxid;
use pole_jute::{
    AddWatchMode, ConnectRequest, ConnectResponse, CreateResponse, Deframer, ErrorCode, OpCode, Reader, Record,
    ReplyHeader, Request, RequestHeader, SyncRequest, WatcherEvent, Writer, Xid,
};
use pole_node::{AttachAnswer, CloseReason, password};
use pole_tree::{Ask, Caller};
use pole_zab::{Cxid, SessionId};

use super::connections::ToServer;
use super::{asks, tells};
use crate::rng::Rng;
use crate::sim::hosts::Death;
use crate::sim::judge::{Heard, Kind, Service, Verdict, Watched, split};
use crate::sim::stage::Sight;
use crate::sim::workload::Loss;
use crate::sim::world::{Happening, World};
use crate::sim::{MS, SECOND, Setup};

/// One client.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) session: SessionId,
    /// Whether a server said that the session is there.
    exists: bool,
    /// It left a connection on which it had asked for this session, or for its end: either may still come true.
    astray: bool,
    state: State,
    connection: u64,
    /// Bytes of the connection that are no whole frame yet.
    arrived: BytesMut,
    /// When the last bytes sent on the connection arrive: none after them arrives before them.
    sent_until: u64,
    server: usize,
    /// Of the attachment of this connection.
    attached: Zxid,
    next_cxid: i32,
    waits_for: VecDeque<Waits>,
    timeout_ms: u64,
    /// When it was last told anything, and when it last asked anything.
    heard: u64,
    asked: u64,
    /// The last state that an answer showed.
    seen: Zxid,
    watched: Watched,
    /// Nodes with a number that it made.
    own: Vec<String>,
    pub(crate) delay: u64,
    depth: usize,
    think: u64,
    /// Whether it now and then falls asleep for longer than its session lasts.
    sleepy: bool,
    /// It acts on nothing that it hears meanwhile, so it believes in nothing.
    asleep: bool,
    /// When it last woke.
    woke: u64,
    /// It asks only what a script says, and goes only where a script says.
    scripted: bool,
    thought: u64,
    rng: Rng,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Away,
    Attaching,
    Open,
    Closing,
}

#[derive(Clone, Debug)]
struct Waits {
    cxid: Cxid,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Session,
    Write(Request),
    Read(Request),
    /// With what had been acknowledged to anyone when it was asked.
    Sync(Zxid),
    Watches,
}

impl What {
    /// The request to tell of; some none: a sync.
    fn told(&self) -> Option<Option<&Request>> {
        match self {
            Self::Write(request) | Self::Read(request) => Some(Some(request)),
            Self::Sync(_) => Some(None),
            Self::Session | Self::Watches => None,
        }
    }
}

/// What reaches a client from a server.
#[derive(Clone, Debug)]
pub(crate) enum FromServer {
    /// Bytes of the connection, cut anywhere.
    Bytes(Bytes),
    /// The server closed the connection. A real client does not learn why; the judge wants to know.
    Closed(CloseReason),
    /// The connection is gone, or was refused.
    Reset,
}

/// What a client sends.
enum Frame {
    Connect(ConnectRequest),
    Ping,
    Sync(Cxid),
    Request(Cxid, Request),
}

/// What a client hears.
#[derive(Clone, Debug)]
pub(crate) enum Word {
    Attached(Heard),
    Reply(Cxid, Heard),
    Pong(Zxid),
    Event(Zxid, bytes::Bytes),
    Closed(CloseReason),
    Reset,
}

impl Guest {
    pub(crate) fn new(setup: &Setup, index: usize, rng: &Rng) -> Self {
        let mut own = rng.fork("guest", index as u64);
        Self {
            session: SessionId((index as i64 + 1) << 32),
            exists: false,
            astray: false,
            state: State::Away,
            connection: 0,
            arrived: BytesMut::new(),
            sent_until: 0,
            server: own.below(setup.servers as u64) as usize,
            attached: Zxid::ZERO,
            next_cxid: 1,
            waits_for: VecDeque::new(),
            timeout_ms: *own.pick(&[3_000, 4_000, 6_000]),
            heard: 0,
            asked: 0,
            seen: Zxid::ZERO,
            watched: Watched::default(),
            own: Vec::new(),
            delay: own.between(50_000, MS),
            depth: own.between(1, setup.depth_max) as usize,
            think: if index % 4 == 3 { 20 * setup.think } else { setup.think },
            sleepy: own.per_mille(300),
            asleep: false,
            woke: 0,
            scripted: false,
            thought: 0,
            rng: own,
        }
    }

    /// One that asks only what it is told to.
    pub(crate) fn scripted(setup: &Setup, index: usize, timeout_ms: u64) -> Self {
        let guest = Self::new(setup, index, &Rng::new(0));
        Self { timeout_ms, delay: MS / 20, sleepy: false, scripted: true, ..guest }
    }

    /// Whether it has its session at a server.
    pub(crate) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waits_for.is_empty()
    }

    pub(crate) fn timeout(&self) -> u64 {
        self.timeout_ms * MS
    }

    /// Until when it believes in its session without another word.
    fn believes_until(&self) -> u64 {
        match self.state {
            State::Open | State::Closing if !self.asleep => self.heard + self.timeout_ms * MS * 2 / 3,
            State::Away | State::Attaching | State::Open | State::Closing => 0,
        }
    }

    fn leaves(&mut self) {
        self.astray |= matches!(self.state, State::Attaching | State::Closing);
        self.state = State::Away;
        self.connection = 0;
        self.arrived.clear();
        self.waits_for.clear();
        self.watched.lose();
    }

    /// The session is over: the next one.
    fn begins_anew(&mut self) {
        self.leaves();
        self.session = SessionId(self.session.0 + 1);
        (self.exists, self.astray) = (false, false);
        (self.next_cxid, self.attached, self.seen) = (1, Zxid::ZERO, Zxid::ZERO);
        self.watched = Watched::default();
        self.own.clear();
    }
}

impl World {
    /// A client looks around.
    pub(crate) fn guest_thinks(&mut self, guest: usize, thought: u64) -> Verdict {
        let this = &mut self.guests[guest];
        if this.thought != thought {
            return Ok(());
        }
        let (late, timeout) = (this.heard + this.timeout_ms * MS * 2 / 3 < self.now, this.timeout_ms * MS);
        match this.state {
            State::Away if this.scripted => {}
            State::Away => self.guest_connects(guest),
            State::Attaching | State::Open | State::Closing if late => self.guest_despairs(guest),
            State::Attaching | State::Closing => {}
            State::Open => {
                let asleep = !self.weather.over && this.sleepy && this.rng.per_mille(2);
                if asleep {
                    let wakes = self.now + this.rng.between(timeout / 2, 2 * timeout);
                    self.trace.line(self.now, 0, format_args!("guest {guest} sleeps until {} ms", wakes / MS));
                    this.asleep = true;
                    return self.guest_thinks_at(guest, wakes);
                }
                let room = this.depth.saturating_sub(this.waits_for.len());
                let count = if self.setup.bursts { room } else { room.min(1) };
                if !self.draining && !this.scripted {
                    (0..count).for_each(|_| self.guest_asks_something(guest));
                }
                let this = &mut self.guests[guest];
                if this.state == State::Open && this.asked + timeout / 3 <= self.now {
                    this.asked = self.now;
                    self.guest_sends(guest, Frame::Ping);
                }
                let this = &mut self.guests[guest];
                if this.state == State::Open && !this.scripted && !self.weather.over && this.rng.per_mille(2) {
                    self.guest_leaves(guest);
                }
            }
        }
        let this = &mut self.guests[guest];
        if std::mem::take(&mut this.asleep) {
            this.woke = self.now;
        }
        // Often enough for its pings.
        let wait = this.rng.spread(this.think).clamp(MS, this.timeout_ms * MS / 12);
        let wait = if this.scripted { this.timeout_ms * MS / 12 } else { wait };
        self.guest_thinks_at(guest, self.now + wait)
    }

    fn guest_thinks_at(&mut self, guest: usize, at: u64) -> Verdict {
        self.guests[guest].thought += 1;
        let thought = self.guests[guest].thought;
        self.queue.push(at, Happening::GuestThinks { guest, thought });
        Ok(())
    }

    /// Two thirds of the timeout are over without a word.
    fn guest_despairs(&mut self, guest: usize) {
        *self.report.closed.entry(Loss::NoAnswer.to_string()).or_default() += 1;
        let this = &self.guests[guest];
        // Whoever slept said nothing meanwhile, and so heard nothing.
        let slept = this.asleep || this.woke > this.heard;
        let (server, since) = (this.server, this.heard);
        let is_there = self.hosts[server].connections.contains_key(&this.connection);
        self.trace.line(self.now, 0, format_args!("guest {guest} despairs of server {}", server + 1));
        self.see(|_| Some(Sight::Guest { guest, does: format!("gives {} up", server + 1) }));
        // Whether a client may be told that all is well is for the leader to say, and it may be slow to.
        let led = self.leader().is_some_and(|leader| self.hosts[leader].faulted + 5 * SECOND < since);
        if is_there && led && !slept {
            self.unexcused(server, Loss::NoAnswer, since);
        }
        self.guest_leaves(guest);
    }

    fn guest_leaves(&mut self, guest: usize) {
        // Sometimes the server never hears of it.
        if self.guests[guest].rng.per_mille(700) {
            self.guest_finishes(guest);
        }
        self.guests[guest].leaves();
    }

    /// It closes its connection, and the server hears of it.
    pub(crate) fn guest_closes(&mut self, guest: usize) {
        self.guest_finishes(guest);
        self.guests[guest].leaves();
    }

    fn guest_connects(&mut self, guest: usize) {
        let servers = self.hosts.len() as u64;
        let this = &mut self.guests[guest];
        if this.rng.per_mille(700) {
            this.server = this.rng.below(servers) as usize;
        }
        let server = this.server;
        self.guest_goes_to(guest, server);
    }

    /// A client connects to a server and asks for its session there.
    pub(crate) fn guest_goes_to(&mut self, guest: usize, server: usize) {
        self.connections += 1;
        let connection = self.connections;
        let this = &mut self.guests[guest];
        this.leaves();
        // Whoever has no session yet asks for another one each time, as a server would give it.
        if !this.exists {
            this.begins_anew();
        }
        (this.server, this.connection, this.state) = (server, connection, State::Attaching);
        (this.heard, this.asked) = (self.now, self.now);
        this.waits_for.push_back(Waits { cxid: Cxid(0), what: What::Session });
        let delay = this.delay;
        if self.is_dead(server) {
            let at = self.now + 2 * delay;
            self.queue.push(at, Happening::ReachesClient { guest, connection, what: FromServer::Reset });
            return;
        }
        self.guest_reaches(guest, ToServer::Open(guest));
        let this = &self.guests[guest];
        let (session, resume, timeout_ms, seen) = (this.session, this.exists, this.timeout_ms as i32, this.seen);
        if let Some(service) = &mut self.judge.service {
            service.asks_session(session, &Ask::attach(timeout_ms, resume));
        }
        self.guest_sends(
            guest,
            Frame::Connect(ConnectRequest {
                protocol_version: 0,
                last_zxid_seen: seen.0.cast_signed(),
                timeout: timeout_ms,
                session_id: if resume { session.0 } else { 0 },
                passwd: Some(Bytes::copy_from_slice(&password(session.0))),
                read_only: Some(false),
            }),
        );
    }

    fn guest_asks_something(&mut self, guest: usize) {
        let this = &mut self.guests[guest];
        if this.state != State::Open {
            return;
        }
        let request = asks::next(&mut this.rng, &mut this.own);
        let is_watch = matches!(&request, Some(Request::AddWatch(_)));
        if is_watch && this.watched.len() > WATCHES_MAX {
            return;
        }
        self.guest_asks(guest, request);
    }

    /// Asks something; none: a sync.
    pub(crate) fn guest_asks(&mut self, guest: usize, request: Option<Request>) {
        let Some(service) = &mut self.judge.service else { return };
        let this = &mut self.guests[guest];
        let cxid = Cxid(this.next_cxid);
        this.next_cxid += 1;
        let (what, frame) = match request {
            None => (What::Sync(service.acknowledged()), Frame::Sync(cxid)),
            Some(request) if pole_tree::is_write(request.op()) => {
                if request == Request::CloseSession {
                    this.state = State::Closing;
                }
                let mut writer = Writer::new();
                request.write(&mut writer);
                let body = Ask::encode(request.op(), &Caller::default(), &writer.into_bytes());
                service.asks(this.session, cxid, this.attached, body);
                (What::Write(request.clone()), Frame::Request(cxid, request))
            }
            Some(request @ Request::SetWatches2(_)) => (What::Watches, Frame::Request(cxid, request)),
            Some(request) => (What::Read(request.clone()), Frame::Request(cxid, request)),
        };
        self.trace.line(self.now, 0, format_args!("guest {guest} #{cxid} asks {what:?}"));
        this.waits_for.push_back(Waits { cxid, what });
        this.asked = self.now;
        self.guest_sends(guest, frame);
    }

    fn guest_sends(&mut self, guest: usize, frame: Frame) {
        let mut bytes = encode(frame);
        // Now and then a frame comes in two parts.
        if bytes.len() > 1 && self.cuts.per_mille(50) {
            let at = 1 + self.cuts.below(bytes.len() as u64 - 1) as usize;
            let front = bytes.split_to(at);
            self.guest_reaches(guest, ToServer::Bytes(front));
            self.guests[guest].sent_until += self.cuts.below(MS);
        }
        self.guest_reaches(guest, ToServer::Bytes(bytes));
    }

    fn guest_finishes(&mut self, guest: usize) {
        self.guest_reaches(guest, ToServer::Finished);
    }

    fn guest_reaches(&mut self, guest: usize, what: ToServer) {
        let this = &mut self.guests[guest];
        this.sent_until = this.sent_until.max(self.now + this.delay);
        let (server, connection, at) = (this.server, this.connection, this.sent_until);
        let boot = self.hosts[server].boot;
        self.queue.push(at, Happening::ReachesServer { server, boot, connection, what });
    }

    /// Something of a server reaches a client, which hears whole frames.
    pub(crate) fn reaches_client(&mut self, guest: usize, connection: u64, what: FromServer) -> Verdict {
        if self.guests[guest].connection != connection {
            return Ok(());
        }
        match what {
            FromServer::Bytes(bytes) => self.guests[guest].arrived.extend_from_slice(&bytes),
            FromServer::Closed(reason) => return self.guest_hears(guest, connection, Word::Closed(reason)),
            FromServer::Reset => return self.guest_hears(guest, connection, Word::Reset),
        }
        while self.guests[guest].connection == connection {
            let this = &mut self.guests[guest];
            let frame = Deframer::new(FRAME_BYTES_MAX).next(&mut this.arrived);
            let frame = frame.map_err(|error| format!("guest {guest} cannot cut a frame: {error}"))?;
            let Some(frame) = frame else { return Ok(()) };
            let word = match this.state {
                State::Attaching => self.word_of_session(connection, frame),
                State::Away | State::Open | State::Closing => word(frame),
            };
            let word = word.map_err(|error| format!("guest {guest} cannot read what it hears: {error}"))?;
            self.guest_hears(guest, connection, word)?;
        }
        Ok(())
    }

    /// The first frame of a connection.
    fn word_of_session(&mut self, connection: u64, frame: Bytes) -> Result<Word, String> {
        let response = ConnectResponse::read(&mut Reader::new(frame)).map_err(|error| error.to_string())?;
        let (zxid, answer) = self.attachment(connection).ok_or("nobody attached this connection")?;
        let (code, timeout) = match answer {
            AttachAnswer::Opened { timeout_ms } => (ErrorCode::Ok, Some(timeout_ms)),
            AttachAnswer::Expired => (ErrorCode::SessionExpired, None),
        };
        if (response.timeout > 0) != timeout.is_some() || (response.session_id != 0) != timeout.is_some() {
            return Err(format!("{response:?} is sent, but the node said {answer:?}"));
        }
        let mut body = code.number().to_be_bytes().to_vec();
        body.extend(timeout.iter().flat_map(|_| response.timeout.to_be_bytes()));
        Ok(Word::Attached(Heard { zxid, body: body.into() }))
    }

    /// A client hears something.
    fn guest_hears(&mut self, guest: usize, connection: u64, word: Word) -> Verdict {
        let this = &mut self.guests[guest];
        let Some(service) = self.judge.service.as_mut().filter(|_| this.connection == connection) else {
            return Ok(());
        };
        self.trace.line(self.now, 0, format_args!("guest {guest} hears {word:?}"));
        if let Some(sights) = &mut self.sights {
            let asked = this.waits_for.front().and_then(|waits| waits.what.told());
            sights.extend(tells::word(&word, this.server, asked).map(|does| Sight::Guest { guest, does }));
        }
        match word {
            Word::Closed(reason) => {
                self.guest_is_closed(guest, Loss::Closed(reason));
                return Ok(());
            }
            Word::Reset => {
                self.guest_is_closed(guest, Loss::Reset);
                return Ok(());
            }
            Word::Pong(zxid) => this.watched.answer(zxid, &service.news)?,
            Word::Event(zxid, body) => {
                let event = WatcherEvent::decode(body).map_err(|error| format!("an event is none: {error}"))?;
                this.watched.event(zxid, &event, &service.news)?;
                self.report.events += 1;
            }
            Word::Attached(heard) => {
                let is_first = this.waits_for.pop_front().is_some_and(|waits| matches!(waits.what, What::Session));
                if !is_first {
                    return Err(format!("guest {guest} has its session twice"));
                }
                service.attached(this.session, &heard)?;
                return self.guest_attached(guest, &heard);
            }
            Word::Reply(cxid, heard) => this.answered(cxid, &heard, service, &mut self.report.reads)?,
        }
        let this = &mut self.guests[guest];
        this.heard = self.now;
        if this.state == State::Closing && this.is_idle() {
            this.begins_anew();
        }
        Ok(())
    }

    fn guest_attached(&mut self, guest: usize, heard: &Heard) -> Verdict {
        let this = &mut self.guests[guest];
        if split(heard).0 != 0 {
            *self.report.closed.entry(CloseReason::SessionExpired.to_string()).or_default() += 1;
            this.begins_anew();
            return Ok(());
        }
        (this.state, this.exists, this.attached) = (State::Open, true, heard.zxid);
        this.heard = self.now;
        // Before anything else is asked, and relative to what was seen before this connection.
        let again = this.watched.again(this.seen);
        this.seen = heard.zxid;
        if let Some(request) = again {
            self.guest_asks(guest, Some(Request::SetWatches2(request)));
        }
        Ok(())
    }

    fn guest_is_closed(&mut self, guest: usize, loss: Loss) {
        let this = &mut self.guests[guest];
        let (server, closing) = (this.server, this.state == State::Closing);
        // Whoever slept, or left in silence, may be late; the judge of sessions looks at those that the leader ends.
        let expired = loss == Loss::Closed(CloseReason::SessionEnded);
        let own_doing = this.astray && (expired || loss == Loss::Closed(CloseReason::SessionMoved));
        this.leaves();
        if closing && expired {
            return this.begins_anew();
        }
        *self.report.closed.entry(loss.to_string()).or_default() += 1;
        let is_excused =
            matches!(loss, Loss::Reset | Loss::Closed(CloseReason::ClientAhead | CloseReason::SessionExpired));
        if !is_excused && !own_doing && !expired {
            self.unexcused(server, loss, self.now.saturating_sub(10 * SECOND));
        }
    }

    /// The process of a server is gone, and so are its connections.
    pub(crate) fn drop_guests(&mut self, server: usize, death: Death) {
        let host = &mut self.hosts[server];
        host.touched.clear();
        host.dirty.clear();
        let connections = std::mem::take(&mut host.connections);
        if death == Death::Silent {
            return;
        }
        let is_here = |this: &Guest| connections.contains_key(&this.connection);
        for (guest, this) in self.guests.iter().enumerate().filter(|(_, this)| is_here(this)) {
            let (connection, what) = (this.connection, FromServer::Reset);
            self.queue.push(self.now + this.delay, Happening::ReachesClient { guest, connection, what });
        }
    }

    /// The leader ended sessions: nobody may still believe in them, in true time.
    pub(crate) fn nobody_believes(&mut self) -> Verdict {
        let Some(service) = &mut self.judge.service else { return Ok(()) };
        for session in service.take_expired() {
            self.report.expired += 1;
            let Some(guest) = self.guests.iter().find(|guest| guest.session == session) else { continue };
            let timeout = guest.timeout_ms * MS;
            // An answer that is on its way counts from its arrival, and clocks may drift. A clock that jumps while a
            // session runs out is one tick of error at most, and that is more than we can ask a client to bear.
            let slack = guest.delay + timeout / 200 + 2 * STEP_MAX;
            let jumped = self.jumped > 0 && self.jumped + 2 * timeout > self.now;
            if !jumped && guest.believes_until() > self.now + slack {
                return Err(format!(
                    "session {session} is over, but its client believes in it for another {} ms",
                    (guest.believes_until() - self.now) / MS
                ));
            }
        }
        Ok(())
    }
}

impl Guest {
    /// The answer to the oldest request comes.
    fn answered(&mut self, cxid: Cxid, heard: &Heard, service: &mut Service, reads: &mut u64) -> Verdict {
        let session = self.session;
        let Some(Waits { cxid: expected, what }) = self.waits_for.pop_front() else {
            return Err(format!("session {session} is answered #{cxid}, which it did not ask"));
        };
        if expected != cxid {
            return Err(format!("session {session} is answered #{cxid} before #{expected}"));
        }
        if !matches!(what, What::Watches) {
            self.watched.answer(heard.zxid, &service.news)?;
        }
        match what {
            What::Session => return Err(format!("session {session} is answered #{cxid} before it is there")),
            What::Watches => {
                service.sees(session, heard.zxid)?;
                self.watched.set_again(heard.zxid, service)?;
            }
            What::Sync(after) => service.synced(session, after, heard)?,
            What::Write(request) => {
                service.wrote(session, cxid, heard)?;
                self.remembers(&request, heard);
            }
            What::Read(request) => {
                *reads += 1;
                self.read(&request, heard, service)?;
            }
        }
        self.seen = self.seen.max(heard.zxid);
        Ok(())
    }

    fn remembers(&mut self, request: &Request, heard: &Heard) {
        let (code, body) = split(heard);
        if let (Request::Create(asked), 0) = (request, code)
            && let Ok(CreateResponse { path }) = CreateResponse::decode(body)
            && path != asked.path
        {
            self.own.push(path);
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others do not come here")]
    fn read(&mut self, request: &Request, heard: &Heard, service: &mut Service) -> Verdict {
        let (code, _) = split(heard);
        let (found, absent) = (code == 0, code == ErrorCode::NoNode.number());
        let news = &service.news;
        let mut set = |is_set: bool, kind, path: &str| {
            if is_set {
                self.watched.set(kind, path, heard.zxid, news);
            }
        };
        match request {
            Request::GetData(request) => set(request.watch && found, Kind::Data, &request.path),
            Request::Exists(request) => {
                set(request.watch && found, Kind::Data, &request.path);
                set(request.watch && absent, Kind::Exist, &request.path);
            }
            Request::GetChildren2(request) => set(request.watch && found, Kind::Child, &request.path),
            Request::AddWatch(request) => {
                let is_recursive = request.mode == AddWatchMode::PersistentRecursive;
                set(found, if is_recursive { Kind::Recursive } else { Kind::Persistent }, &request.path);
                return service.sees(self.session, heard.zxid);
            }
            _ => {}
        }
        service.read(self.session, request, heard)
    }
}

/// A frame as it travels.
fn encode(frame: Frame) -> Bytes {
    let mut writer = Writer::new();
    writer.frame(|w| match frame {
        Frame::Connect(request) => request.write(w),
        Frame::Ping => RequestHeader { xid: Xid::PING, op: OpCode::Ping.number() }.write(w),
        Frame::Sync(cxid) => {
            RequestHeader { xid: cxid.0, op: OpCode::Sync.number() }.write(w);
            SyncRequest { path: "/".into() }.write(w);
        }
        Frame::Request(cxid, request) => {
            RequestHeader { xid: cxid.0, op: request.op().number() }.write(w);
            request.write(w);
        }
    });
    writer.into_bytes()
}

/// What a frame says, after the first.
fn word(frame: Bytes) -> Result<Word, String> {
    let mut reader = Reader::new(frame);
    let header = ReplyHeader::read(&mut reader).map_err(|error| error.to_string())?;
    let (zxid, rest) = (Zxid(header.zxid.cast_unsigned()), reader.rest());
    Ok(match header.xid {
        Xid::PING => Word::Pong(zxid),
        Xid::NOTIFICATION => Word::Event(zxid, rest),
        xid => {
            let body = [&header.err.number().to_be_bytes()[..], &rest].concat().into();
            Word::Reply(Cxid(xid), Heard { zxid, body })
        }
    })
}

/// Longer than any reply here.
const FRAME_BYTES_MAX: usize = 16 << 20;

/// What a step of a slow server costs at most, see `FaultKind::Slow`.
const STEP_MAX: u64 = 5 * MS;

/// More persistent watches than this test nothing more.
const WATCHES_MAX: usize = 12;
