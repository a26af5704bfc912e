//! The simulator as a driver of [`pole_node::Connection`]: client bytes arrive, replies leave as bytes.
//!
//! A paused process takes no input; what arrives meanwhile waits as in a socket's buffer. Half of the connections send
//! their output in pieces of one frame each, as the server does with TLS; the others send byte streams split at random.

use bytes::{Bytes, BytesMut};
use pole_node::{
    AttachAnswer, CallContext, ClientId, CloseReason, Connection, Effect, Event, Limits, Next, Nonce, ServerContext,
};
use pole_tree::{Caller, Watcher};
use pole_types::{SessionId, Time, Zxid};

use super::client::FromServer;
use crate::checker::CheckResult;
use crate::state::SimTree;
use crate::world::{SimEvent, World};

/// The server's end of a connection.
#[derive(Debug)]
pub(crate) struct ServerEnd {
    client: usize,
    /// The session that the client gets if it asks for a new one. The client may have another one in mind by now.
    session: SessionId,
    machine: Connection,
    input: BytesMut,
    /// The client has closed the connection; it ends when the input received before that is processed.
    is_finished: bool,
    /// When the client last sent a request, in true time, and since when it does so without long pauses.
    active_at: u64,
    active_since: u64,
    /// When the last bytes sent arrive at the client. Later bytes do not overtake them.
    sent_until: u64,
}

/// What a server receives from a client.
#[derive(Clone, Debug)]
pub(crate) enum ToServer {
    /// A connection of this client opens, for this session if the server has to give it a new one.
    Open { client: usize, session: SessionId },
    /// Bytes arrive on it.
    Bytes(Bytes),
    /// The client closes it.
    Finished,
}

/// The server of a connection.
struct ConnectionContext<'a> {
    /// The id of the client's next session. The client chooses it, so that the checker knows it in advance.
    new_session: i64,
    tree: Option<&'a SimTree>,
}

impl ServerContext for ConnectionContext<'_> {
    fn new_session(&self) -> i64 {
        self.new_session
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn has_room(&self, _requests: usize, _bytes: usize) -> bool {
        true
    }

    fn identify(&self, watcher: Watcher, caller: &Caller) {
        if let Some(tree) = self.tree {
            tree.watches_mut().identify(watcher, caller);
        }
    }

    /// The simulated servers have no users.
    fn nonce(&self) -> Option<Nonce> {
        None
    }
}

impl ServerEnd {
    /// Whether the client of this session is active now and has been for a whole timeout.
    pub(crate) fn is_active(&self, session: SessionId, timeout: u64, now: u64) -> bool {
        self.machine.session() == session.0 && self.active_since + timeout < now && self.active_at + timeout / 2 > now
    }
}

impl crate::hosts::Host {
    /// The connection that an effect is for. Marks it to be served after the step.
    fn machine(&mut self, client: ClientId) -> Option<&mut Connection> {
        self.dirty.insert(client.0);
        self.connections.get_mut(&client.0).map(|end| &mut end.machine)
    }
}

impl World {
    /// A server receives input of a client.
    pub(crate) fn reaches_server(&mut self, server: usize, boot: u32, connection: u64, input: ToServer) -> CheckResult {
        if self.hosts[server].boot != boot || self.is_down(server) {
            return Ok(());
        }
        match input {
            ToServer::Open { client, session } => {
                let host = &mut self.hosts[server];
                let now = Time(host.clock.read(self.now));
                let limits = Limits { session_timeout_min_ms: 1, ..Limits::default() };
                let machine = Connection::new(ClientId(connection), limits, Caller::default(), now);
                let end = ServerEnd {
                    client,
                    session,
                    machine,
                    input: BytesMut::new(),
                    is_finished: false,
                    active_at: self.now,
                    active_since: self.now,
                    sent_until: 0,
                };
                host.connections.insert(connection, end);
            }
            ToServer::Bytes(bytes) => {
                if let Some(end) = self.hosts[server].connections.get_mut(&connection) {
                    end.input.extend_from_slice(&bytes);
                    self.serve(server, connection)?;
                }
            }
            ToServer::Finished => {
                if let Some(end) = self.hosts[server].connections.get_mut(&connection) {
                    end.is_finished = true;
                    self.serve(server, connection)?;
                }
            }
        }
        Ok(())
    }

    /// Runs a connection as far as it gets: takes requests, answers reads, sends output, closes.
    fn serve(&mut self, server: usize, connection: u64) -> CheckResult {
        if self.hosts[server].paused {
            return Ok(());
        }
        loop {
            let host = &mut self.hosts[server];
            let Some(node) = &host.node else { return Ok(()) };
            let at = CallContext {
                now: Time(host.clock.read(self.now)),
                confirmed: host.confirmed,
                applied: node.applied().0.cast_signed(),
            };
            let Some(end) = host.connections.get_mut(&connection) else { return Ok(()) };
            if end.machine.has_request(&end.input) {
                host.touched.insert(SessionId(end.machine.session()));
                let timeout = self.sim_clients[end.client].timeout();
                if end.active_at + timeout / 2 < self.now {
                    end.active_since = self.now;
                }
                end.active_at = self.now;
            }
            let tree = node.machine().sim_tree();
            let context = ConnectionContext { new_session: end.session.0, tree };
            let mut events = Vec::new();
            let next = end.machine.advance(&mut end.input, &context, at, &mut events);
            if let (Next::Read, Some(tree)) = (next, tree) {
                end.machine.read(&mut end.input, tree.nodes(), || tree.watches_mut(), at, || true);
            }
            events.into_iter().for_each(|event| self.deliver_batched(server, event));
            match next {
                Next::Wait => break,
                Next::Yield | Next::Read => {}
                Next::Gssapi => return Err("a client of the simulator used Kerberos".to_owned()),
                Next::FourLetterWord => return Err("a client of the simulator sent a four-letter word".to_owned()),
            }
        }
        self.send_output(server, connection);
        self.end_if_closing(server, connection);
        Ok(())
    }

