//! A ZooKeeper client library: it keeps a session alive, assumes that it is valid for as long as it may, and sets its
//! watches again on a new connection.
//!
//! As in ZooKeeper's own clients: a ping after a third of the timeout without a request; a server that is silent for
//! two thirds of it is left for another; a session is over only when a server says so. All that it receives is
//! checked (`checker::service`, `checker::watches`).
//!
//! It encodes and splits frames by [`pole_client::Frames`], as our clients on sockets do, but keeps its own session
//! instead of [`pole_client::SessionState`]. The checker compares the bodies of replies byte by byte with what the
//! service must answer, so they stay undecoded; which watch must fire is the checker's own knowledge, and sharing it
//! with a client would prove the client by itself; and the client chooses the ids of its sessions, so that the checker
//! knows them in advance.

use std::collections::VecDeque;

use bytes::Bytes;
use pole_client::{Frames, connect_frame, request_frame};
use pole_jute::{
    AddWatchMode, ConnectRequest, ConnectResponse, CreateResponse, ErrorCode, Reader, Record, ReplyHeader, Request,
    WatcherEvent, Writer, Xid,
};
use pole_node::{AttachAnswer, CloseReason, password};
use pole_tree::{Caller, WriteRequest};
use pole_types::{Cxid, SessionId, Zxid};

use super::connections::ToServer;
use super::{describe, requests};
use crate::Rng;
use crate::checker::{CheckResult, ClientWatches, Response, Service, WatchKind, split};
use crate::hosts::CrashKind;
use crate::scripting::Observation;
use crate::workload::ConnectionLoss;
use crate::world::{SimEvent, World};
use crate::{MS, SECOND, Setup};

/// One simulated ZooKeeper client.
#[derive(Debug)]
pub(crate) struct SimClient {
    pub(crate) session: SessionId,
    /// Whether a server has confirmed the session.
    exists: bool,
    /// It left a connection with an unanswered request to open or close this session, which may still take effect.
    in_doubt: bool,
    state: State,
    connection: u64,
    /// The bytes of the connection that arrived.
    frames: Frames,
    /// When the last bytes sent arrive at the server. Later bytes do not overtake them.
    sent_until: u64,
    server: usize,
    /// The zxid at which this connection was attached.
    attached: Zxid,
    next_cxid: i32,
    pending: VecDeque<Pending>,
    timeout_ms: u64,
    /// When it last received anything, and when it last sent anything.
    last_received: u64,
    last_sent: u64,
    /// The newest state that an answer showed.
    seen: Zxid,
    watches: ClientWatches,
    /// Sequential nodes that it created.
    sequential_nodes: Vec<String>,
    pub(crate) delay: u64,
    depth: usize,
    think_time: u64,
    /// Whether it sometimes sleeps for about as long as its session timeout, or longer.
    may_sleep: bool,
    /// It acts on nothing while it sleeps, so it assumes nothing about its session.
    asleep: bool,
    woke_at: u64,
    /// A script decides what it sends and where it connects.
    scripted: bool,
    wakeup: u64,
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
struct Pending {
    cxid: Cxid,
    kind: PendingKind,
}

#[derive(Clone, Debug)]
enum PendingKind {
    Session,
    Write(Request),
    Read(Request),
    /// With the last write acknowledged to any client when it was sent.
    Sync(Zxid),
    Watches,
}

impl PendingKind {
    /// The request that scripts print; `Some(None)` is a sync.
    fn printed_request(&self) -> Option<Option<&Request>> {
        match self {
            Self::Write(request) | Self::Read(request) => Some(Some(request)),
            Self::Sync(_) => Some(None),
            Self::Session | Self::Watches => None,
        }
    }
}

/// What a client receives from a server.
#[derive(Clone, Debug)]
pub(crate) enum FromServer {
    /// Bytes of the connection, split anywhere.
    Bytes(Bytes),
    /// The server closed the connection. A real client does not learn the reason; the checker needs it.
    Closed(CloseReason),
    /// The connection was reset or refused.
    Reset,
}

/// A decoded message of a server, or the end of the connection.
#[derive(Clone, Debug)]
pub(crate) enum Incoming {
    Attached(Response),
    Reply(Cxid, Response),
    Pong(Zxid),
    Event(Zxid, bytes::Bytes),
    Closed(CloseReason),
    Reset,
}

impl SimClient {
    pub(crate) fn new(setup: &Setup, index: usize, rng: &Rng) -> Self {
        let mut own_rng = rng.fork("guest", index as u64);
        Self {
            session: SessionId((index as i64 + 1) << 32),
            exists: false,
            in_doubt: false,
            state: State::Away,
            connection: 0,
            frames: Frames::default(),
            sent_until: 0,
            server: own_rng.below(setup.servers as u64) as usize,
            attached: Zxid::ZERO,
            next_cxid: 1,
            pending: VecDeque::new(),
            timeout_ms: *own_rng.pick(&[3_000, 4_000, 6_000]),
            last_received: 0,
            last_sent: 0,
            seen: Zxid::ZERO,
            watches: ClientWatches::default(),
            sequential_nodes: Vec::new(),
            delay: own_rng.between(50_000, MS),
            depth: own_rng.between(1, setup.depth_max) as usize,
            think_time: if index % 4 == 3 { 20 * setup.think_time } else { setup.think_time },
            may_sleep: own_rng.per_mille(300),
            asleep: false,
            woke_at: 0,
            scripted: false,
            wakeup: 0,
            rng: own_rng,
        }
    }

