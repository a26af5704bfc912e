//! A client without a socket: how the admin server writes to the tree.
//!
//! In: requests. Out: their answers, when they are committed and applied here.
//! Why a client like any other: a write of an operator takes the way of every write, on any server, and needs no door
//! of its own into the agreement.
//! Holds: whatever happens, the node is told that the connection is gone; its session ends with it or soon after.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use pole_jute::{Deframer, ErrorCode, OpCode, Reader, Record, ReplyHeader};
use pole_node::Event;
use pole_tree::{Ask, Caller};
use pole_zab::Cxid;

use super::fault::Fault;
use crate::client::{Handle, State, Waiting};
use crate::mailbox::Letter;
use crate::shared::Shared;

/// The connection, with a session.
pub(crate) struct OwnClient {
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    arrived: BytesMut,
    asked: i32,
}

impl OwnClient {
    /// Opens a session.
    pub(crate) async fn open(shared: &Arc<Shared>) -> Result<Self, Fault> {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let handle = Arc::new(Handle::new(shared.next_client(), nowhere, shared.clock.now(), None));
        handle.wants(shared.session_ids.next(), None);
        let body = Ask::attach(shared.settings.session_timeout_min_ms, false);
        shared.mailbox.post(Letter::Attach { handle: Arc::clone(&handle), body, wants_flag: false });
        let mut client = Self { shared: Arc::clone(shared), handle, arrived: BytesMut::new(), asked: 0 };
        // The first frame says that the session is there.
        client.frame().await?;
        Ok(client)
    }

    /// Asks for a write, and waits for its answer: a code and, if all went well, a body.
    pub(crate) async fn ask(&mut self, op: OpCode, body: &[u8]) -> Result<(ErrorCode, Bytes), Fault> {
        self.asked += 1;
        let (client, cxid) = (self.handle.id, Cxid(self.asked));
        let waiting = Waiting { at: self.shared.clock.now(), sync: None };
        self.shared.outstanding.fetch_add(1, Ordering::AcqRel);
        self.handle.asked(1, (self.asked, op.number()), [waiting]);
        let body = Ask::encode(op, &Caller::admin(), body);
        self.shared.mailbox.post(Letter::Event(Event::Request { client, cxid, body }));
        let mut reader = Reader::new(self.frame().await?);
        let header = ReplyHeader::read(&mut reader).map_err(unreadable)?;
        Ok((header.err, reader.rest()))
    }

    /// Ends the session.
    pub(crate) async fn close(mut self) -> Result<(), Fault> {
        self.ask(OpCode::CloseSession, &[]).await.map(drop)
    }

    async fn frame(&mut self) -> Result<Bytes, Fault> {
        let deframer = Deframer::new(FRAME_BYTES_MAX);
        loop {
            let (now, confirmed) = (self.shared.clock.now(), self.shared.confirmed());
            self.arrived.extend_from_slice(&self.handle.take_unsent(now, confirmed));
            if let Some(frame) = deframer.next(&mut self.arrived).map_err(unreadable)? {
                return Ok(frame);
            }
            match self.handle.state() {
                State::Connecting | State::Open => self.handle.wake.notified().await,
                State::Closing(_) | State::Broken => return Err(Fault::no_quorum()),
            }
        }
    }
}

impl Drop for OwnClient {
    fn drop(&mut self) {
        self.shared.settled(self.handle.drop_waiting());
        self.shared.mailbox.post(Letter::Event(Event::Detach { client: self.handle.id }));
    }
}

/// Our own answer: a bug if it happens, but not one to fall over.
fn unreadable(error: impl std::fmt::Display) -> Fault {
    Fault::conflict(format!("the answer of this server cannot be read: {error}; report it"))
}

/// Answers to what is asked here are small.
const FRAME_BYTES_MAX: usize = 1 << 20;
