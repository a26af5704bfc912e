//! Clients: each holds a session, asks a few things at a time, thinks, and moves to another server when it hears
//! nothing. What it is told is held against what it was promised.

use std::collections::VecDeque;
use std::fmt;

use pole_election::ServerId;
use pole_node::{ClientId, CloseReason, Event};
use pole_zab::{Cxid, SessionId};

use super::hosts::{Death, Host};
use super::judge::{Asked, Heard, Verdict};
use super::paced::{Pace, Sample};
use super::stage::Sight;
use super::world::{Happening, World};
use super::{MS, SECOND, Setup};
use crate::kv::{Answer, Ask, Change, Key, OpId, Refusal};
use crate::rng::Rng;

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    session: SessionId,
    /// Whether the session is known to exist.
    exists: bool,
    /// It left a connection on which it had asked for this session, or for its end: that may still come true, and then
    /// the session moves away from a later connection, or is over.
    astray: bool,
    state: State,
    connection: u64,
    server: usize,
    next_cxid: i32,
    waits_for: VecDeque<Waits>,
    /// Whether a sync is among them.
    syncs: bool,
    /// One way to any server.
    pub(crate) delay: u64,
    depth: u64,
    think: u64,
    /// How long it waits for an answer before it tries elsewhere.
    patience: u64,
    /// Waits for ever, as long as its server has not lost the connection: whatever is forgotten stays visible.
    pub(crate) steadfast: bool,
    /// The last thought that counts.
    thought: u64,
    /// How it behaves in an experiment.
    pace: Option<Pace>,
    rng: Rng,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Away,
    Attaching,
    Open,
    /// The end of the session is asked for, and nothing more.
    Closing,
}

#[derive(Clone, Copy, Debug)]
struct Waits {
    op: OpId,
    cxid: Cxid,
    since: u64,
}

/// How a client loses its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The server closed it.
    Closed(CloseReason),
    /// It was reset, or refused.
    Reset,
    /// The client gave it up, because the server said nothing.
    NoAnswer,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(reason) => reason.fmt(f),
            Self::Reset => f.write_str("reset"),
            Self::NoAnswer => f.write_str("no answer"),
        }
    }
}

/// What a client hears of a server.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    Attached(Heard),
    Reply(Cxid, Heard),
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
            astray: false,
            state: State::Away,
            connection: 0,
            server: own.below(setup.servers as u64) as usize,
            next_cxid: 1,
            waits_for: VecDeque::new(),
            syncs: false,
            delay: own.between(50_000, MS),
            depth: own.between(1, setup.depth_max),
            // Some are idle for most of the time: what they ask first, they ask of a server that may have been left.
            think: if index % 4 == 3 { 20 * setup.think } else { setup.think },
            patience: own.between(3, 12) * SECOND,
            steadfast: own.per_mille(400),
            thought: 0,
            pace: None,
            rng: own,
        }
    }

    /// A client of an experiment: beside its server, never tired, never leaving.
    pub(crate) fn paced(setup: &Setup, index: usize, pace: Pace, rng: &Rng) -> Self {
        let client = Self::new(setup, index, rng);
        let (server, delay, depth, patience) = (pace.home, 1_000, u64::MAX, 60 * SECOND);
        Self { server, delay, depth, patience, pace: Some(pace), ..client }
    }

    /// Whether it is attached to this server.
    pub(crate) fn is_at(&self, server: usize) -> bool {
        self.server == server && self.state == State::Open
    }

    /// Goes away without a word, and without what it waited for.
    pub(crate) fn forgets(&mut self) {
        self.leaves();
    }

    /// Whether it waits for nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.waits_for.is_empty()
    }

    fn leaves(&mut self) {
        self.astray |= matches!(self.state, State::Attaching | State::Closing);
        self.state = State::Away;
        self.connection = 0;
        self.waits_for.clear();
        self.syncs = false;
    }

    /// What to ask next.
    fn chooses(&mut self) -> Vec<Asked> {
        let rng = &mut self.rng;
        if let Some(pace) = self.pace {
            return vec![Asked::Write(Change::Put(pace.home as Key, rng.any()))];
        }
        let (register, counter, slot) = (rng.below(12) as Key, 100 + rng.below(6) as Key, 200 + rng.below(6) as Key);
        let unique = rng.any();
        match rng.below(1000) {
            0..300 => vec![Asked::Write(Change::Put(register, unique))],
            300..500 => vec![Asked::Write(Change::Add(counter, 1))],
            500..600 => vec![Asked::Write(Change::PutIf(register, unique, rng.between(1, 40) as u32))],
            600..680 => vec![Asked::Write(Change::Insert(slot, unique))],
            680..760 => vec![Asked::Write(Change::Delete(slot))],
            760..900 => vec![Asked::Read(*rng.pick(&[register, counter, slot]))],
            900..996 => vec![Asked::Sync, Asked::Read(*rng.pick(&[register, counter, slot]))],
            _ => vec![Asked::Write(Change::CloseSession)],
        }
    }
}

