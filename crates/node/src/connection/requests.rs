//! Requests of a client: reads are answered by the connection itself, everything else goes to the node.
//!
//! A read with no earlier request outstanding is answered from the shared tree, through the same function that the node
//! uses. A read behind other requests goes to the node, which answers it between two transactions, so that it sees the
//! session's earlier writes and none of the later ones. A read that may be long, such as a list of children, waits until the
//! earlier requests are answered, and the later ones wait with it: everybody would wait for it on the node's thread.

use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};
use core::ops::DerefMut;
use pole_jute::{ErrorCode, OpCode, Reader, Record, Request, RequestHeader, Writer, Xid};
use pole_tree::{Tree, Watcher, Watches, WriteRequest};
use pole_types::Cxid;

use super::output::REPLY_HEADER_BYTES;
use super::{Blocked, CallContext, CloseReason, Connection, Next, Pending, PendingKind, ReplySizes, ServerContext};
use crate::Event;

impl Connection {
    /// Takes requests until there are none left, there is no room for more, or a read is due.
    pub(super) fn take_requests(
        &mut self,
        input: &mut BytesMut,
        server: &impl ServerContext,
        context: CallContext,
        events: &mut Vec<Event>,
    ) -> Result<Next, CloseReason> {
        if self.is_read_only && !server.is_read_only() {
            return Err(CloseReason::QuorumRegained);
        }
        if self.gssapi_call.is_some() {
            return Ok(Next::Gssapi);
        }
        self.blocked = Blocked::default();
        if !self.deframer.has_frame(input)? {
            self.waits_since = None;
            // The session took long to attach. The connect request counts as activity until it is answered.
            if !self.may_send(context)
                && self.is_unannounced
                && let Some(lease) = &mut self.lease
            {
                lease.record_activity(context.now);
            }
            return Ok(Next::Wait);
        }
        if !self.is_read_only && !self.may_accept(input, server, context) {
            return self.refuse_throttled(input, server, context);
        }
        self.may_send(context);
        let first = events.len();
        while self.deframer.has_frame(input)? && self.has_room() {
            if events.len() - first >= BATCH_MAX {
                return Ok(Next::Yield);
            }
            if !self.pending.is_empty() && !self.has_room_at(server, input) {
                self.blocked.room = true;
                return Ok(Next::Wait);
            }
            let Some(header) = header(input) else { return Err(self.bad_header(input)) };
            let kind = self.kind_of(&header)?;
            if !matches!(kind, Kind::Auth | Kind::Sasl) && !self.has_required_identity() {
                return Err(self.refuse_unauthenticated(header.xid));
            }
            match kind {
                Kind::Read(_) if self.pending.is_empty() => {
                    self.may_read = true;
                    return Ok(Next::Read);
                }
                Kind::Read(op) if is_list(op) || !self.has_room_for_read() => return Ok(Next::Wait),
                Kind::Ping | Kind::Auth | Kind::Sasl | Kind::Sync | Kind::Write(_) | Kind::Read(_) => {}
            }
            let Some(body) = self.next_body(input)? else { return Ok(Next::Wait) };
            self.received(header.xid, header.op);
            self.take_request(header.xid, kind, body, server, context, events)?;
            if self.gssapi_call.is_some() {
                return Ok(Next::Gssapi);
            }
        }
        Ok(Next::Wait)
    }

    /// Whether the lease allows an answer and the node has room. If not, the connection is blocked until that changes.
    fn may_accept(&mut self, input: &[u8], server: &impl ServerContext, context: CallContext) -> bool {
        if let Some(lease) = &mut self.lease {
            lease.record_activity(context.now);
            if !lease.allows(context.now, context.confirmed) {
                self.blocked.confirmation = true;
                return false;
            }
        }
        self.blocked.room = !self.has_room_at(server, input);
        self.counts.waits_for_room += u64::from(self.blocked.room && self.waits_since.is_none());
        self.waits_since = self.blocked.room.then(|| self.waits_since.unwrap_or(context.now));
        !self.blocked.room
    }

    /// Whether the node accepts the next request of the input.
    fn has_room_at(&self, server: &impl ServerContext, input: &[u8]) -> bool {
        let next = input.first_chunk().map_or(0, |length| u32::from_be_bytes(*length) as usize);
        self.is_exempt || server.has_room(self.pending.len() + 1, self.pending_bytes + next)
    }

