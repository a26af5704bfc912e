//! Clients of the key-value machine.
//!
//! Each holds a session, sends a few requests at a time, waits, and moves to another server when its own does not
//! answer. Every answer is checked against the guarantees of the service (`checker::guarantees`).

use std::collections::VecDeque;
use std::fmt;

use pole_node::{ClientId, CloseReason, Event};
use pole_types::{Cxid, ServerId, SessionId};

use super::checker::{CheckResult, ClientOp, Response};
use super::hosts::{CrashKind, Host};
use super::paced::{Pace, Sample};
use super::scripting::{Observation, id};
use super::world::{SimEvent, World};
use super::{MS, SECOND, Setup};
use crate::Rng;
use crate::kv::{Answer, Change, Key, KvRequest, OpId, Refusal};

#[derive(Debug)]
pub(crate) struct Client {
    session: SessionId,
    /// Whether a server has confirmed the session.
    exists: bool,
    /// It left a connection with an unanswered request to attach or close this session. That request may still take
    /// effect, and then the session moves away from a later connection, or ends.
    in_doubt: bool,
    state: State,
    connection: u64,
    server: usize,
    next_cxid: i32,
    pending: VecDeque<Pending>,
    /// Whether a sync is pending.
    sync_pending: bool,
    /// One-way delay to any server, in nanoseconds.
    pub(crate) delay: u64,
    depth: u64,
    think_time: u64,
    /// How long it waits for an answer before it tries another server, in nanoseconds.
    patience: u64,
    /// Waits without limit while its server has the connection, so that a lost request shows up.
    pub(crate) waits_forever: bool,
    /// The number of the latest scheduled wake-up; earlier ones are ignored.
    wakeup: u64,
    /// Set for a client of an experiment.
    pace: Option<Pace>,
    rng: Rng,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Away,
    Attaching,
    Open,
    /// It has asked to close the session and sends nothing more.
    Closing,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    op: OpId,
    cxid: Cxid,
    since: u64,
}

/// Why a client lost its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionLoss {
    /// The server closed it.
    Closed(CloseReason),
    /// It was reset, or refused.
    Reset,
    /// The client gave up because the server did not answer.
    NoAnswer,
}

impl fmt::Display for ConnectionLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(reason) => reason.fmt(f),
            Self::Reset => f.write_str("reset"),
            Self::NoAnswer => f.write_str("no answer"),
        }
    }
}

/// What a client receives from a server.
#[derive(Clone, Debug)]
pub(crate) enum ServerMessage {
    Attached(Response),
    Reply(Cxid, Response),
    Closed(CloseReason),
    /// The connection was reset, or refused.
    Reset,
}

impl Client {
    pub(crate) fn new(setup: &Setup, index: usize, rng: &Rng) -> Self {
        let mut own = rng.fork("client", index as u64);
        Self {
            session: SessionId(((index as i64 + 1) << 32) | 1),
            exists: false,
            in_doubt: false,
            state: State::Away,
            connection: 0,
            server: own.below(setup.servers as u64) as usize,
            next_cxid: 1,
            pending: VecDeque::new(),
            sync_pending: false,
            delay: own.between(50_000, MS),
            depth: own.between(1, setup.depth_max),
            // Some clients are idle most of the time, so that their first request may meet a server that lost its
            // leader.
            think_time: if index % 4 == 3 { 20 * setup.think_time } else { setup.think_time },
            patience: own.between(3, 12) * SECOND,
            waits_forever: own.per_mille(400),
            wakeup: 0,
            pace: None,
            rng: own,
        }
    }

    /// A client of an experiment: close to its server, with unlimited outstanding requests.
    pub(crate) fn paced(setup: &Setup, index: usize, pace: Pace, rng: &Rng) -> Self {
        let client = Self::new(setup, index, rng);
        let (server, delay, depth, patience) = (pace.home, 1_000, u64::MAX, 60 * SECOND);
        Self { server, delay, depth, patience, pace: Some(pace), ..client }
    }

    /// Whether its session is attached at this server.
    pub(crate) fn is_at(&self, server: usize) -> bool {
        self.server == server && self.state == State::Open
    }

    /// Drops the connection and all pending requests without notifying the server.
    pub(crate) fn disconnect(&mut self) {
        self.clear_connection();
    }

