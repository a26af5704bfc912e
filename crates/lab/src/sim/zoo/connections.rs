//! The simulator as a driver of [`pole_node::Connection`]: bytes of clients arrive, replies leave as bytes.
//!
//! A process that is paused takes nothing; what arrives meanwhile waits in the input, as in a socket's buffer. Half of the
//! connections send their output as pieces of one frame each, as the server does with TLS, the others as the bytes come,
//! cut anywhere.

use bytes::{Bytes, BytesMut};
use pole_election::Zxid;
use pole_node::{AttachAnswer, ClientId, CloseReason, Connection, Effect, Event, Limits, Moment, Next, ServerContext};
use pole_oracle::Time;
use pole_tree::{Caller, Watcher};
use pole_zab::SessionId;

use super::guest::FromServer;
use crate::sim::judge::Verdict;
use crate::sim::state::Stand;
use crate::sim::world::{Happening, World};

/// A connection at its server.
#[derive(Debug)]
pub(crate) struct ServerEnd {
    guest: usize,
    machine: Connection,
    input: BytesMut,
    /// The client has closed the connection; it ends when the input before that is taken.
    is_finished: bool,
    /// When the client was last heard, in true time, and since when without long pauses.
    heard_at: u64,
    heard_since: u64,
    /// When the last bytes arrive at the client: none after them arrives before them.
    told_until: u64,
}

/// What reaches a server from a client.
#[derive(Clone, Debug)]
pub(crate) enum ToServer {
    /// A connection, of this client.
    Open(usize),
    /// Bytes on it.
    Bytes(Bytes),
    /// The client has closed it.
    Finished,
}

/// The server around a connection.
struct Host<'a> {
    /// The id that the client's next session will have: the client chose it, so that the judge knows it beforehand.
    new_session: i64,
    stand: Option<&'a Stand>,
}

impl ServerContext for Host<'_> {
    fn new_session(&self) -> i64 {
        self.new_session
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn has_room(&self) -> bool {
        true
    }

    fn identify(&self, watcher: Watcher, caller: &Caller) {
        if let Some(stand) = self.stand {
            stand.watches_mut().identify(watcher, caller);
        }
    }
}

impl ServerEnd {
    /// Whether it hears this session now and did so for the whole of a timeout.
    pub(crate) fn hears(&self, session: SessionId, timeout: u64, now: u64) -> bool {
        self.machine.session() == session.0 && self.heard_since + timeout < now && self.heard_at + timeout / 2 > now
    }
}

impl crate::sim::hosts::Host {
    /// The connection that an effect is for; it goes on when the step is done.
    fn machine(&mut self, client: ClientId) -> Option<&mut Connection> {
        self.dirty.insert(client.0);
        self.connections.get_mut(&client.0).map(|end| &mut end.machine)
    }
}