    /// A client that sends only what a script says.
    pub(crate) fn scripted(setup: &Setup, index: usize, timeout_ms: u64) -> Self {
        let client = Self::new(setup, index, &Rng::new(0));
        Self { timeout_ms, delay: MS / 20, may_sleep: false, scripted: true, ..client }
    }

    /// Whether its session is attached at a server.
    pub(crate) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    pub(crate) fn timeout(&self) -> u64 {
        self.timeout_ms * MS
    }

    /// Until when it assumes that its session is valid if it receives nothing more.
    fn assumes_session_until(&self) -> u64 {
        match self.state {
            State::Open | State::Closing if !self.asleep => self.last_received + self.timeout_ms * MS * 2 / 3,
            State::Away | State::Attaching | State::Open | State::Closing => 0,
        }
    }

    fn clear_connection(&mut self) {
        self.in_doubt |= matches!(self.state, State::Attaching | State::Closing);
        self.state = State::Away;
        self.connection = 0;
        self.frames = Frames::default();
        self.pending.clear();
        self.watches.connection_lost();
    }

    /// The session has ended: switches to a new one.
    fn start_new_session(&mut self) {
        self.clear_connection();
        self.session = SessionId(self.session.0 + 1);
        (self.exists, self.in_doubt) = (false, false);
        (self.next_cxid, self.attached, self.seen) = (1, Zxid::ZERO, Zxid::ZERO);
        self.watches = ClientWatches::default();
        self.sequential_nodes.clear();
    }
}

impl World {
    /// A client wakes up: it may reconnect, send requests or pings, sleep, or give up on its server.
    pub(crate) fn sim_client_wakes(&mut self, client: usize, wakeup: u64) -> CheckResult {
        let this = &mut self.sim_clients[client];
        if this.wakeup != wakeup {
            return Ok(());
        }
        let (late, timeout) = (this.last_received + this.timeout_ms * MS * 2 / 3 < self.now, this.timeout_ms * MS);
        match this.state {
            State::Away if this.scripted => {}
            State::Away => self.sim_client_connects(client),
            State::Attaching | State::Open | State::Closing if late => self.sim_client_times_out(client),
            State::Attaching | State::Closing => {}
            State::Open => {
                let asleep = !self.faults.over && this.may_sleep && this.rng.per_mille(2);
                if asleep {
                    let wakes = self.now + this.rng.between(timeout / 2, 2 * timeout);
                    self.trace.line(self.now, 0, format_args!("client {client} sleeps until {} ms", wakes / MS));
                    this.asleep = true;
                    return self.schedule_sim_client(client, wakes);
                }
                let room = this.depth.saturating_sub(this.pending.len());
                let count = if self.setup.bursts { room } else { room.min(1) };
                if !self.draining && !this.scripted {
                    (0..count).for_each(|_| self.sim_client_sends_random(client));
                }
                let this = &mut self.sim_clients[client];
                if this.state == State::Open && this.last_sent + timeout / 3 <= self.now {
                    this.last_sent = self.now;
                    self.sim_client_sends_bytes(client, request_frame(Xid::PING, &Request::Ping));
                }
                let this = &mut self.sim_clients[client];
                if this.state == State::Open && !this.scripted && !self.faults.over && this.rng.per_mille(2) {
                    self.sim_client_disconnects(client);
                }
            }
        }
        let this = &mut self.sim_clients[client];
        if std::mem::take(&mut this.asleep) {
            this.woke_at = self.now;
        }
        // Often enough for pings.
        let wait = this.rng.spread(this.think_time).clamp(MS, this.timeout_ms * MS / 12);
        let wait = if this.scripted { this.timeout_ms * MS / 12 } else { wait };
        self.schedule_sim_client(client, self.now + wait)
    }

