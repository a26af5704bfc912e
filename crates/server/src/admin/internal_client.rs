//! A client without a socket, with which the admin server writes to the tree.
//!
//! It uses the same state machine as any connection ([`pole_node::Connection`]), so that an operator's write takes the
//! path of every other write, on any server. When it is dropped the node learns that the connection is gone; its
//! session ends then or soon after.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use pole_jute::{ConnectRequest, ConnectResponse, Deframer, ErrorCode, OpCode, Reader, Record, ReplyHeader};
use pole_jute::{RequestHeader, Writer};
use pole_node::{Event, Next};
use pole_tree::Caller;

use super::error::ApiError;
use crate::client::Handle;
use crate::mailbox::Command;
use crate::shared::Shared;

/// A connection with a session.
pub(crate) struct InternalClient {
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    /// Requests for the connection, and replies from it.
    input: BytesMut,
    received: BytesMut,
    xid: i32,
}

impl InternalClient {
    pub(crate) async fn open(shared: &Arc<Shared>) -> Result<Self, ApiError> {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let handle = Arc::new(Handle::new(shared, nowhere, Caller::admin(), None));
        let (input, received) = (BytesMut::new(), BytesMut::new());
        let mut client = Self { shared: Arc::clone(shared), handle, input, received, xid: 0 };
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
        if response.session_id == 0 { Err(ApiError::no_quorum()) } else { Ok(client) }
    }

    /// Sends a request and waits for its reply: an error code and, on success, a body.
    pub(crate) async fn request(&mut self, op: OpCode, body: &[u8]) -> Result<(ErrorCode, Bytes), ApiError> {
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
    pub(crate) async fn close(mut self) -> Result<(), ApiError> {
        self.request(OpCode::CloseSession, &[]).await.map(drop)
    }

    /// Sends a frame and waits for the next one.
    async fn exchange(&mut self, request: impl FnOnce(&mut Writer)) -> Result<Bytes, ApiError> {
        let mut writer = Writer::new();
        writer.frame(request);
        self.input.extend_from_slice(&writer.into_bytes());
        let deframer = Deframer::new(FRAME_BYTES_MAX);
        let (shared, handle) = (Arc::clone(&self.shared), Arc::clone(&self.handle));
        loop {
            // Created before `wants` is called, so that no notification in between is missed.
            let (confirmed, room) = (shared.confirmation_changed.notified(), shared.room.notified());
            self.advance();
            loop {
                let piece = handle.take_piece(FRAME_BYTES_MAX, shared.call_context());
                if piece.is_empty() {
                    break;
                }
                self.received.extend_from_slice(&piece);
                handle.piece_sent();
            }
            if let Some(frame) = deframer.next(&mut self.received).map_err(unreadable)? {
                return Ok(frame);
            }
            let wants = handle.wants(&self.input, shared.clock.now());
            if wants.close.is_some() {
                return Err(ApiError::no_quorum());
            }
            tokio::select! {
                () = handle.wake.notified() => {}
                () = confirmed, if wants.confirmation => {}
                () = room, if wants.room => {}
            }
        }
    }

    /// Passes the requests to the node.
    fn advance(&mut self) {
        let mut events = Vec::new();
        loop {
            let (next, taken) = self.handle.advance(&self.shared, &mut self.input, &mut events);
            self.shared.add_outstanding(taken.asked);
            if next != Next::Yield {
                break;
            }
        }
        for event in events {
            self.shared.mailbox.post(Command::from_connection(&self.handle, event));
        }
    }
}

impl Drop for InternalClient {
    fn drop(&mut self) {
        self.shared.remove_outstanding(self.handle.abandon_pending());
        if self.handle.is_attached() {
            self.shared.mailbox.post(Command::Event(Event::Detach { client: self.handle.id }));
        }
    }
}

/// Our own reply was malformed, which is a bug, but no reason to panic.
fn unreadable(error: impl std::fmt::Display) -> ApiError {
    ApiError::conflict(format!("the answer of this server cannot be read: {error}; report it"))
}

/// Replies to these requests are small.
const FRAME_BYTES_MAX: usize = 1 << 20;
