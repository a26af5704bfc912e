//! What a client asks: reads are answered here, the rest goes to the node.
//!
//! In: whole frames. Out: answers in the buffer of the connection, letters to the node.
//! Why reads stay here: with no earlier request of the session under way, the tree itself answers, on the thread of the
//! connection, through the same function by which the node would.
//! Holds: answers leave in the order of the questions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use parking_lot::RwLockReadGuard;
use pole_jute::{AuthPacket, ErrorCode, OpCode, Reader, Record, Request, RequestHeader, Writer, Xid};
use pole_node::Event;
use pole_oracle::Time;
use pole_tree::{Ask, Tree, Watcher};
use pole_zab::Cxid;
use tokio::io::{AsyncRead, AsyncWrite};

use super::super::handle::{Waiting, put_frame};
use super::{Connection, End};
use crate::mailbox::Letter;

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// Handles a batch of frames without waiting. Reads in a row share one look at the tree.
    pub(super) fn handle_batch(&mut self) -> Result<(), End> {
        let now = self.shared.clock.now();
        let shared = Arc::clone(&self.shared);
        let mut is_behind = self.handle.waiting() > 0;
        let is_alone = !is_behind;
        let mut reading: Option<RwLockReadGuard<'_, Tree>> = None;
        let (mut received, mut answered, mut last) = (0, 0, (0, 0));
        while self.letters.len() < BATCH_MAX
            && let Some(frame) = self.deframer.next(&mut self.arrived)?
        {
            let header = RequestHeader::read(&mut Reader::new(frame.clone()))?;
            let body = frame.slice(HEADER_BYTES..);
            (received, last) = (received + 1, (header.xid, header.op));
            match Kind::of(&header)? {
                Kind::Ping => {
                    let zxid = self.shared.applied.load(Ordering::Acquire);
                    put_frame(&mut self.replies, Xid::PING, zxid, 0, &[]);
                    answered += 1;
                }
                Kind::Auth => self.authenticate(header.xid, body)?,
                Kind::Sync | Kind::Write(_) if self.read_only => {
                    let zxid = self.shared.applied.load(Ordering::Acquire);
                    put_frame(&mut self.replies, header.xid, zxid, ErrorCode::NotReadOnly.number(), &[]);
                    answered += 1;
                }
                Kind::Sync => self.sync(header.xid, body, now),
                Kind::Write(op) => {
                    let (client, cxid) = (self.handle.id, Cxid(header.xid));
                    let body = Ask::encode(op, &self.caller, &body);
                    self.ask(Event::Request { client, cxid, body }, None, now);
                }
                Kind::Read(op) if !is_behind && self.letters.is_empty() => {
                    let tree = reading.get_or_insert_with(|| shared.tree.read());
                    self.read(tree, header.xid, op, body);
                    answered += 1;
                }
                Kind::Read(op) => {
                    let (client, cxid) = (self.handle.id, Cxid(header.xid));
                    let body = Ask::encode(op, &self.caller, &body);
                    self.ask(Event::Read { client, cxid, body }, None, now);
                }
            }
            is_behind |= !self.letters.is_empty();
        }
        self.habit.learn(received, last.1, is_alone);
        self.say(answered, now);
        // Only now may the tree change: a watch that was set is fired after the answer that set it.
        drop(reading);
        if !self.waiting.is_empty() {
            self.shared.outstanding.fetch_add(self.waiting.len(), Ordering::AcqRel);
        }
        self.handle.asked(received, last, self.waiting.drain(..));
        self.shared.status.tally.received(received);
        self.shared.mailbox.post_all(&mut self.letters);
        Ok(())
    }

    fn ask(&mut self, event: Event, sync: Option<Bytes>, at: Time) {
        self.letters.push(Letter::Event(event));
        self.waiting.push(Waiting { at, sync });
    }

    /// The node answers without the path, which is the whole of the request and of the answer.
    fn sync(&mut self, xid: i32, body: Bytes, now: Time) {
        self.ask(Event::Sync { client: self.handle.id, cxid: Cxid(xid) }, Some(body), now);
    }

    /// A read that nothing has to wait for.
    fn read(&mut self, tree: &Tree, xid: i32, op: OpCode, body: Bytes) {
        let mut events = Vec::new();
        let start = self.replies.len();
        let mut writer = Writer::over(std::mem::take(&mut self.replies));
        writer.raw(&[0; FRAME_HEAD_BYTES]);
        let code = match Request::decode(op, &mut Reader::new(body)) {
            Ok(request) => {
                let watches = || self.shared.watches.lock();
                let (watcher, session) = (Watcher(self.handle.id.0), self.handle.session());
                pole_tree::read(tree, watches, watcher, session, &self.caller, &request, &mut writer, &mut events)
            }
            Err(_) => ErrorCode::MarshallingError,
        };
        let zxid = tree.last_zxid();
        self.replies = writer.into_inner();
        if code != ErrorCode::Ok {
            self.replies.truncate(start + FRAME_HEAD_BYTES);
        }
        write_head(&mut self.replies[start..], xid, zxid, code.number());
        if !events.is_empty() {
            let answer = self.replies.split_off(start);
            for event in &events {
                let mut body = Writer::new();
                event.write(&mut body);
                put_frame(&mut self.replies, Xid::NOTIFICATION, zxid, 0, &body.into_bytes());
            }
            self.replies.unsplit(answer);
        }
    }

    /// The client proves to be someone. A scheme that nobody knows, or a false proof, ends the connection.
    fn authenticate(&mut self, xid: i32, body: Bytes) -> Result<(), End> {
        let packet = AuthPacket::read(&mut Reader::new(body))?;
        let proof = packet.auth.unwrap_or_default();
        let super_digest = self.shared.settings.super_digest.as_deref();
        match pole_tree::authenticate(&packet.scheme, &proof, super_digest) {
            Ok(ids) => {
                let new = ids.into_iter().filter(|id| !self.caller.ids.contains(id)).collect::<Vec<_>>();
                self.caller.ids.extend(new);
                self.shared.watches.lock().identify(Watcher(self.handle.id.0), &self.caller);
                put_frame(&mut self.replies, xid, 0, ErrorCode::Ok.number(), &[]);
                Ok(())
            }
            Err(_) => {
                put_frame(&mut self.replies, xid, 0, ErrorCode::AuthFailed.number(), &[]);
                self.say(1, self.shared.clock.now());
                Err(End::ByUs("authentication failed"))
            }
        }
    }

    /// Puts the answers of this batch into the buffer of the connection.
    fn say(&mut self, answered: u64, asked: Time) {
        if self.replies.is_empty() {
            return;
        }
        let now = self.shared.clock.now();
        let zxid = self.shared.applied.load(Ordering::Relaxed);
        self.handle.push_frames(&self.replies, answered, zxid, Some((asked, now)));
        self.shared.status.tally.answered(answered, asked, now);
        self.replies.clear();
    }
}

