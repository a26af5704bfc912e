//! The clients of this server: whose connection is whose session, and in which order they are answered.
//!
//! In: what clients ask, and what became of it. Out: answers, in the order of the questions.
//! Why: a read waits behind the writes of its session that came before it, and so does a sync; each connection has
//! one queue, and only its head is answered. A write waits behind a sync: were it applied first, a read between the
//! two would see what its session asked for only later.
//! Not here: the requests on their way through the agreement (`zab::Requests`).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use bytes::Bytes;
use pole_election::Zxid;
use pole_zab::{Cxid, SessionId};

use crate::ClientId;

/// All connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients {
    connections: BTreeMap<ClientId, Connection>,
    sessions: BTreeMap<SessionId, ClientId>,
}

#[derive(Clone, Debug)]
struct Connection {
    session: SessionId,
    queue: VecDeque<Waiting>,
    /// Syncs in the queue that have no answer.
    syncs: usize,
    /// Writes that wait for them.
    deferred: VecDeque<(Cxid, Bytes)>,
}

/// Something that a client waits for.
#[derive(Clone, Debug)]
struct Waiting {
    cxid: Cxid,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// A write under way.
    Open,
    /// A sync without an answer.
    Sync,
    /// Its answer, which waits for those before it.
    Answered(Zxid, Bytes),
    /// A sync that is done: its answer is where the server is when it is told.
    Synced,
    /// A read, made when everything before it is answered.
    Read(Bytes),
}

/// What can be said to a client now.
pub(crate) enum Answer {
    /// This is the answer.
    Known(Zxid, Bytes),
    /// The sync is done.
    Synced,
    /// Make this read now.
    Read(Bytes),
}

impl Clients {
    /// A connection takes a session; returns the connection that had it here.
    pub(crate) fn attach(&mut self, client: ClientId, session: SessionId) -> Option<ClientId> {
        let older = self.sessions.insert(session, client).filter(|older| *older != client);
        if let Some(older) = older {
            self.connections.remove(&older);
        }
        self.connections
            .insert(client, Connection { session, queue: VecDeque::new(), syncs: 0, deferred: VecDeque::new() });
        older
    }

    /// Forgets a connection; returns its session if that was still attached by it.
    pub(crate) fn remove(&mut self, client: ClientId) -> Option<SessionId> {
        let session = self.connections.remove(&client)?.session;
        (self.sessions.get(&session) == Some(&client)).then(|| {
            self.sessions.remove(&session);
            session
        })
    }

    /// Forgets the connection of a session.
    pub(crate) fn remove_session(&mut self, session: SessionId) -> Option<ClientId> {
        let client = self.sessions.remove(&session)?;
        self.connections.remove(&client);
        Some(client)
    }

    /// Forgets all connections.
    pub(crate) fn take_all(&mut self) -> Vec<ClientId> {
        self.sessions.clear();
        core::mem::take(&mut self.connections).into_keys().collect()
    }

    pub(crate) fn session(&self, client: ClientId) -> Option<SessionId> {
        self.connections.get(&client).map(|connection| connection.session)
    }

    pub(crate) fn client(&self, session: SessionId) -> Option<ClientId> {
        self.sessions.get(&session).copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// A write was asked. Returns it, unless it has to wait for a sync.
    pub(crate) fn write(&mut self, client: ClientId, cxid: Cxid, body: Bytes) -> Option<Bytes> {
        self.push(client, cxid, State::Open);
        let connection = self.connections.get_mut(&client)?;
        if connection.syncs == 0 {
            return Some(body);
        }
        connection.deferred.push_back((cxid, body));
        None
    }

    /// A sync was asked.
    pub(crate) fn sync(&mut self, client: ClientId, cxid: Cxid) {
        self.push(client, cxid, State::Sync);
        if let Some(connection) = self.connections.get_mut(&client) {
            connection.syncs += 1;
        }
    }

    /// A read was asked.
    pub(crate) fn read(&mut self, client: ClientId, cxid: Cxid, body: Bytes) {
        self.push(client, cxid, State::Read(body));
    }

    /// A write has its answer: the first open one of this number.
    pub(crate) fn answer(&mut self, client: ClientId, cxid: Cxid, zxid: Zxid, reply: Bytes) {
        let Some(connection) = self.connections.get_mut(&client) else { return };
        let open = |waiting: &&mut Waiting| waiting.cxid == cxid && matches!(waiting.state, State::Open);
        if let Some(waiting) = connection.queue.iter_mut().find(open) {
            waiting.state = State::Answered(zxid, reply);
        }
    }

    /// A sync has its answer. Returns the writes that waited for it, when no other sync is open.
    pub(crate) fn synced(&mut self, client: ClientId, cxid: Cxid) -> VecDeque<(Cxid, Bytes)> {
        let Some(connection) = self.connections.get_mut(&client) else { return VecDeque::new() };
        let open = |waiting: &&mut Waiting| waiting.cxid == cxid && matches!(waiting.state, State::Sync);
        if let Some(waiting) = connection.queue.iter_mut().find(open) {
            waiting.state = State::Synced;
            connection.syncs -= 1;
        }
        if connection.syncs == 0 { core::mem::take(&mut connection.deferred) } else { VecDeque::new() }
    }

    /// The next thing that can be said to this client, in order.
    pub(crate) fn next(&mut self, client: ClientId) -> Option<(Cxid, Answer)> {
        let queue = &mut self.connections.get_mut(&client)?.queue;
        if matches!(queue.front()?.state, State::Open | State::Sync) {
            return None;
        }
        let Waiting { cxid, state } = queue.pop_front()?;
        match state {
            State::Open | State::Sync => None,
            State::Answered(zxid, reply) => Some((cxid, Answer::Known(zxid, reply))),
            State::Synced => Some((cxid, Answer::Synced)),
            State::Read(body) => Some((cxid, Answer::Read(body))),
        }
    }

    fn push(&mut self, client: ClientId, cxid: Cxid, state: State) {
        if let Some(connection) = self.connections.get_mut(&client) {
            connection.queue.push_back(Waiting { cxid, state });
        }
    }
}
