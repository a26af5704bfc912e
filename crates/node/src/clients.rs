//! The client connections of this server, their sessions, and the order of replies on each connection.
//!
//! Each connection has one queue of requests and only its head is answered, so replies keep the order of the requests.
//! A read or a sync waits for the earlier writes of its session. A write waits for an earlier sync: were it applied
//! first, a read between the two would see a write that its session sent later.
//!
//! Requests on their way through the agreement are held in `zab::Requests`.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use bytes::Bytes;
use pole_types::{Cxid, SessionId, Zxid};

use crate::ClientId;

/// All client connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients {
    connections: BTreeMap<ClientId, Connection>,
    sessions: BTreeMap<SessionId, ClientId>,
}

#[derive(Clone, Debug)]
struct Connection {
    session: SessionId,
    queue: VecDeque<QueuedRequest>,
    /// The number of syncs in the queue without an answer.
    syncs: usize,
    /// Writes that wait for those syncs.
    deferred: VecDeque<(Cxid, Bytes)>,
}

/// A request that is not answered yet.
#[derive(Clone, Debug)]
struct QueuedRequest {
    cxid: Cxid,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// A write under way.
    Open,
    /// A sync under way.
    Sync,
    /// The reply to a write. It waits for the replies before it.
    Answered(Zxid, Bytes),
    /// A completed sync. Its reply carries the server's position at the time when it is sent.
    Synced,
    /// A read, which is performed when everything before it is answered.
    Read(Bytes),
}

/// The next reply to a client.
pub(crate) enum Answer {
    /// A complete reply.
    Known(Zxid, Bytes),
    /// The reply to a sync.
    Synced,
    /// A read that must be performed now.
    Read(Bytes),
}

impl Clients {
    /// Attaches a session to a connection. Returns the connection that had the session on this server.
    pub(crate) fn attach(&mut self, client: ClientId, session: SessionId) -> Option<ClientId> {
        let older = self.sessions.insert(session, client).filter(|older| *older != client);
        if let Some(older) = older {
            self.connections.remove(&older);
        }
        self.connections
            .insert(client, Connection { session, queue: VecDeque::new(), syncs: 0, deferred: VecDeque::new() });
        older
    }

    /// Removes a connection. Returns its session, unless another connection has taken that over.
    pub(crate) fn remove(&mut self, client: ClientId) -> Option<SessionId> {
        let session = self.connections.remove(&client)?.session;
        (self.sessions.get(&session) == Some(&client)).then(|| {
            self.sessions.remove(&session);
            session
        })
    }

    /// Removes the connection of a session.
    pub(crate) fn remove_session(&mut self, session: SessionId) -> Option<ClientId> {
        let client = self.sessions.remove(&session)?;
        self.connections.remove(&client);
        Some(client)
    }

    /// Removes all connections.
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

    /// Queues a write. Returns its body, unless it has to wait for a sync.
    pub(crate) fn write(&mut self, client: ClientId, cxid: Cxid, body: Bytes) -> Option<Bytes> {
        self.push(client, cxid, State::Open);
        let connection = self.connections.get_mut(&client)?;
        if connection.syncs == 0 {
            return Some(body);
        }
        connection.deferred.push_back((cxid, body));
        None
    }

    pub(crate) fn sync(&mut self, client: ClientId, cxid: Cxid) {
        self.push(client, cxid, State::Sync);
        if let Some(connection) = self.connections.get_mut(&client) {
            connection.syncs += 1;
        }
    }

    pub(crate) fn read(&mut self, client: ClientId, cxid: Cxid, body: Bytes) {
        self.push(client, cxid, State::Read(body));
    }

    /// Records the reply to the first open write with this number.
    pub(crate) fn answer(&mut self, client: ClientId, cxid: Cxid, zxid: Zxid, reply: Bytes) {
        let Some(connection) = self.connections.get_mut(&client) else { return };
        let open = |waiting: &&mut QueuedRequest| waiting.cxid == cxid && matches!(waiting.state, State::Open);
        if let Some(waiting) = connection.queue.iter_mut().find(open) {
            waiting.state = State::Answered(zxid, reply);
        }
    }

    /// Completes a sync. Returns the writes that waited for it if no other sync is open.
    pub(crate) fn synced(&mut self, client: ClientId, cxid: Cxid) -> VecDeque<(Cxid, Bytes)> {
        let Some(connection) = self.connections.get_mut(&client) else { return VecDeque::new() };
        let open = |waiting: &&mut QueuedRequest| waiting.cxid == cxid && matches!(waiting.state, State::Sync);
        if let Some(waiting) = connection.queue.iter_mut().find(open) {
            waiting.state = State::Synced;
            connection.syncs -= 1;
        }
        if connection.syncs == 0 { core::mem::take(&mut connection.deferred) } else { VecDeque::new() }
    }

    /// Returns the next reply to this client, if it is due.
    pub(crate) fn next(&mut self, client: ClientId) -> Option<(Cxid, Answer)> {
        let queue = &mut self.connections.get_mut(&client)?.queue;
        if matches!(queue.front()?.state, State::Open | State::Sync) {
            return None;
        }
        let QueuedRequest { cxid, state } = queue.pop_front()?;
        match state {
            State::Open | State::Sync => None,
            State::Answered(zxid, reply) => Some((cxid, Answer::Known(zxid, reply))),
            State::Synced => Some((cxid, Answer::Synced)),
            State::Read(body) => Some((cxid, Answer::Read(body))),
        }
    }

    fn push(&mut self, client: ClientId, cxid: Cxid, state: State) {
        if let Some(connection) = self.connections.get_mut(&client) {
            connection.queue.push_back(QueuedRequest { cxid, state });
        }
    }
}