/// What has to be done with a request.
enum Kind {
    Ping,
    Auth,
    Sync,
    Write(OpCode),
    Read(OpCode),
}

impl Kind {
    fn of(header: &RequestHeader) -> Result<Self, End> {
        let Ok(op) = header.operation() else { return Err(End::ByUs("the operation is none of ZooKeeper's")) };
        if op == OpCode::Ping {
            return Ok(Self::Ping);
        }
        if op == OpCode::Auth {
            return Ok(Self::Auth);
        }
        // These numbers have a meaning of their own; a request with one of them could not be told from others.
        if header.xid == Cxid::OWN.0 || Cxid(header.xid).is_attachment() {
            return Err(End::ByUs("the number of the request is reserved"));
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

/// Fills in what stands before the body of a reply, when the length of that is known.
fn write_head(frame: &mut [u8], xid: i32, zxid: i64, code: i32) {
    let length = u32::try_from(frame.len() - 4).expect("a reply is bounded by what the tree holds");
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame[4..8].copy_from_slice(&xid.to_be_bytes());
    frame[8..16].copy_from_slice(&zxid.to_be_bytes());
    frame[16..20].copy_from_slice(&code.to_be_bytes());
}

/// Number and operation.
const HEADER_BYTES: usize = 8;

/// Length, number, position and code.
const FRAME_HEAD_BYTES: usize = 20;

/// Requests for the node in one batch.
const BATCH_MAX: usize = 256;