impl World {
    /// A client looks around.
    pub(crate) fn client_thinks(&mut self, client: usize, thought: u64) -> Verdict {
        let this = &mut self.clients[client];
        if this.thought != thought {
            return Ok(());
        }
        let late = this.waits_for.front().is_some_and(|w| w.since + this.patience < self.now);
        let connected = self.hosts[this.server].clients.contains_key(&this.connection);
        // Without faults a server answers whatever it has taken, so nobody has a reason to leave.
        let late = late && !(connected && (this.steadfast || self.weather.over));
        let stays = this.steadfast || this.pace.is_some();
        let moves = this.state == State::Open && !stays && this.rng.per_mille(3);
        if late {
            *self.report.closed.entry("no answer".to_owned()).or_default() += 1;
            let this = &self.clients[client];
            let (server, since) = (this.server, this.waits_for.front().map_or(self.now, |w| w.since));
            // Whoever asks on a connection that its server has lost in silence has its excuse.
            if connected {
                self.unexcused(server, Loss::NoAnswer, since);
            }
            self.gives_up(client);
        } else if moves {
            self.gives_up(client);
        }
        let this = &mut self.clients[client];
        match this.state {
            State::Away if self.draining && !this.is_idle() => {}
            State::Away => self.connects(client),
            State::Open if self.setup.pipelined_syncs || !this.syncs => {
                let room = this.depth.saturating_sub(this.waits_for.len() as u64);
                let count = if self.setup.bursts { room } else { room.min(1) };
                if !self.draining {
                    self.asks_some(client, count);
                }
            }
            State::Open | State::Attaching | State::Closing => {}
        }
        self.thinks_again(client)
    }

    fn asks_some(&mut self, client: usize, count: u64) {
        for _ in 0..count {
            let this = &mut self.clients[client];
            if this.state != State::Open {
                return;
            }
            for asked in this.chooses() {
                self.asks(client, asked);
            }
        }
    }

    fn thinks_again(&mut self, client: usize) -> Verdict {
        let this = &mut self.clients[client];
        this.thought += 1;
        let thought = this.thought;
        // Not so long that a lost connection is noticed later than the healing may take.
        let pause = if self.setup.bursts { this.think * this.depth } else { this.think }.min(SECOND);
        let wait = this.pace.map_or_else(|| this.rng.spread(pause).max(MS), |pace| pace.interval);
        self.queue.push(self.now + wait, Happening::Thinks { client, thought });
        Ok(())
    }

    fn gives_up(&mut self, client: usize) {
        let this = &mut self.clients[client];
        let (server, connection) = (this.server, ClientId(this.connection));
        this.leaves();
        self.trace.line(self.now, 0, format_args!("client {client} gives up on server {}", server + 1));
        self.hosts[server].clients.remove(&connection.0);
        // Sometimes the server never hears of it, and holds a connection that nobody is at the other end of.
        if self.clients[client].rng.per_mille(500) {
            self.sends_to(client, server, Event::Detach { client: connection });
        }
    }