    /// Sends the output that may leave the server.
    fn send_output(&mut self, server: usize, connection: u64) {
        let host = &mut self.hosts[server];
        let now = Time(host.clock.read(self.now));
        let applied = host.node.as_ref().map_or(Zxid::ZERO, |node| node.applied()).0.cast_signed();
        let at = CallContext { now, confirmed: host.confirmed, applied };
        let Some(end) = host.connections.get_mut(&connection) else { return };
        let arrives = self.now + host.step_cost + self.sim_clients[end.client].delay;
        end.sent_until = end.sent_until.max(arrives);
        let mut send = |bytes: Bytes| {
            let input = FromServer::Bytes(bytes);
            self.queue.push(end.sent_until, SimEvent::ReachesClient { client: end.client, connection, input });
        };
        if connection.is_multiple_of(2) {
            loop {
                let piece = end.machine.take_piece(usize::MAX, at);
                if piece.is_empty() {
                    break;
                }
                end.machine.piece_sent();
                send(piece);
            }
        } else {
            loop {
                let unsent = end.machine.unsent(at);
                if unsent.is_empty() {
                    break;
                }
                let count = 1 + self.cuts.below(unsent.len() as u64) as usize;
                send(Bytes::copy_from_slice(&unsent[..count]));
                end.machine.sent(count);
            }
        }
        if end.machine.waits_for_confirmation() {
            self.report.held += 1;
        }
    }

    /// Removes a connection that is closing, once everything before its end is done.
    fn end_if_closing(&mut self, server: usize, connection: u64) {
        let Some(end) = self.hosts[server].connections.get_mut(&connection) else { return };
        if end.is_finished && end.machine.wants_input(&end.input) {
            end.machine.close(CloseReason::ByClient);
        }
        let Some(reason) = end.machine.close_reason() else { return };
        let (client, at, is_attached) = (end.client, end.sent_until.max(self.now), end.machine.is_attached());
        end.machine.abandon_pending();
        if reason != CloseReason::ByClient {
            let input = FromServer::Closed(reason);
            self.queue.push(at, SimEvent::ReachesClient { client, connection, input });
        }
        self.hosts[server].connections.remove(&connection);
        if is_attached {
            self.deliver_batched(server, Event::Detach { client: ClientId(connection) });
        }
    }

    /// Passes an effect for a ZooKeeper client to its connection. The connection is served only after all effects of
    /// the step have been executed: before that the tree must not be read.
    pub(crate) fn pass_to_connection(&mut self, server: usize, effect: Effect) -> CheckResult {
        let host = &mut self.hosts[server];
        let now = Time(host.clock.read(self.now));
        match effect {
            Effect::Attached { client, zxid, answer } => {
                let Some(machine) = host.machine(client) else { return Ok(()) };
                machine.attached(answer);
                self.attachments.insert(client.0, (zxid, answer));
            }
            Effect::Reply { client, cxid, zxid, body } => {
                let Some(machine) = host.machine(client) else { return Ok(()) };
                machine.reply(cxid.0, zxid.0.cast_signed(), &body, now);
                if machine.close_reason() == Some(CloseReason::OutOfOrder) {
                    return Err(format!("connection {} is answered #{cxid} out of order", client.0));
                }
            }
            Effect::Notify { client, zxid, body } => {
                if let Some(machine) = host.machine(client) {
                    machine.notify(zxid.0.cast_signed(), &body);
                }
            }
            Effect::Close { client, reason } => {
                if let Some(machine) = host.machine(client) {
                    machine.close(reason);
                }
            }
            Effect::Confirmed { at } => {
                host.confirmed = host.confirmed.max(at);
                host.dirty.extend(host.connections.keys());
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
            | Effect::TransferRefused(_)
            | Effect::Members { .. }
            | Effect::Note(_)
            | Effect::Halt { .. } => {}
        }
        Ok(())
    }

    /// The effects of a step have been executed: its changes become readable, and marked connections are served.
    pub(crate) fn publish(&mut self, server: usize) -> CheckResult {
        self.hosts[server].contract.published()?;
        for connection in std::mem::take(&mut self.hosts[server].dirty) {
            self.serve(server, connection)?;
        }
        Ok(())
    }

    /// Serves all connections of a server.
    pub(crate) fn serve_all(&mut self, server: usize) -> CheckResult {
        let all: Vec<_> = self.hosts[server].connections.keys().copied().collect();
        all.into_iter().try_for_each(|connection| self.serve(server, connection))
    }

    /// Takes the server's answer to the session request of this connection, with its zxid, which only a simulator
    /// knows.
    pub(crate) fn attachment(&mut self, connection: u64) -> Option<(Zxid, AttachAnswer)> {
        self.attachments.remove(&connection)
    }
}