    /// Whether no request is pending.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    fn clear_connection(&mut self) {
        self.in_doubt |= matches!(self.state, State::Attaching | State::Closing);
        self.state = State::Away;
        self.connection = 0;
        self.pending.clear();
        self.sync_pending = false;
    }

    /// Draws the next requests.
    fn next_requests(&mut self) -> Vec<ClientOp> {
        let rng = &mut self.rng;
        if let Some(pace) = self.pace {
            return vec![ClientOp::Write(Change::Put(pace.home as Key, rng.any()))];
        }
        let (register, counter, slot) = (rng.below(12) as Key, 100 + rng.below(6) as Key, 200 + rng.below(6) as Key);
        let unique = rng.any();
        match rng.below(1000) {
            0..300 => vec![ClientOp::Write(Change::Put(register, unique))],
            300..500 => vec![ClientOp::Write(Change::Add(counter, 1))],
            500..600 => vec![ClientOp::Write(Change::PutIf(register, unique, rng.between(1, 40) as u32))],
            600..680 => vec![ClientOp::Write(Change::Insert(slot, unique))],
            680..760 => vec![ClientOp::Write(Change::Delete(slot))],
            760..900 => vec![ClientOp::Read(*rng.pick(&[register, counter, slot]))],
            900..996 => vec![ClientOp::Sync, ClientOp::Read(*rng.pick(&[register, counter, slot]))],
            _ => vec![ClientOp::Write(Change::CloseSession)],
        }
    }
}

impl World {
    /// A client wakes up: it may reconnect, send requests, or give up on its server.
    pub(crate) fn client_wakes(&mut self, client: usize, wakeup: u64) -> CheckResult {
        let this = &mut self.clients[client];
        if this.wakeup != wakeup {
            return Ok(());
        }
        let late = this.pending.front().is_some_and(|w| w.since + this.patience < self.now);
        let connected = self.hosts[this.server].clients.contains_key(&this.connection);
        // Without faults a server answers every request that it has accepted, so there is no reason to leave.
        let late = late && !(connected && (this.waits_forever || self.faults.over));
        let stays = this.waits_forever || this.pace.is_some();
        let moves = this.state == State::Open && !stays && this.rng.per_mille(3);
        if late {
            *self.report.closed.entry("no answer".to_owned()).or_default() += 1;
            let this = &self.clients[client];
            let (server, since) = (this.server, this.pending.front().map_or(self.now, |w| w.since));
            // A request on a connection that its server has lost without notice is excused.
            if connected {
                self.check_connection_loss(server, ConnectionLoss::NoAnswer, since);
            }
            self.abandon_connection(client);
        } else if moves {
            self.abandon_connection(client);
        }
        let this = &mut self.clients[client];
        match this.state {
            State::Away if self.draining && !this.is_idle() => {}
            State::Away => self.connect(client),
            State::Open if self.setup.pipelined_syncs || !this.sync_pending => {
                let room = this.depth.saturating_sub(this.pending.len() as u64);
                let count = if self.setup.bursts { room } else { room.min(1) };
                if !self.draining {
                    self.send_requests(client, count);
                }
            }
            State::Open | State::Attaching | State::Closing => {}
        }
        self.schedule_wakeup(client)
    }

    fn send_requests(&mut self, client: usize, count: u64) {
        for _ in 0..count {
            let this = &mut self.clients[client];
            if this.state != State::Open {
                return;
            }
            for request in this.next_requests() {
                self.send_request(client, request);
            }
        }
    }

    fn schedule_wakeup(&mut self, client: usize) -> CheckResult {
        let this = &mut self.clients[client];
        this.wakeup += 1;
        let wakeup = this.wakeup;
        // Short enough that a lost connection is noticed within the time limits of the liveness phase.
        let pause = if self.setup.bursts { this.think_time * this.depth } else { this.think_time }.min(SECOND);
        let wait = this.pace.map_or_else(|| this.rng.spread(pause).max(MS), |pace| pace.interval);
        self.queue.push(self.now + wait, SimEvent::ClientWakes { client, wakeup });
        Ok(())
    }

    fn abandon_connection(&mut self, client: usize) {
        let this = &mut self.clients[client];
        let (server, connection) = (this.server, ClientId(this.connection));
        this.clear_connection();
        self.trace.line(self.now, 0, format_args!("client {client} gives up on server {}", server + 1));
        self.hosts[server].clients.remove(&connection.0);
        // Sometimes the server is not notified and keeps a dead connection.
        if self.clients[client].rng.per_mille(500) {
            self.send_to_server(client, server, Event::Detach { client: connection });
        }
    }

