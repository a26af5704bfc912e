//! A client without a socket, with which the admin server writes to the tree.
//!
//! It uses the same state machine as any connection ([`pole_node::Connection`]), so that an operator's write takes the
//! path of every other write, on any server. When it is dropped the node learns that the connection is gone; its
//! session ends then or soon after.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use pole_client::{Frames, Received, SessionState, decode_session};
use pole_jute::{ErrorCode, Reply, Request};
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
    state: SessionState<()>,
    frames: Frames,
    /// Requests that the connection has not taken yet.
    input: BytesMut,
}

impl InternalClient {
    pub(crate) async fn open(shared: &Arc<Shared>) -> Result<Self, ApiError> {
        Self::open_as(shared, Caller::admin()).await
    }

    /// Opens a connection that has these identities.
    pub(crate) async fn open_as(shared: &Arc<Shared>, caller: Caller) -> Result<Self, ApiError> {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let handle = Arc::new(Handle::new(shared, nowhere, caller, None));
        handle.exempt();
        let timeout_ms = u64::try_from(shared.settings.limits.session_timeout_min_ms).unwrap_or_default();
        let state = SessionState::new(Duration::from_millis(timeout_ms));
        let (frames, input) = (Frames::default(), BytesMut::new());
        let mut client = Self { shared: Arc::clone(shared), handle, state, frames, input };
        client.frames.connect(&client.state.connect_request());
        match decode_session(client.frame().await?) {
            Ok(response) => client.state.accepted(response, &mut client.frames),
            Err(pole_client::Error::Expired) => return Err(ApiError::no_quorum()),
            Err(error) => return Err(unreadable(error)),
        }
        Ok(client)
    }

    /// Sends a request and waits for its reply.
    pub(crate) async fn request(&mut self, request: Request) -> Result<Result<Reply, ErrorCode>, ApiError> {
        self.state.send(&mut self.frames, request, ());
        loop {
            let frame = self.frame().await?;
            if let Received::Reply(done) = self.state.receive(frame).map_err(unreadable)? {
                return Ok(done.result);
            }
        }
    }

    /// Ends the session.
    pub(crate) async fn close(mut self) -> Result<(), ApiError> {
        self.request(Request::CloseSession).await.map(drop)
    }

    /// Sends what is not sent yet and waits for the next frame.
    async fn frame(&mut self) -> Result<Bytes, ApiError> {
        self.input.extend_from_slice(&self.frames.take_output());
        let (shared, handle) = (Arc::clone(&self.shared), Arc::clone(&self.handle));
        loop {
            // Created before `wants` is called, so that no notification in between is missed.
            let (confirmed, room) = (shared.confirmation_changed.notified(), shared.room.notified());
            self.advance();
            loop {
                let piece = handle.take_piece(PIECE_BYTES_MAX, shared.call_context());
                if piece.is_empty() {
                    break;
                }
                self.frames.input().extend_from_slice(&piece);
                handle.piece_sent();
            }
            if let Some(frame) = self.frames.next_frame().map_err(unreadable)? {
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
const PIECE_BYTES_MAX: usize = 1 << 20;