    /// A connection is lost. If neither its server nor a quorum met a fault after `since`, or shortly before, a client has
    /// noticed a leader change, or worse, and that must not be.
    pub(crate) fn unexcused(&mut self, server: usize, reason: Loss, since: u64) {
        // A script says itself what goes wrong, and shows what its clients hear.
        if self.is_staged() {
            return;
        }
        let well = |host: &Host| host.faulted == 0 || host.faulted + EXCUSED_FOR < since;
        let quorum = self.hosts.len() / 2 + 1;
        if !well(&self.hosts[server]) || self.hosts.iter().filter(|host| well(host)).count() < quorum {
            return;
        }
        // With little log in memory a leader must send snapshots, and those cost the connections.
        if reason == Loss::Closed(CloseReason::SnapshotInstalled) && self.setup.tuning.retain_bytes < 1 << 20 {
            return;
        }
        self.report.unexcused += 1;
        *self.report.unexcused_by.entry(reason.to_string()).or_default() += 1;
        self.trace.line(self.now, server + 1, format_args!("UNEXCUSED {reason}"));
        let (server, ms) = (server + 1, since / MS);
        self.fails(format!(
            "a client of server {server} lost its connection ({reason}), but since {ms} ms nothing was wrong there"
        ));
    }

    fn connects(&mut self, client: usize) {
        let servers = self.hosts.len() as u64;
        let nearest = self.clients[client].pace.map(|pace| self.nearest(pace.home));
        let this = &mut self.clients[client];
        if let Some(nearest) = nearest {
            this.server = nearest;
        } else if this.rng.per_mille(700) {
            this.server = this.rng.below(servers) as usize;
        }
        let server = this.server;
        self.goes_to(client, server);
    }

    /// A client connects to a server and attaches its session there.
    pub(crate) fn goes_to(&mut self, client: usize, server: usize) {
        self.connections += 1;
        let connection = self.connections;
        let this = &mut self.clients[client];
        this.server = server;
        this.connection = connection;
        this.state = State::Attaching;
        this.next_cxid = 1;
        let (server, delay) = (this.server, this.delay);
        if self.is_dead(server) {
            self.queue.push(self.now + 2 * delay, Happening::Told { client, connection, told: Told::Reset });
            return;
        }
        self.hosts[server].clients.insert(connection, client);
        let change = if self.clients[client].exists { Change::Resume } else { Change::Create };
        self.asks(client, Asked::Attach(change));
    }

    pub(crate) fn asks(&mut self, client: usize, asked: Asked) -> Cxid {
        let this = &mut self.clients[client];
        let (session, connection, server) = (this.session, ClientId(this.connection), this.server);
        let cxid = match asked {
            Asked::Attach(_) => Cxid(0),
            Asked::Write(_) | Asked::Read(_) | Asked::Sync => {
                this.next_cxid += 1;
                Cxid(this.next_cxid - 1)
            }
        };
        this.syncs |= asked == Asked::Sync;
        if asked == Asked::Write(Change::CloseSession) {
            this.state = State::Closing;
        }
        let op = self.judge.promises.ask(session, connection, cxid, asked);
        let this = &mut self.clients[client];
        this.waits_for.push_back(Waits { op, cxid, since: self.now });
        let event = match asked {
            Asked::Attach(change) => Event::Attach { client: connection, session, body: Ask { op, change }.encode() },
            Asked::Write(change) => {
                let body = Ask { op, change }.padded(self.setup.payload_bytes);
                Event::Request { client: connection, cxid, body }
            }
            Asked::Read(key) => {
                Event::Read { client: connection, cxid, body: bytes::Bytes::copy_from_slice(&key.to_le_bytes()) }
            }
            Asked::Sync => Event::Sync { client: connection, cxid },
        };
        if self.trace.is_on() {
            self.trace.line(
                self.now,
                0,
                format_args!("client {client} connection {} #{cxid} asks {asked:?} as {op}", connection.0),
            );
        }
        self.sends_to(client, server, event);
        cxid
    }

    fn sends_to(&mut self, client: usize, server: usize, event: Event) {
        let (boot, at) = (self.hosts[server].boot, self.now + self.clients[client].delay);
        self.queue.push(at, Happening::Client { server, boot, event });
    }

    /// A client hears something.
    pub(crate) fn client_told(&mut self, client: usize, connection: u64, told: Told) -> Verdict {
        if self.clients[client].connection != connection {
            return Ok(());
        }
        if self.trace.is_on() {
            self.trace.line(self.now, 0, format_args!("client {client} connection {connection} hears {told:?}"));
        }
        self.see(|_| Some(Sight::Told { client, told: told.clone() }));
        match told {
            Told::Attached(heard) => self.client_attached(client, &heard),
            Told::Reply(cxid, heard) => self.client_answered(client, cxid, &heard),
            Told::Closed(reason) => {
                self.client_closed(client, Loss::Closed(reason));
                Ok(())
            }
            Told::Reset => {
                self.client_closed(client, Loss::Reset);
                Ok(())
            }
        }
    }