    /// Checks a lost connection. If neither its server nor a quorum had a fault after `since` or shortly before, a
    /// client has noticed a mere leader change or worse, which is a failure.
    pub(crate) fn check_connection_loss(&mut self, server: usize, reason: ConnectionLoss, since: u64) {
        // A script controls the faults itself and shows what its clients receive.
        if self.is_scripted() {
            return;
        }
        let well = |host: &Host| host.last_fault == 0 || host.last_fault + EXCUSED_FOR < since;
        // Servers may know different members while these change, and a leader needs a quorum of those that it knew at the
        // time.
        let all_well: Vec<_> = (0..self.hosts.len()).filter(|server| well(&self.hosts[*server])).map(id).collect();
        let is_quorate = |host: &Host| {
            let before = host.members.iter().take_while(|(from, _)| from + EXCUSED_FOR < since).count();
            let mut counted = host.members.iter().skip(before.saturating_sub(1));
            counted.all(|(_, members)| members.voters().is_quorum(all_well.iter().copied()))
        };
        if !well(&self.hosts[server]) || !self.hosts.iter().all(is_quorate) {
            return;
        }
        // With a short log in memory a leader must send snapshots, and installing one closes the connections.
        if reason == ConnectionLoss::Closed(CloseReason::SnapshotInstalled) && self.setup.tuning.retain_bytes < 1 << 20
        {
            return;
        }
        self.report.unexcused += 1;
        *self.report.unexcused_by.entry(reason.to_string()).or_default() += 1;
        self.trace.line(self.now, server + 1, format_args!("UNEXCUSED {reason}"));
        let (server, ms) = (server + 1, since / MS);
        self.fail(format!(
            "a client of server {server} lost its connection ({reason}), but since {ms} ms nothing was wrong there"
        ));
    }

    fn connect(&mut self, client: usize) {
        let servers = self.hosts.len() as u64;
        let nearest = self.clients[client].pace.map(|pace| self.nearest(pace.home));
        let this = &mut self.clients[client];
        if let Some(nearest) = nearest {
            this.server = nearest;
        } else if this.rng.per_mille(700) {
            this.server = this.rng.below(servers) as usize;
        }
        let server = this.server;
        self.connect_to(client, server);
    }

    /// Connects a client to a server and attaches its session there.
    pub(crate) fn connect_to(&mut self, client: usize, server: usize) {
        self.connections += 1;
        let connection = self.connections;
        let this = &mut self.clients[client];
        this.server = server;
        this.connection = connection;
        this.state = State::Attaching;
        this.next_cxid = 1;
        let (server, delay) = (this.server, this.delay);
        if self.is_down(server) {
            self.queue.push(
                self.now + 2 * delay,
                SimEvent::ServerMessage { client, connection, message: ServerMessage::Reset },
            );
            return;
        }
        self.hosts[server].clients.insert(connection, client);
        let change = if self.clients[client].exists { Change::Resume } else { Change::Create };
        self.send_request(client, ClientOp::Attach(change));
    }

    pub(crate) fn send_request(&mut self, client: usize, request: ClientOp) -> Cxid {
        let this = &mut self.clients[client];
        let (session, connection, server) = (this.session, ClientId(this.connection), this.server);
        let cxid = match request {
            ClientOp::Attach(_) => Cxid(0),
            ClientOp::Write(_) | ClientOp::Read(_) | ClientOp::Sync => {
                this.next_cxid += 1;
                Cxid(this.next_cxid - 1)
            }
        };
        this.sync_pending |= request == ClientOp::Sync;
        if request == ClientOp::Write(Change::CloseSession) {
            this.state = State::Closing;
        }
        let op = self.checker.guarantees.register(session, connection, cxid, request);
        let this = &mut self.clients[client];
        this.pending.push_back(Pending { op, cxid, since: self.now });
        let event = match request {
            ClientOp::Attach(change) => {
                Event::Attach { client: connection, session, body: KvRequest { op, change }.encode() }
            }
            ClientOp::Write(change) => {
                let body = KvRequest { op, change }.padded(self.setup.payload_bytes);
                Event::Request { client: connection, cxid, body }
            }
            ClientOp::Read(key) => {
                Event::Read { client: connection, cxid, body: bytes::Bytes::copy_from_slice(&key.to_le_bytes()) }
            }
            ClientOp::Sync => Event::Sync { client: connection, cxid },
        };
        if self.trace.is_on() {
            self.trace.line(
                self.now,
                0,
                format_args!("client {client} connection {} #{cxid} asks {request:?} as {op}", connection.0),
            );
        }
        self.send_to_server(client, server, event);
        cxid
    }

    fn send_to_server(&mut self, client: usize, server: usize, event: Event) {
        let (boot, at) = (self.hosts[server].boot, self.now + self.clients[client].delay);
        self.queue.push(at, SimEvent::ClientEvent { server, boot, event });
    }

