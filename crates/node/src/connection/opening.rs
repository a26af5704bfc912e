//! The beginning of a connection: a four-letter word, or a request for a session.

use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};
use pole_jute::{ConnectRequest, ConnectResponse, Reader, Record, Writer};
use pole_tree::WriteRequest;
use pole_types::SessionId;

use super::{CallContext, CloseReason, Connection, Next, ServerContext, State, password};
use crate::Event;

impl Connection {
    /// Processes the first bytes of the client once they have arrived.
    pub(super) fn read_first_request(
        &mut self,
        input: &mut BytesMut,
        server: &impl ServerContext,
        context: CallContext,
        events: &mut Vec<Event>,
    ) -> Result<Next, CloseReason> {
        if pole_jute::four_letter_word(input).is_some() {
            return Ok(Next::FourLetterWord);
        }
        let Some(frame) = self.deframer.next(input)? else { return Ok(Next::Wait) };
        let request = ConnectRequest::read(&mut Reader::new(frame))?;
        if request.last_zxid_seen > context.applied {
            return Err(CloseReason::ClientAhead);
        }
        if !self.is_exempt {
            server.admit(request.session_id != 0, context.now)?;
        }
        if server.is_read_only() {
            return self.open_read_only(&request, server);
        }
        self.request_session(&request, server, context, events)
    }

    /// Answers a four-letter word with this text.
    pub fn answer_four_letter_word(&mut self, text: &str) {
        self.output.raw(text.as_bytes());
        self.close(CloseReason::FourLetterWordAnswered);
    }

    /// Requests a session from the node: a new one, or the one that the client had.
    fn request_session(
        &mut self,
        request: &ConnectRequest,
        server: &impl ServerContext,
        context: CallContext,
        events: &mut Vec<Event>,
    ) -> Result<Next, CloseReason> {
        self.wants_read_only_flag = request.read_only.is_some();
        let (session, resume) = match request.session_id {
            0 => (server.new_session(), false),
            old => (old, true),
        };
        if resume && request.passwd.as_deref() != Some(&password(session)) {
            // As in ZooKeeper, the answer is that of an expired session. The session itself is not affected.
            self.output.raw(&connect_response(0, 0, [0; 16], request.read_only.map(|_| false)));
            return Err(CloseReason::WrongPassword);
        }
        (self.session, self.requested_at, self.state) = (session, context.now, State::Attaching);
        let body = WriteRequest::attach(self.granted_ms(request), resume);
        events.push(Event::Attach { client: self.id, session: SessionId(session), body });
        Ok(Next::Wait)
    }

    /// Opens a read-only session, if there is no quorum, the operator allows it and the client accepts it. The session
    /// is known to this server only and ends when there is a quorum again.
    fn open_read_only(&mut self, request: &ConnectRequest, server: &impl ServerContext) -> Result<Next, CloseReason> {
        if request.read_only != Some(true) {
            return Err(CloseReason::NoQuorum);
        }
        (self.is_read_only, self.state) = (true, State::Open);
        (self.session, self.timeout_ms) = (server.new_session(), self.granted_ms(request));
        self.output.raw(&connect_response(self.timeout_ms, self.session, password(self.session), Some(true)));
        Ok(Next::Yield)
    }

    fn granted_ms(&self, request: &ConnectRequest) -> i32 {
        request.timeout.clamp(self.limits.session_timeout_min_ms, self.limits.session_timeout_max_ms)
    }
}

/// The answer to a connect request, as a frame.
pub(super) fn connect_response(timeout_ms: i32, session: i64, passwd: [u8; 16], read_only: Option<bool>) -> Bytes {
    let response = ConnectResponse {
        protocol_version: 0,
        timeout: timeout_ms,
        session_id: session,
        passwd: Some(Bytes::copy_from_slice(&passwd)),
        read_only,
    };
    let mut writer = Writer::new();
    writer.frame(|w| response.write(w));
    writer.into_bytes()
}
