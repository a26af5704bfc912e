//! Encodes messages between servers as frames, and decodes them.
//!
//! A frame is its length (four bytes, big-endian, not counting itself), a byte for the kind of message, and the fields.
//!
//! - A message decodes to what was encoded, except that a large batch becomes several messages with the same meaning.
//! - No input makes `decode` panic or allocate more than a small multiple of the frame.
//! - No truncated frame is accepted.
//!
//! Batches are split because a thousand proposals of a megabyte each would be one frame of a gigabyte, and the receiver
//! must bound its frames. Consecutive entries can be split, because each message names the position before its first
//! entry.
//!
//! The version is negotiated in the handshake for the whole link. Whether a message makes sense is checked in `zab` and
//! `election`.

/// Writes kind and fields, in order. It is defined first because macros must precede their uses.
macro_rules! put {
    ($out:ident, $kind:expr $(, $field:expr)*) => {{
        bytes::BufMut::put_u8($out, $kind);
        $($field.put($out);)*
    }};
}

mod agreement;
mod election;
mod wire;

use bytes::{Bytes, BytesMut};
use pole_election::Message as Election;
use pole_node::{Message, Request};
use pole_types::Zxid;
use pole_zab::{Entry, Message as Zab};

pub use wire::{Cause, Error};
use wire::{Reader, Wire};

/// Appends the frames of a message to `out`. Each body is copied once.
pub fn encode(message: &Message, out: &mut BytesMut) {
    out.reserve(message.size_bytes());
    match message {
        Message::Election(Election::Propose(propose)) => frame(out, |out| put!(out, kind::ELECTION_PROPOSE, propose)),
        Message::Election(Election::Vote(vote)) => frame(out, |out| put!(out, kind::ELECTION_VOTE, vote)),
        Message::Election(Election::Ask) => frame(out, |out| put!(out, kind::ELECTION_ASK)),
        Message::Heartbeat { seq, members, report } => {
            frame(out, |out| put!(out, kind::HEARTBEAT, seq, members, **report));
        }
        Message::Members { version, members } => frame(out, |out| put!(out, kind::MEMBERS, version, members)),
        Message::Echo { seq } => frame(out, |out| put!(out, kind::ECHO, seq)),
        Message::Zab(Zab::Propose { epoch, prev, entries, committed, listeners }) => {
            for (prev, piece) in entries_in_pieces(*prev, entries) {
                frame(out, |out| agreement::put_propose(*epoch, (prev, piece), *committed, listeners, out));
            }
        }
        Message::Zab(Zab::Entries { prev, entries }) => {
            for (prev, piece) in entries_in_pieces(*prev, entries) {
                frame(out, |out| agreement::put_entries(prev, piece, out));
            }
        }
        Message::Zab(message) => frame(out, |out| agreement::put_message(message, out)),
        Message::Forward { epoch, requests } => {
            for piece in in_pieces(requests, |request: &Request| request.body.len()) {
                frame(out, |out| {
                    put!(out, kind::FORWARD, epoch);
                    wire::put_list(piece, out);
                });
            }
        }
        Message::Touch { epoch, id, sessions } => frame(out, |out| put!(out, kind::TOUCH, epoch, id, sessions)),
        Message::TouchDone { epoch, id } => frame(out, |out| put!(out, kind::TOUCH_DONE, epoch, id)),
        Message::SyncAsk { epoch, through } => frame(out, |out| put!(out, kind::SYNC_ASK, epoch, through)),
        Message::SyncDone { epoch, through, zxid } => {
            frame(out, |out| put!(out, kind::SYNC_DONE, epoch, through, zxid))
        }
        Message::Remaining { epoch, begins, sessions } => {
            frame(out, |out| put!(out, kind::REMAINING, epoch, begins, sessions))
        }
        Message::TransferAsk { epoch, to } => frame(out, |out| put!(out, kind::TRANSFER_ASK, epoch, to)),
        Message::LeaderSought { epoch, by } => frame(out, |out| put!(out, kind::LEADER_SOUGHT, epoch, by)),
        Message::Behind { epoch } => frame(out, |out| put!(out, kind::BEHIND, epoch)),
        Message::TransferRefused { epoch, refusal } => {
            frame(out, |out| put!(out, kind::TRANSFER_REFUSED, epoch, refusal))
        }
    }
}