    fn schedule_sim_client(&mut self, client: usize, at: u64) -> CheckResult {
        self.sim_clients[client].wakeup += 1;
        let wakeup = self.sim_clients[client].wakeup;
        self.queue.push(at, SimEvent::SimClientWakes { client, wakeup });
        Ok(())
    }

    /// Two thirds of the timeout have passed in silence: the client leaves its server.
    fn sim_client_times_out(&mut self, client: usize) {
        *self.report.closed.entry(ConnectionLoss::NoAnswer.to_string()).or_default() += 1;
        let this = &self.sim_clients[client];
        // While it slept it sent nothing, so it received nothing.
        let slept = this.asleep || this.woke_at > this.last_received;
        let (server, since) = (this.server, this.last_received);
        let is_there = self.hosts[server].connections.contains_key(&this.connection);
        self.trace.line(self.now, 0, format_args!("client {client} gives up server {}", server + 1));
        self.observe(|_| Some(Observation::SimClient { client, action: format!("gives {} up", server + 1) }));
        // Answers may be held back until the leader confirms the session, so a slow leader is an excuse too.
        let led = self.leader().is_some_and(|leader| self.hosts[leader].last_fault + 5 * SECOND < since);
        if is_there && led && !slept {
            self.check_connection_loss(server, ConnectionLoss::NoAnswer, since);
        }
        self.sim_client_disconnects(client);
    }

    fn sim_client_disconnects(&mut self, client: usize) {
        // Sometimes the server is not notified.
        if self.sim_clients[client].rng.per_mille(700) {
            self.sim_client_sends_close(client);
        }
        self.sim_clients[client].clear_connection();
    }

    /// Closes a client's connection and notifies the server.
    pub(crate) fn sim_client_closes(&mut self, client: usize) {
        self.sim_client_sends_close(client);
        self.sim_clients[client].clear_connection();
    }

    fn sim_client_connects(&mut self, client: usize) {
        let servers = self.hosts.len() as u64;
        let this = &mut self.sim_clients[client];
        if this.rng.per_mille(700) {
            this.server = this.rng.below(servers) as usize;
        }
        let server = this.server;
        self.sim_client_connect_to(client, server);
    }

    /// Connects a client to a server and requests its session there.
    pub(crate) fn sim_client_connect_to(&mut self, client: usize, server: usize) {
        self.connections += 1;
        let connection = self.connections;
        let this = &mut self.sim_clients[client];
        this.clear_connection();
        // Without a confirmed session each attempt uses a new one, as a server would assign it.
        if !this.exists {
            this.start_new_session();
        }
        (this.server, this.connection, this.state) = (server, connection, State::Attaching);
        (this.last_received, this.last_sent) = (self.now, self.now);
        this.pending.push_back(Pending { cxid: Cxid(0), kind: PendingKind::Session });
        let delay = this.delay;
        if self.is_down(server) {
            let at = self.now + 2 * delay;
            self.queue.push(at, SimEvent::ReachesClient { client, connection, input: FromServer::Reset });
            return;
        }
        let session = self.sim_clients[client].session;
        self.sim_client_transmits(client, ToServer::Open { client, session });
        let this = &self.sim_clients[client];
        let (session, resume, timeout_ms, seen) = (this.session, this.exists, this.timeout_ms as i32, this.seen);
        if let Some(service) = &mut self.checker.service {
            service.session_requested(session, &WriteRequest::attach(timeout_ms, resume));
        }
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: seen.0.cast_signed(),
            timeout: timeout_ms,
            session_id: if resume { session.0 } else { 0 },
            passwd: Some(Bytes::copy_from_slice(&password(session.0))),
            read_only: Some(false),
        };
        self.sim_client_sends_bytes(client, connect_frame(&request));
    }