    /// Answers the requests that have waited for room for too long with `ThrottledOp`. Those of a client with earlier
    /// requests outstanding go on waiting, because replies are in the order of requests.
    fn refuse_throttled(
        &mut self,
        input: &mut BytesMut,
        server: &impl ServerContext,
        context: CallContext,
    ) -> Result<Next, CloseReason> {
        if self.throttle_deadline().is_none_or(|deadline| context.now < deadline) {
            return Ok(Next::Wait);
        }
        while self.has_room() && self.deframer.has_frame(input)? {
            let Some(header) = header(input) else { return Err(self.bad_header(input)) };
            let kind = self.kind_of(&header)?;
            if matches!(kind, Kind::Write(OpCode::CloseSession)) {
                // Never refused, as in Apache.
                self.waits_since = Some(context.now);
                return Ok(Next::Wait);
            }
            let Some(body) = self.next_body(input)? else { return Ok(Next::Wait) };
            self.received(header.xid, header.op);
            if let Kind::Ping | Kind::Auth = kind {
                self.take_request(header.xid, kind, body, server, context, &mut Vec::new())?;
                continue;
            }
            self.output.frame(header.xid, context.applied, ErrorCode::ThrottledOp.number(), &[]);
            self.counts.throttled += 1;
            self.answered(context.now, context.applied, 1, context.now);
        }
        self.waits_since = None;
        self.blocked.room = false;
        Ok(Next::Wait)
    }

    /// Whether another read may go to the node. The node answers on its own thread, so the amount that it may have to
    /// copy there is bounded, using the size of recent replies as an estimate.
    fn has_room_for_read(&self) -> bool {
        self.pending_reads * self.read_bytes < NODE_READ_BYTES_MAX
    }

    fn take_request(
        &mut self,
        xid: i32,
        kind: Kind,
        body: Bytes,
        server: &impl ServerContext,
        context: CallContext,
        events: &mut Vec<Event>,
    ) -> Result<(), CloseReason> {
        let (client, cxid) = (self.id, Cxid(xid));
        let large_bytes = self.large_bytes(&body);
        if large_bytes > 0 && !server.has_room_for_large(large_bytes) {
            return Err(CloseReason::LargeRequest);
        }
        match kind {
            Kind::Ping => {
                self.output.frame(Xid::PING, context.applied, ErrorCode::Ok.number(), &[]);
                ReplySizes::add_one(&mut self.reply_sizes, FRAME_HEADER_BYTES);
                self.answered(context.now, context.applied, 1, context.now);
            }
            Kind::Auth => self.authenticate(xid, body, server)?,
            Kind::Sasl => self.take_sasl_token(xid, body, server)?,
            Kind::Sync | Kind::Write(_) if self.is_read_only => {
                self.output.frame(xid, context.applied, ErrorCode::NotReadOnly.number(), &[]);
                self.answered(context.now, context.applied, 1, context.now);
            }
            Kind::Sync => {
                events.push(Event::Sync { client, cxid });
                self.push_pending(xid, context, (body.len(), large_bytes), PendingKind::Sync(body));
            }
            Kind::Write(op) => {
                let body = WriteRequest::encode(op, &self.caller, &body);
                let kept = if self.limits.keeps_writes { body.clone() } else { Bytes::new() };
                self.push_pending(xid, context, (body.len(), large_bytes), PendingKind::Write(kept));
                events.push(Event::Request { client, cxid, body });
            }
            Kind::Read(op) => {
                let body = WriteRequest::encode(op, &self.caller, &body);
                self.push_pending(xid, context, (body.len(), large_bytes), PendingKind::Read);
                self.pending_reads += 1;
                events.push(Event::Read { client, cxid, body });
            }
        }
        Ok(())
    }

    /// The size of the frame with this body if it is large, else 0.
    fn large_bytes(&self, body: &Bytes) -> usize {
        let bytes = REQUEST_HEADER_BYTES + body.len();
        if self.limits.large_request_bytes.is_some_and(|limit| bytes > limit) { bytes } else { 0 }
    }