/// Decodes a frame without its length field. Bodies share the memory of the frame.
///
/// # Errors
/// Names the field, its position, what was expected and what was found.
pub fn decode(frame: Bytes) -> Result<Message, Error> {
    let mut from = Reader::new(frame);
    let message = match from.field("Frame.kind")? {
        kind::ELECTION_PROPOSE => Message::Election(Election::Propose(Wire::take(&mut from)?)),
        kind::ELECTION_VOTE => Message::Election(Election::Vote(Wire::take(&mut from)?)),
        kind::ELECTION_ASK => Message::Election(Election::Ask),
        kind::HEARTBEAT => Message::Heartbeat {
            seq: from.field("Heartbeat.seq")?,
            members: from.field("Heartbeat.members")?,
            report: Box::new(Wire::take(&mut from)?),
        },
        kind::MEMBERS => {
            Message::Members { version: from.field("Members.version")?, members: from.field("Members.members")? }
        }
        kind::ECHO => Message::Echo { seq: from.field("Echo.seq")? },
        kind::FORWARD => {
            Message::Forward { epoch: from.field("Forward.epoch")?, requests: from.field("Forward.requests")? }
        }
        kind::TOUCH => Message::Touch {
            epoch: from.field("Touch.epoch")?,
            id: from.field("Touch.id")?,
            sessions: from.field("Touch.sessions")?,
        },
        kind::TOUCH_DONE => {
            Message::TouchDone { epoch: from.field("TouchDone.epoch")?, id: from.field("TouchDone.id")? }
        }
        kind::SYNC_ASK => {
            Message::SyncAsk { epoch: from.field("SyncAsk.epoch")?, through: from.field("SyncAsk.through")? }
        }
        kind::SYNC_DONE => Message::SyncDone {
            epoch: from.field("SyncDone.epoch")?,
            through: from.field("SyncDone.through")?,
            zxid: from.field("SyncDone.zxid")?,
        },
        kind::REMAINING => Message::Remaining {
            epoch: from.field("Remaining.epoch")?,
            begins: from.field("Remaining.begins")?,
            sessions: from.field("Remaining.sessions")?,
        },
        kind::TRANSFER_ASK => {
            Message::TransferAsk { epoch: from.field("TransferAsk.epoch")?, to: from.field("TransferAsk.to")? }
        }
        kind::LEADER_SOUGHT => {
            Message::LeaderSought { epoch: from.field("LeaderSought.epoch")?, by: from.field("LeaderSought.by")? }
        }
        kind::BEHIND => Message::Behind { epoch: from.field("Behind.epoch")? },
        kind::TRANSFER_REFUSED => Message::TransferRefused {
            epoch: from.field("TransferRefused.epoch")?,
            refusal: from.field("TransferRefused.refusal")?,
        },
        got => Message::Zab(agreement::take_message(got, &mut from)?),
    };
    from.finish()?;
    Ok(message)
}

/// Splits entries into pieces, each with the position before it.
fn entries_in_pieces(prev: Zxid, entries: &[Entry]) -> impl Iterator<Item = (Zxid, &[Entry])> {
    let mut prev = prev;
    in_pieces(entries, |entry: &Entry| entry.body.len()).map(move |piece| {
        let before = prev;
        prev = piece.last().map_or(prev, |entry| entry.zxid);
        (before, piece)
    })
}