    fn sim_client_sends_random(&mut self, client: usize) {
        let this = &mut self.sim_clients[client];
        if this.state != State::Open {
            return;
        }
        let request = requests::next(&mut this.rng, &mut this.sequential_nodes);
        let is_watch = matches!(&request, Some(Request::AddWatch(_)));
        if is_watch && this.watches.len() > WATCHES_MAX {
            return;
        }
        self.sim_client_sends(client, request);
    }

    /// Sends a request; none: a sync.
    pub(crate) fn sim_client_sends(&mut self, client: usize, request: Option<Request>) {
        let Some(service) = &mut self.checker.service else { return };
        let this = &mut self.sim_clients[client];
        let cxid = Cxid(this.next_cxid);
        this.next_cxid += 1;
        let (kind, request) = match request {
            None => (PendingKind::Sync(service.acknowledged()), pole_client::sync()),
            Some(request) if pole_tree::is_write(request.op()) => {
                if request == Request::CloseSession {
                    this.state = State::Closing;
                }
                let mut writer = Writer::new();
                request.write(&mut writer);
                let body = WriteRequest::encode(request.op(), &Caller::default(), &writer.into_bytes());
                service.write_requested(this.session, cxid, this.attached, body);
                (PendingKind::Write(request.clone()), request)
            }
            Some(request @ Request::SetWatches2(_)) => (PendingKind::Watches, request),
            Some(request) => (PendingKind::Read(request.clone()), request),
        };
        self.trace.line(self.now, 0, format_args!("client {client} #{cxid} sends {kind:?}"));
        this.pending.push_back(Pending { cxid, kind });
        this.last_sent = self.now;
        self.sim_client_sends_bytes(client, request_frame(cxid.0, &request));
    }

    fn sim_client_sends_bytes(&mut self, client: usize, mut bytes: Bytes) {
        // Sometimes a frame arrives in two parts.
        if bytes.len() > 1 && self.cuts.per_mille(50) {
            let at = 1 + self.cuts.below(bytes.len() as u64 - 1) as usize;
            let front = bytes.split_to(at);
            self.sim_client_transmits(client, ToServer::Bytes(front));
            self.sim_clients[client].sent_until += self.cuts.below(MS);
        }
        self.sim_client_transmits(client, ToServer::Bytes(bytes));
    }

    fn sim_client_sends_close(&mut self, client: usize) {
        self.sim_client_transmits(client, ToServer::Finished);
    }

    fn sim_client_transmits(&mut self, client: usize, input: ToServer) {
        let this = &mut self.sim_clients[client];
        this.sent_until = this.sent_until.max(self.now + this.delay);
        let (server, connection, at) = (this.server, this.connection, this.sent_until);
        let boot = self.hosts[server].boot;
        self.queue.push(at, SimEvent::ReachesServer { server, boot, connection, input });
    }

    /// A client receives bytes of a server and handles all complete frames, or the end of the connection.
    pub(crate) fn reaches_client(&mut self, client: usize, connection: u64, input: FromServer) -> CheckResult {
        if self.sim_clients[client].connection != connection {
            return Ok(());
        }
        match input {
            FromServer::Bytes(bytes) => self.sim_clients[client].frames.input().extend_from_slice(&bytes),
            FromServer::Closed(reason) => {
                return self.sim_client_receives(client, connection, Incoming::Closed(reason));
            }
            FromServer::Reset => return self.sim_client_receives(client, connection, Incoming::Reset),
        }
        while self.sim_clients[client].connection == connection {
            let this = &mut self.sim_clients[client];
            let frame =
                this.frames.next_frame().map_err(|error| format!("client {client} cannot cut a frame: {error}"))?;
            let Some(frame) = frame else { return Ok(()) };
            let message = match this.state {
                State::Attaching => self.decode_session(connection, frame),
                State::Away | State::Open | State::Closing => decode(frame),
            };
            let message = message.map_err(|error| format!("client {client} cannot decode a message: {error}"))?;
            self.sim_client_receives(client, connection, message)?;
        }
        Ok(())
    }

    /// Decodes the first frame of a connection.
    fn decode_session(&mut self, connection: u64, frame: Bytes) -> Result<Incoming, String> {
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
        Ok(Incoming::Attached(Response { zxid, body: body.into() }))
    }