    /// A client receives a message of its server.
    pub(crate) fn client_receives(&mut self, client: usize, connection: u64, message: ServerMessage) -> CheckResult {
        if self.clients[client].connection != connection {
            return Ok(());
        }
        if self.trace.is_on() {
            self.trace.line(self.now, 0, format_args!("client {client} connection {connection} hears {message:?}"));
        }
        self.observe(|_| Some(Observation::ServerMessage { client, message: message.clone() }));
        match message {
            ServerMessage::Attached(response) => self.client_attached(client, &response),
            ServerMessage::Reply(cxid, response) => self.client_answered(client, cxid, &response),
            ServerMessage::Closed(reason) => {
                self.client_closed(client, ConnectionLoss::Closed(reason));
                Ok(())
            }
            ServerMessage::Reset => {
                self.client_closed(client, ConnectionLoss::Reset);
                Ok(())
            }
        }
    }

    fn client_attached(&mut self, client: usize, response: &Response) -> CheckResult {
        let this = &mut self.clients[client];
        let pending = this.pending.pop_front().filter(|w| w.cxid == Cxid(0));
        let pending = pending.ok_or_else(|| format!("client {client} is attached twice"))?;
        self.checker.guarantees.check_answer(pending.op, response, &self.checker.history)?;
        let this = &mut self.clients[client];
        if Answer::decode(&response.body) == Some(Answer::Refused(Refusal::NoSession)) {
            this.start_new_session();
        } else {
            (this.state, this.exists) = (State::Open, true);
        }
        Ok(())
    }

    fn client_answered(&mut self, client: usize, cxid: Cxid, response: &Response) -> CheckResult {
        let this = &mut self.clients[client];
        let Some(pending) = this.pending.pop_front() else {
            return Err(format!("client {client} is answered #{cxid}, which it did not ask"));
        };
        if pending.cxid != cxid {
            return Err(format!("client {client} is answered #{cxid} before #{}", pending.cxid));
        }
        self.report.reads += u64::from(response.body.is_empty());
        if let Some(pace) = this.pace {
            self.samples.push(Sample {
                asked: pending.since,
                home: pace.home as u64 + 1,
                took: self.now - pending.since,
            });
        }
        self.checker.guarantees.check_answer(pending.op, response, &self.checker.history)?;
        let this = &mut self.clients[client];
        this.sync_pending &= !this.is_idle();
        if this.state == State::Closing && this.is_idle() {
            this.start_new_session();
        }
        Ok(())
    }

    fn client_closed(&mut self, client: usize, reason: ConnectionLoss) {
        let this = &mut self.clients[client];
        let (server, closing) = (this.server, this.state == State::Closing);
        let ended = reason == ConnectionLoss::Closed(CloseReason::SessionEnded);
        let own_request = this.in_doubt && (ended || reason == ConnectionLoss::Closed(CloseReason::SessionMoved));
        this.clear_connection();
        if closing && ended {
            return this.start_new_session();
        }
        *self.report.closed.entry(reason.to_string()).or_default() += 1;
        if reason != ConnectionLoss::Reset && !own_request {
            self.check_connection_loss(server, reason, self.now.saturating_sub(10 * SECOND));
        }
    }

    /// Closes the connections of workload clients to a server that crashed.
    pub(crate) fn drop_clients(&mut self, server: usize, crash: CrashKind) {
        for (connection, client) in std::mem::take(&mut self.hosts[server].clients) {
            match crash {
                CrashKind::Killed => {
                    let at = self.now + self.clients[client].delay;
                    self.queue.push(at, SimEvent::ServerMessage { client, connection, message: ServerMessage::Reset });
                }
                CrashKind::Silent => {}
            }
        }
    }

    /// Sets the write rate of the experiment's clients beside a server, in writes per 1000 seconds. No effect on other
    /// clients, or at a rate of 0.
    pub fn set_rate(&mut self, server: usize, milli: u64) {
        let Some(interval) = (1_000 * SECOND).checked_div(milli) else { return };
        let Self { clients, queue, now, .. } = self;
        for (client, this) in clients.iter_mut().enumerate() {
            let Some(pace) = this.pace.as_mut().filter(|pace| pace.home == server) else { continue };
            pace.interval = interval;
            // The wake-up scheduled at the old rate may be far away.
            this.wakeup += 1;
            queue.push(*now + interval, SimEvent::ClientWakes { client, wakeup: this.wakeup });
        }
    }

    /// The server to which a workload client is connected (for tests and scripts).
    #[must_use]
    pub fn server_of_client(&self, client: usize) -> Option<ServerId> {
        self.clients.get(client).map(|c| ServerId(c.server as u64 + 1))
    }
}

/// How long after a fault a lost connection is excused.
const EXCUSED_FOR: u64 = 5 * SECOND;

impl Client {
    /// Whether its session is attached at a server.
    pub(crate) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// The session has ended: switches to a new one.
    fn start_new_session(&mut self) {
        self.clear_connection();
        self.session = SessionId(self.session.0 + 1);
        (self.exists, self.in_doubt) = (false, false);
    }
}