/// Splits a list into pieces of at most [`BATCH_BYTES_MAX`] or one element. An empty list is one empty piece.
fn in_pieces<T>(list: &[T], body_bytes: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    let mut rest = Some(list);
    std::iter::from_fn(move || {
        let list = rest?;
        let mut bytes = 0_usize;
        let fits = |item: &&T| {
            bytes += ELEMENT_BYTES + body_bytes(item);
            bytes <= BATCH_BYTES_MAX
        };
        let count = list.iter().take_while(fits).count().max(1).min(list.len());
        let (piece, more) = list.split_at(count);
        rest = (!more.is_empty()).then_some(more);
        Some(piece)
    })
}

fn frame(out: &mut BytesMut, content: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    content(out);
    let length = out.len() - start - LENGTH_BYTES;
    let length = u32::try_from(length).unwrap_or_else(|_| panic!("a frame of {length} bytes"));
    out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
}

/// The size above which a list of proposals, entries or requests is split into several frames. Large enough to make the
/// overhead of a frame negligible, small enough for the receiver's buffer.
pub const BATCH_BYTES_MAX: usize = 1 << 20;

/// The size of an entry or a request without its body.
const ELEMENT_BYTES: usize = 24;

const LENGTH_BYTES: usize = 4;

/// A control frame without fields that asks whether the other end is alive. It never reaches the node.
pub(super) const PROBE: u8 = 0x0c;

/// The answer to [`PROBE`], sent at once.
pub(super) const PROBE_ANSWER: u8 = 0x0d;

/// The kinds of messages. Numbers are never reused.
mod kind {
    pub(super) const ELECTION_PROPOSE: u8 = 0x01;
    pub(super) const ELECTION_VOTE: u8 = 0x02;
    pub(super) const HEARTBEAT: u8 = 0x03;
    pub(super) const ECHO: u8 = 0x04;
    pub(super) const FORWARD: u8 = 0x05;
    pub(super) const SYNC_ASK: u8 = 0x06;
    pub(super) const SYNC_DONE: u8 = 0x07;
    pub(super) const TOUCH: u8 = 0x08;
    pub(super) const TOUCH_DONE: u8 = 0x09;
    pub(super) const TRANSFER_ASK: u8 = 0x0a;
    pub(super) const REMAINING: u8 = 0x0b;
    pub(super) const TRANSFER_REFUSED: u8 = 0x0e;
    pub(super) const ELECTION_ASK: u8 = 0x0f;
    pub(super) const MEMBERS: u8 = 0x10;
    pub(super) const LEADER_SOUGHT: u8 = 0x11;
    pub(super) const BEHIND: u8 = 0x12;
    pub(super) const HELLO: u8 = 0x20;
    pub(super) const DECLINE: u8 = 0x21;
    pub(super) const NEW_EPOCH: u8 = 0x22;
    pub(super) const ACK_EPOCH: u8 = 0x23;
    pub(super) const REFUSE_EPOCH: u8 = 0x24;
    pub(super) const PULL: u8 = 0x25;
    pub(super) const TRUNCATE: u8 = 0x26;
    pub(super) const SNAPSHOT: u8 = 0x27;
    pub(super) const ENTRIES: u8 = 0x28;
    pub(super) const RECEIVED: u8 = 0x29;
    pub(super) const PULL_END: u8 = 0x2a;
    pub(super) const NEW_LEADER: u8 = 0x2b;
    pub(super) const ACK_LEADER: u8 = 0x2c;
    pub(super) const UP_TO_DATE: u8 = 0x2d;
    pub(super) const PROPOSE: u8 = 0x2e;
    pub(super) const ACK: u8 = 0x2f;
    pub(super) const COMMIT: u8 = 0x30;
    pub(super) const HANDOVER: u8 = 0x31;
    pub(super) const TAKEN_OVER: u8 = 0x32;
    pub(super) const PING: u8 = 0x33;
    pub(super) const PONG: u8 = 0x34;
}

#[cfg(test)]
mod tests;