    /// A client handles a message.
    fn sim_client_receives(&mut self, client: usize, connection: u64, message: Incoming) -> CheckResult {
        let this = &mut self.sim_clients[client];
        let Some(service) = self.checker.service.as_mut().filter(|_| this.connection == connection) else {
            return Ok(());
        };
        self.trace.line(self.now, 0, format_args!("client {client} receives {message:?}"));
        if let Some(observations) = &mut self.observations {
            let asked = this.pending.front().and_then(|pending| pending.kind.printed_request());
            observations.extend(
                describe::message(&message, this.server, asked).map(|action| Observation::SimClient { client, action }),
            );
        }
        match message {
            Incoming::Closed(reason) => {
                self.sim_client_closed(client, ConnectionLoss::Closed(reason));
                return Ok(());
            }
            Incoming::Reset => {
                self.sim_client_closed(client, ConnectionLoss::Reset);
                return Ok(());
            }
            Incoming::Pong(zxid) => this.watches.answer_received(zxid, &service.node_events)?,
            Incoming::Event(zxid, body) => {
                let event =
                    WatcherEvent::decode(body).map_err(|error| format!("an event cannot be decoded: {error}"))?;
                this.watches.event_received(zxid, &event, &service.node_events)?;
                self.report.events += 1;
            }
            Incoming::Attached(response) => {
                let is_first =
                    this.pending.pop_front().is_some_and(|pending| matches!(pending.kind, PendingKind::Session));
                if !is_first {
                    return Err(format!("client {client} has its session twice"));
                }
                service.attached(this.session, &response)?;
                return self.sim_client_attached(client, &response);
            }
            Incoming::Reply(cxid, response) => this.check_answer(cxid, &response, service, &mut self.report.reads)?,
        }
        let this = &mut self.sim_clients[client];
        this.last_received = self.now;
        if this.state == State::Closing && this.is_idle() {
            this.start_new_session();
        }
        Ok(())
    }

    fn sim_client_attached(&mut self, client: usize, response: &Response) -> CheckResult {
        let this = &mut self.sim_clients[client];
        if split(response).0 != 0 {
            *self.report.closed.entry(CloseReason::SessionExpired.to_string()).or_default() += 1;
            this.start_new_session();
            return Ok(());
        }
        (this.state, this.exists, this.attached) = (State::Open, true, response.zxid);
        this.last_received = self.now;
        // Sent before any other request, and relative to what was seen before this connection.
        let set_watches = this.watches.set_watches_request(this.seen);
        this.seen = response.zxid;
        if let Some(request) = set_watches {
            self.sim_client_sends(client, Some(Request::SetWatches2(request)));
        }
        Ok(())
    }

    fn sim_client_closed(&mut self, client: usize, loss: ConnectionLoss) {
        let this = &mut self.sim_clients[client];
        let (server, closing) = (this.server, this.state == State::Closing);
        // A client that slept or left silently may have expired; `checker::sessions` checks what the leader ends.
        let expired = loss == ConnectionLoss::Closed(CloseReason::SessionEnded);
        let own_request = this.in_doubt && (expired || loss == ConnectionLoss::Closed(CloseReason::SessionMoved));
        this.clear_connection();
        if closing && expired {
            return this.start_new_session();
        }
        *self.report.closed.entry(loss.to_string()).or_default() += 1;
        let is_excused = matches!(
            loss,
            ConnectionLoss::Reset | ConnectionLoss::Closed(CloseReason::ClientAhead | CloseReason::SessionExpired)
        );
        if !is_excused && !own_request && !expired {
            self.check_connection_loss(server, loss, self.now.saturating_sub(10 * SECOND));
        }
    }

    /// Closes the connections of ZooKeeper clients to a server that crashed.
    pub(crate) fn drop_sim_clients(&mut self, server: usize, crash: CrashKind) {
        let host = &mut self.hosts[server];
        host.touched.clear();
        host.dirty.clear();
        let connections = std::mem::take(&mut host.connections);
        if crash == CrashKind::Silent {
            return;
        }
        let is_here = |this: &SimClient| connections.contains_key(&this.connection);
        for (client, this) in self.sim_clients.iter().enumerate().filter(|(_, this)| is_here(this)) {
            let (connection, input) = (this.connection, FromServer::Reset);
            self.queue.push(self.now + this.delay, SimEvent::ReachesClient { client, connection, input });
        }
    }