    fn push_pending(
        &mut self,
        xid: i32,
        context: CallContext,
        (bytes, large_bytes): (usize, usize),
        kind: PendingKind,
    ) {
        self.pending_bytes += bytes;
        self.pending_large_bytes += large_bytes;
        self.pending.push_back(Pending { xid, at: context.now, bytes, large_bytes, kind });
    }

    /// Answers the reads at the front of the input. The tree must not change until this returns. A batch ends when the
    /// replies reach the limit of unread output, or when `is_over` returns true. `is_over` is called now and then; a
    /// driver decides by its clock. Returns the number of reads answered.
    pub fn read<W: DerefMut<Target = Watches>>(
        &mut self,
        input: &mut BytesMut,
        tree: &Tree,
        watches: impl Fn() -> W,
        context: CallContext,
        mut is_over: impl FnMut() -> bool,
    ) -> u64 {
        if !core::mem::take(&mut self.may_read) || self.close_reason().is_some() {
            return 0;
        }
        let (mut count, mut cost) = (0, 0);
        let zxid = tree.last_zxid();
        let result = loop {
            match self.read_one(input, tree, &watches, zxid) {
                Ok(Some(bytes)) => {
                    cost += 1 + bytes / COST_BYTES;
                    ReplySizes::add_one(&mut self.reply_sizes, bytes);
                }
                Ok(None) => break Ok(()),
                Err(reason) => break Err(reason),
            }
            count += 1;
            if cost >= COST_BETWEEN_CLOCK_CHECKS {
                cost = 0;
                if is_over() {
                    break Ok(());
                }
            }
        };
        if count > 0 {
            self.answered(context.now, zxid, count, context.now);
        }
        if let Err(reason) = result {
            self.close(reason);
        }
        count
    }

    /// Answers the read at the front of the input, if there is one. Returns the size of the reply in bytes.
    fn read_one<W: DerefMut<Target = Watches>>(
        &mut self,
        input: &mut BytesMut,
        tree: &Tree,
        watches: impl Fn() -> W,
        zxid: i64,
    ) -> Result<Option<usize>, CloseReason> {
        if !self.has_room() || !self.deframer.has_frame(input)? {
            return Ok(None);
        }
        let Some(header) = header(input) else { return Err(self.bad_header(input)) };
        let Kind::Read(op) = self.kind_of(&header)? else { return Ok(None) };
        let Some(body) = self.next_body(input)? else { return Ok(None) };
        self.received(header.xid, header.op);

        let mut events = Vec::new();
        let buffer = self.output.buffer_mut();
        let start = buffer.len();
        let end_max = start + FRAME_HEADER_BYTES + self.limits.reply_bytes_max;
        let mut writer = Writer::with_buffer(core::mem::take(buffer)).limited(end_max);
        writer.raw(&[0; FRAME_HEADER_BYTES]);
        let code = match Request::decode(op, &mut Reader::new(body)) {
            Ok(request) => {
                let watcher = Watcher(self.id.0);
                pole_tree::read(tree, watches, watcher, self.session, &self.caller, &request, &mut writer, &mut events)
            }
            Err(_) => ErrorCode::MarshallingError,
        };
        let is_over_limit = writer.is_over_limit();
        let code = if is_over_limit { ErrorCode::MarshallingError } else { code };
        *buffer = writer.into_inner();
        if code != ErrorCode::Ok {
            buffer.truncate(start + FRAME_HEADER_BYTES);
        }
        let bytes = buffer.len() - start;
        write_header(&mut buffer[start..], header.xid, zxid, code.number());
        self.counts.replies_over_limit += u64::from(is_over_limit);
        if !events.is_empty() {
            let reply = buffer.split_off(start);
            for event in &events {
                self.output.frame(Xid::NOTIFICATION, zxid, ErrorCode::Ok.number(), &event.encode());
            }
            self.counts.sent += events.len() as u64;
            self.output.buffer_mut().unsplit(reply);
        }
        Ok(Some(bytes))
    }

    /// What to do with a request. An operation that no client can ask for is answered with `Unimplemented` and the zxid
    /// -1, as Apache does, and the connection is closed.
    fn kind_of(&mut self, header: &RequestHeader) -> Result<Kind, CloseReason> {
        let kind = Kind::of(header);
        if matches!(kind, Err(CloseReason::UnknownOperation)) {
            self.received(header.xid, header.op);
            self.output.frame(header.xid, -1, ErrorCode::Unimplemented.number(), &[]);
            self.counts.sent += 1;
        }
        kind
    }

