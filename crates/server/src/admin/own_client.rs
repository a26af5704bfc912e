//! A client without a socket: how the admin server writes to the tree.
//!
//! It is a client like any other, with a connection of the same kind ([`pole_node::Connection`]), so that a write of an
//! operator takes the way of every write, on any server. Whatever happens, the node is told that the connection is gone;
//! its session ends with it or soon after.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use pole_jute::{ConnectRequest, ConnectResponse, Deframer, ErrorCode, OpCode, Reader, Record, ReplyHeader};
use pole_jute::{RequestHeader, Writer};
use pole_node::{Event, Next};
use pole_tree::Caller;

use super::fault::Fault;
use crate::client::Handle;
use crate::mailbox::Letter;
use crate::shared::Shared;

/// The connection, with a session.
pub(crate) struct OwnClient {
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    /// What is asked, and what has been answered.
    input: BytesMut,
    arrived: BytesMut,
    xid: i32,
}

impl OwnClient {
    /// Opens a session.
    pub(crate) async fn open(shared: &Arc<Shared>) -> Result<Self, Fault> {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let handle = Arc::new(Handle::new(shared, nowhere, Caller::admin(), None));
        let (input, arrived) = (BytesMut::new(), BytesMut::new());
        let mut client = Self { shared: Arc::clone(shared), handle, input, arrived, xid: 0 };
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: 0,
            timeout: shared.settings.limits.session_timeout_min_ms,
            session_id: 0,
            passwd: None,
            read_only: None,
        };
        let response = client.exchange(|w| request.write(w)).await?;
        let response = ConnectResponse::read(&mut Reader::new(response)).map_err(unreadable)?;
        if response.session_id == 0 { Err(Fault::no_quorum()) } else { Ok(client) }
    }

    /// Asks for a write, and waits for its answer: a code and, if all went well, a body.
    pub(crate) async fn ask(&mut self, op: OpCode, body: &[u8]) -> Result<(ErrorCode, Bytes), Fault> {
        self.xid += 1;
        let header = RequestHeader { xid: self.xid, op: op.number() };
        let frame = self.exchange(|w| {
            header.write(w);
            w.raw(body);
        });
        let mut reader = Reader::new(frame.await?);
        let header = ReplyHeader::read(&mut reader).map_err(unreadable)?;
        Ok((header.err, reader.rest()))
    }

    /// Ends the session.
    pub(crate) async fn close(mut self) -> Result<(), Fault> {
        self.ask(OpCode::CloseSession, &[]).await.map(drop)
    }

    /// Sends a frame and waits for the next one.
    async fn exchange(&mut self, request: impl FnOnce(&mut Writer)) -> Result<Bytes, Fault> {
        let mut writer = Writer::new();
        writer.frame(request);
        self.input.extend_from_slice(&writer.into_bytes());
        let deframer = Deframer::new(FRAME_BYTES_MAX);
        let (shared, handle) = (Arc::clone(&self.shared), Arc::clone(&self.handle));
        loop {
            // Created before it is asked what to wait for: nothing that happens in between is missed.
            let (confirmed, room) = (shared.confirmed_anew.notified(), shared.room.notified());
            self.advance();
            loop {
                let piece = handle.take_piece(FRAME_BYTES_MAX, shared.moment());
                if piece.is_empty() {
                    break;
                }
                self.arrived.extend_from_slice(&piece);
                handle.piece_sent();
            }
            if let Some(frame) = deframer.next(&mut self.arrived).map_err(unreadable)? {
                return Ok(frame);
            }
            let wants = handle.wants(&self.input, shared.clock.now());
            if wants.close.is_some() {
                return Err(Fault::no_quorum());
            }
            tokio::select! {
                () = handle.wake.notified() => {}
                () = confirmed, if wants.confirmation => {}
                () = room, if wants.room => {}
            }
        }
    }

    /// Hands to the node what is asked.
    fn advance(&mut self) {
        let mut events = Vec::new();
        loop {
            let (next, taken) = self.handle.advance(&self.shared, &mut self.input, &mut events);
            self.shared.asked(taken.asked);
            if next != Next::Again {
                break;
            }
        }
        for event in events {
            self.shared.mailbox.post(Letter::of_connection(&self.handle, event));
        }
    }
}

impl Drop for OwnClient {
    fn drop(&mut self) {
        self.shared.settled(self.handle.abandon_pending());
        if self.handle.is_attached() {
            self.shared.mailbox.post(Letter::Event(Event::Detach { client: self.handle.id }));
        }
    }
}

/// Our own answer: a bug if it happens, but not one to fall over.
fn unreadable(error: impl std::fmt::Display) -> Fault {
    Fault::conflict(format!("the answer of this server cannot be read: {error}; report it"))
}

/// Answers to what is asked here are small.
const FRAME_BYTES_MAX: usize = 1 << 20;