impl World {
    /// Something of a client reaches a server.
    pub(crate) fn reaches_server(&mut self, server: usize, boot: u32, connection: u64, what: ToServer) -> Verdict {
        if self.hosts[server].boot != boot || self.is_dead(server) {
            return Ok(());
        }
        match what {
            ToServer::Open(guest) => {
                let host = &mut self.hosts[server];
                let now = Time(host.clock.read(self.now));
                let limits = Limits { session_timeout_min_ms: 1, ..Limits::default() };
                let machine = Connection::new(ClientId(connection), limits, Caller::default(), now);
                let end = ServerEnd {
                    guest,
                    machine,
                    input: BytesMut::new(),
                    is_finished: false,
                    heard_at: self.now,
                    heard_since: self.now,
                    told_until: 0,
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

    /// Lets a connection do what it can: take requests, answer reads, send, end.
    fn serve(&mut self, server: usize, connection: u64) -> Verdict {
        if self.hosts[server].paused {
            return Ok(());
        }
        loop {
            let host = &mut self.hosts[server];
            let Some(node) = &host.node else { return Ok(()) };
            let at = Moment {
                now: Time(host.clock.read(self.now)),
                confirmed: host.confirmed,
                applied: node.applied().0.cast_signed(),
            };
            let Some(end) = host.connections.get_mut(&connection) else { return Ok(()) };
            if end.machine.has_request(&end.input) {
                host.touched.insert(SessionId(end.machine.session()));
                let timeout = self.guests[end.guest].timeout();
                if end.heard_at + timeout / 2 < self.now {
                    end.heard_since = self.now;
                }
                end.heard_at = self.now;
            }
            let stand = node.machine().stand();
            let around = Host { new_session: self.guests[end.guest].session.0, stand };
            let mut events = Vec::new();
            let next = end.machine.advance(&mut end.input, &around, at, &mut events);
            if let (Next::Read, Some(stand)) = (next, stand) {
                end.machine.read(&mut end.input, stand.nodes(), || stand.watches_mut(), at, || true);
            }
            events.into_iter().for_each(|event| self.hand_batched(server, event));
            match next {
                Next::Wait => break,
                Next::Yield | Next::Read => {}
                Next::FourLetterWord => return Err("a client of the simulator sent a four-letter word".to_owned()),
            }
        }
        self.send_output(server, connection);
        self.end_if_closing(server, connection);
        Ok(())
    }

    /// Sends what the client may be told.
    fn send_output(&mut self, server: usize, connection: u64) {
        let host = &mut self.hosts[server];
        let now = Time(host.clock.read(self.now));
        let applied = host.node.as_ref().map_or(Zxid::ZERO, |node| node.applied()).0.cast_signed();
        let at = Moment { now, confirmed: host.confirmed, applied };
        let Some(end) = host.connections.get_mut(&connection) else { return };
        let arrives = self.now + host.step_cost + self.guests[end.guest].delay;
        end.told_until = end.told_until.max(arrives);
        let mut send = |bytes: Bytes| {
            let what = FromServer::Bytes(bytes);
            self.queue.push(end.told_until, Happening::ReachesClient { guest: end.guest, connection, what });
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

    /// A connection that is to end does so when everything before its end is done.
    fn end_if_closing(&mut self, server: usize, connection: u64) {
        let Some(end) = self.hosts[server].connections.get_mut(&connection) else { return };
        if end.is_finished && end.machine.wants_input(&end.input) {
            end.machine.close(CloseReason::ByClient);
        }
        let Some(reason) = end.machine.close_reason() else { return };
        let (guest, at, is_attached) = (end.guest, end.told_until.max(self.now), end.machine.is_attached());
        end.machine.abandon_pending();
        if reason != CloseReason::ByClient {
            let what = FromServer::Closed(reason);
            self.queue.push(at, Happening::ReachesClient { guest, connection, what });
        }
        self.hosts[server].connections.remove(&connection);
        if is_attached {
            self.hand_batched(server, Event::Detach { client: ClientId(connection) });
        }
    }

    /// What the node says to a client of the service. The connection goes on when all effects of the step are carried
    /// out: before that the tree must not be read.
    pub(crate) fn node_says(&mut self, server: usize, effect: Effect) -> Verdict {
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
            | Effect::Note(_)
            | Effect::Halt { .. } => {}
        }
        Ok(())
    }

    /// The effects of a step are carried out: its changes may be read, and connections that have something to do go on.
    pub(crate) fn publish(&mut self, server: usize) -> Verdict {
        self.hosts[server].contract.published()?;
        for connection in std::mem::take(&mut self.hosts[server].dirty) {
            self.serve(server, connection)?;
        }
        Ok(())
    }

    /// Goes on with everyone who waits.
    pub(crate) fn serve_all(&mut self, server: usize) -> Verdict {
        let all: Vec<_> = self.hosts[server].connections.keys().copied().collect();
        all.into_iter().try_for_each(|connection| self.serve(server, connection))
    }

    /// What the server made of the request for a session on this connection, and where in the history; only a simulator
    /// knows the latter.
    pub(crate) fn attachment(&mut self, connection: u64) -> Option<(Zxid, AttachAnswer)> {
        self.attachments.remove(&connection)
    }
}