    /// Takes the next frame and returns it without its header.
    fn next_body(&self, input: &mut BytesMut) -> Result<Option<Bytes>, CloseReason> {
        Ok(self.deframer.next(input)?.map(|frame| frame.slice(REQUEST_HEADER_BYTES..)))
    }

    /// The reason to close the connection when the frame at the front is too short for a header.
    fn bad_header(&self, input: &mut BytesMut) -> CloseReason {
        match self.deframer.next(input).map(Option::unwrap_or_default) {
            Ok(frame) => match RequestHeader::read(&mut Reader::new(frame)) {
                Err(error) => error.into(),
                Ok(_) => CloseReason::UnknownOperation,
            },
            Err(error) => error.into(),
        }
    }
}

/// Whether the reply to a read may be long, and its cost with it.
fn is_list(op: OpCode) -> bool {
    matches!(
        op,
        OpCode::GetChildren
            | OpCode::GetChildren2
            | OpCode::MultiRead
            | OpCode::GetEphemerals
            | OpCode::GetAcl
            | OpCode::SetWatches
            | OpCode::SetWatches2
    )
}

/// How to process a request.
#[derive(Clone, Copy)]
enum Kind {
    Ping,
    Auth,
    Sasl,
    Sync,
    Write(OpCode),
    Read(OpCode),
}

impl Kind {
    fn of(header: &RequestHeader) -> Result<Self, CloseReason> {
        let Ok(op) = header.operation() else { return Err(CloseReason::UnknownOperation) };
        // Types of transactions and of frames that are not requests.
        if matches!(op, OpCode::Notification | OpCode::CreateSession | OpCode::Error) {
            return Err(CloseReason::UnknownOperation);
        }
        if op == OpCode::Ping {
            return Ok(Self::Ping);
        }
        if op == OpCode::Auth {
            return Ok(Self::Auth);
        }
        if op == OpCode::Sasl {
            return Ok(Self::Sasl);
        }
        // These xids are reserved; a request with one of them could not be distinguished from internal ones.
        if header.xid == Cxid::OWN.0 || Cxid(header.xid).is_attachment() {
            return Err(CloseReason::ReservedXid);
        }
        Ok(if op == OpCode::Sync {
            Self::Sync
        } else if pole_tree::is_write(op) {
            Self::Write(op)
        } else {
            Self::Read(op)
        })
    }
}

/// The header of the frame at the front of the input, which must be complete.
fn header(input: &[u8]) -> Option<RequestHeader> {
    let length = u32::from_be_bytes(*input.first_chunk()?) as usize;
    let (xid, op) = (input.get(4..8)?, input.get(8..12)?);
    let int = |bytes: &[u8]| bytes.try_into().ok().map(i32::from_be_bytes);
    (length >= REQUEST_HEADER_BYTES).then_some(RequestHeader { xid: int(xid)?, op: int(op)? })
}

/// Fills in the header of a reply whose body is complete.
fn write_header(frame: &mut [u8], xid: i32, zxid: i64, code: i32) {
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame[4..8].copy_from_slice(&xid.to_be_bytes());
    frame[8..16].copy_from_slice(&zxid.to_be_bytes());
    frame[16..20].copy_from_slice(&code.to_be_bytes());
}

/// Xid and operation.
const REQUEST_HEADER_BYTES: usize = 8;

/// Length, xid, zxid and code.
const FRAME_HEADER_BYTES: usize = 4 + REPLY_HEADER_BYTES;

/// The maximum number of requests for the node in one batch.
const BATCH_MAX: usize = 256;

/// The maximum size of the replies to reads at the node together, by the estimate for this connection.
const NODE_READ_BYTES_MAX: usize = 1 << 20;

/// A reply of this size costs about as much as a small read: copying it takes a fraction of a microsecond.
const COST_BYTES: usize = 4 << 10;

/// The cost of reads between two checks of the clock: some tens of microseconds.
const COST_BETWEEN_CLOCK_CHECKS: usize = 64;