    /// Checks sessions that the leader expired: in true time, no client may still assume that its session is valid.
    pub(crate) fn check_expired_sessions(&mut self) -> CheckResult {
        let Some(service) = &mut self.checker.service else { return Ok(()) };
        for session in service.take_expired() {
            self.report.expired += 1;
            let Some(client) = self.sim_clients.iter().find(|client| client.session == session) else { continue };
            let timeout = client.timeout_ms * MS;
            // An answer in transit counts from its arrival, and clocks may drift. Clock jumps while a session runs
            // out are not checked: they may cost up to one tick, which a client cannot compensate.
            let slack = client.delay + timeout / 200 + 2 * STEP_MAX;
            let jumped = self.jumped > 0 && self.jumped + 2 * timeout > self.now;
            if !jumped && client.assumes_session_until() > self.now + slack {
                return Err(format!(
                    "session {session} is over, but its client believes in it for another {} ms",
                    (client.assumes_session_until() - self.now) / MS
                ));
            }
        }
        Ok(())
    }
}

impl SimClient {
    /// Checks the answer to the oldest request.
    fn check_answer(&mut self, cxid: Cxid, response: &Response, service: &mut Service, reads: &mut u64) -> CheckResult {
        let session = self.session;
        let Some(Pending { cxid: expected, kind }) = self.pending.pop_front() else {
            return Err(format!("session {session} is answered #{cxid}, which it did not ask"));
        };
        if expected != cxid {
            return Err(format!("session {session} is answered #{cxid} before #{expected}"));
        }
        if !matches!(kind, PendingKind::Watches) {
            self.watches.answer_received(response.zxid, &service.node_events)?;
        }
        match kind {
            PendingKind::Session => return Err(format!("session {session} is answered #{cxid} before it is there")),
            PendingKind::Watches => {
                service.check_monotonic(session, response.zxid)?;
                self.watches.watches_set_again(response.zxid, service)?;
            }
            PendingKind::Sync(after) => service.synced(session, after, response)?,
            PendingKind::Write(request) => {
                service.wrote(session, cxid, response)?;
                self.remember(&request, response);
            }
            PendingKind::Read(request) => {
                *reads += 1;
                self.read(&request, response, service)?;
            }
        }
        self.seen = self.seen.max(response.zxid);
        Ok(())
    }

    fn remember(&mut self, request: &Request, response: &Response) {
        let (code, body) = split(response);
        if let (Request::Create(asked), 0) = (request, code)
            && let Ok(CreateResponse { path }) = CreateResponse::decode(body)
            && path != asked.path
        {
            self.sequential_nodes.push(path);
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "simulated clients send no other reads")]
    fn read(&mut self, request: &Request, response: &Response, service: &mut Service) -> CheckResult {
        let (code, _) = split(response);
        let (found, absent) = (code == 0, code == ErrorCode::NoNode.number());
        let events = &service.node_events;
        let mut set = |is_set: bool, kind, path: &str| {
            if is_set {
                self.watches.set(kind, path, response.zxid, events);
            }
        };
        match request {
            Request::GetData(request) => set(request.watch && found, WatchKind::Data, &request.path),
            Request::Exists(request) => {
                set(request.watch && found, WatchKind::Data, &request.path);
                set(request.watch && absent, WatchKind::Exist, &request.path);
            }
            Request::GetChildren2(request) => set(request.watch && found, WatchKind::Child, &request.path),
            Request::AddWatch(request) => {
                let is_recursive = request.mode == AddWatchMode::PersistentRecursive;
                set(found, if is_recursive { WatchKind::Recursive } else { WatchKind::Persistent }, &request.path);
                return service.check_monotonic(self.session, response.zxid);
            }
            _ => {}
        }
        service.read(self.session, request, response)
    }
}

/// Decodes a frame after the first one.
fn decode(frame: Bytes) -> Result<Incoming, String> {
    let mut reader = Reader::new(frame);
    let header = ReplyHeader::read(&mut reader).map_err(|error| error.to_string())?;
    let (zxid, rest) = (Zxid(header.zxid.cast_unsigned()), reader.rest());
    Ok(match header.xid {
        Xid::PING => Incoming::Pong(zxid),
        Xid::NOTIFICATION => Incoming::Event(zxid, rest),
        xid => {
            let body = [&header.err.number().to_be_bytes()[..], &rest].concat().into();
            Incoming::Reply(Cxid(xid), Response { zxid, body })
        }
    })
}

/// The longest step of a slow server, see `FaultKind::Slow`.
const STEP_MAX: u64 = 5 * MS;

/// The most persistent watches of a client: more would not test anything new.
const WATCHES_MAX: usize = 12;