    fn client_attached(&mut self, client: usize, heard: &Heard) -> Verdict {
        let this = &mut self.clients[client];
        let waits = this.waits_for.pop_front().filter(|w| w.cxid == Cxid(0));
        let waits = waits.ok_or_else(|| format!("client {client} is attached twice"))?;
        self.judge.promises.answered(waits.op, heard, &self.judge.history)?;
        let this = &mut self.clients[client];
        if Answer::decode(&heard.body) == Some(Answer::Refused(Refusal::NoSession)) {
            this.begins_anew();
        } else {
            (this.state, this.exists) = (State::Open, true);
        }
        Ok(())
    }

    fn client_answered(&mut self, client: usize, cxid: Cxid, heard: &Heard) -> Verdict {
        let this = &mut self.clients[client];
        let Some(waits) = this.waits_for.pop_front() else {
            return Err(format!("client {client} is answered #{cxid}, which it did not ask"));
        };
        if waits.cxid != cxid {
            return Err(format!("client {client} is answered #{cxid} before #{}", waits.cxid));
        }
        self.report.reads += u64::from(heard.body.is_empty());
        if let Some(pace) = this.pace {
            self.samples.push(Sample { asked: waits.since, home: pace.home as u64 + 1, took: self.now - waits.since });
        }
        self.judge.promises.answered(waits.op, heard, &self.judge.history)?;
        let this = &mut self.clients[client];
        this.syncs &= !this.is_idle();
        if this.state == State::Closing && this.is_idle() {
            this.begins_anew();
        }
        Ok(())
    }

    fn client_closed(&mut self, client: usize, reason: Loss) {
        let this = &mut self.clients[client];
        let (server, closing) = (this.server, this.state == State::Closing);
        let ended = reason == Loss::Closed(CloseReason::SessionEnded);
        let own_doing = this.astray && (ended || reason == Loss::Closed(CloseReason::SessionMoved));
        this.leaves();
        if closing && ended {
            return this.begins_anew();
        }
        *self.report.closed.entry(reason.to_string()).or_default() += 1;
        if reason != Loss::Reset && !own_doing {
            self.unexcused(server, reason, self.now.saturating_sub(10 * SECOND));
        }
    }

    /// The process of a server is gone, and so are its clients' connections.
    pub(crate) fn drop_clients(&mut self, server: usize, death: Death) {
        for (connection, client) in std::mem::take(&mut self.hosts[server].clients) {
            match death {
                Death::Killed => {
                    let at = self.now + self.clients[client].delay;
                    self.queue.push(at, Happening::Told { client, connection, told: Told::Reset });
                }
                Death::Silent => {}
            }
        }
    }

    /// The clients beside a server write so much from now on, in thousandths a second. Only clients of an experiment do,
    /// and only where the topology has some.
    pub fn set_rate(&mut self, server: usize, milli: u64) {
        let Some(interval) = (1_000 * SECOND).checked_div(milli) else { return };
        let Self { clients, queue, now, .. } = self;
        for (client, this) in clients.iter_mut().enumerate() {
            let Some(pace) = this.pace.as_mut().filter(|pace| pace.home == server) else { continue };
            pace.interval = interval;
            // What it had in mind at its old pace may be far away.
            this.thought += 1;
            queue.push(*now + interval, Happening::Thinks { client, thought: this.thought });
        }
    }

    /// The server to which a client of the workload is connected (for tests and scripts).
    #[must_use]
    pub fn server_of_client(&self, client: usize) -> Option<ServerId> {
        self.clients.get(client).map(|c| ServerId(c.server as u64 + 1))
    }
}

/// How long a server may need to get over a fault.
const EXCUSED_FOR: u64 = 5 * SECOND;

impl Client {
    /// The session is over: the next one.
    fn begins_anew(&mut self) {
        self.leaves();
        self.session = SessionId(self.session.0 + 1);
        (self.exists, self.astray) = (false, false);
    }
}
