//! Encoding of the messages of the agreement, each after its kind.

use bytes::{Bytes, BytesMut};
use pole_node::Request;
use pole_types::{Cxid, Epoch, ServerId, SessionId, Zxid};
use pole_zab::{Entry, Epochs, Hello, Message, Origin, Promise, SnapshotPart};

use super::kind;
use super::wire::{Cause, Error, Reader, Wire, newtype, put_list, record};

newtype!(SessionId(i64), Cxid(i32));
record!(Origin { session: SessionId, cxid: Cxid });
record!(Entry { zxid: Zxid, origin: Origin, body: Bytes });
record!(Request { origin: Origin, floor: Zxid, body: Bytes });
record!(Hello { round: pole_zab::Round, accepted_epoch: Epoch, taking_over: Option<Epoch> });
record!(SnapshotPart { zxid: Zxid, epochs: Epochs, offset: usize, last: bool, body: Bytes });
record!(Promise {
    epoch: Epoch,
    fresh: bool,
    current_epoch: Epoch,
    last_zxid: Zxid,
    epochs: Epochs,
    blank: bool,
    ahead: bool
});

pub(super) fn put_message(message: &Message, out: &mut BytesMut) {
    match message {
        Message::Hello(hello) => put!(out, kind::HELLO, hello),
        Message::Decline => put!(out, kind::DECLINE),
        Message::NewEpoch { epoch } => put!(out, kind::NEW_EPOCH, epoch),
        Message::AckEpoch(promise) => put!(out, kind::ACK_EPOCH, promise),
        Message::RefuseEpoch { refused, accepted } => put!(out, kind::REFUSE_EPOCH, refused, accepted),
        Message::Pull { epochs } => put!(out, kind::PULL, epochs),
        Message::Truncate { to } => put!(out, kind::TRUNCATE, to),
        Message::Snapshot(part) => put!(out, kind::SNAPSHOT, part),
        Message::Entries { prev, entries } => put_entries(*prev, entries, out),
        Message::Received => put!(out, kind::RECEIVED),
        Message::PullEnd { last } => put!(out, kind::PULL_END, last),
        Message::NewLeader { epoch, last } => put!(out, kind::NEW_LEADER, epoch, last),
        Message::AckLeader { epoch, last } => put!(out, kind::ACK_LEADER, epoch, last),
        Message::UpToDate { epoch, committed } => put!(out, kind::UP_TO_DATE, epoch, committed),
        Message::Propose { epoch, prev, entries, committed, listeners } => {
            put_propose(*epoch, (*prev, entries), *committed, listeners, out);
        }
        Message::Ack { epoch, zxid, server } => put!(out, kind::ACK, epoch, zxid, server),
        Message::Commit { epoch, zxid } => put!(out, kind::COMMIT, epoch, zxid),
        Message::Handover { epoch, next, last, round, choice, asked } => {
            put!(out, kind::HANDOVER, epoch, next, last, round, choice, asked);
        }
        Message::TakenOver { epoch, last } => put!(out, kind::TAKEN_OVER, epoch, last),
        Message::Ping { seq } => put!(out, kind::PING, seq),
        Message::Pong { seq, accepted } => put!(out, kind::PONG, seq, accepted),
    }
}

/// Writes a diff, or a piece of one.
pub(super) fn put_entries(prev: Zxid, entries: &[Entry], out: &mut BytesMut) {
    put!(out, kind::ENTRIES, prev);
    put_list(entries, out);
}

/// Writes proposals, or a piece of them.
pub(super) fn put_propose(
    epoch: Epoch,
    (prev, entries): (Zxid, &[Entry]),
    committed: Zxid,
    listeners: &[ServerId],
    out: &mut BytesMut,
) {
    put!(out, kind::PROPOSE, epoch, prev, committed);
    put_list(listeners, out);
    put_list(entries, out);
}

pub(super) fn take_message(got: u8, from: &mut Reader) -> Result<Message, Error> {
    Ok(match got {
        kind::HELLO => Message::Hello(Hello::take(from)?),
        kind::DECLINE => Message::Decline,
        kind::NEW_EPOCH => Message::NewEpoch { epoch: from.field("NewEpoch.epoch")? },
        kind::ACK_EPOCH => Message::AckEpoch(Promise::take(from)?),
        kind::REFUSE_EPOCH => Message::RefuseEpoch {
            refused: from.field("RefuseEpoch.refused")?,
            accepted: from.field("RefuseEpoch.accepted")?,
        },
        kind::PULL => Message::Pull { epochs: from.field("Pull.epochs")? },
        kind::TRUNCATE => Message::Truncate { to: from.field("Truncate.to")? },
        kind::SNAPSHOT => Message::Snapshot(SnapshotPart::take(from)?),
        kind::ENTRIES => {
            Message::Entries { prev: from.field("Entries.prev")?, entries: from.field("Entries.entries")? }
        }
        kind::RECEIVED => Message::Received,
        kind::PULL_END => Message::PullEnd { last: from.field("PullEnd.last")? },
        kind::NEW_LEADER => {
            Message::NewLeader { epoch: from.field("NewLeader.epoch")?, last: from.field("NewLeader.last")? }
        }
        kind::ACK_LEADER => {
            Message::AckLeader { epoch: from.field("AckLeader.epoch")?, last: from.field("AckLeader.last")? }
        }
        kind::UP_TO_DATE => {
            Message::UpToDate { epoch: from.field("UpToDate.epoch")?, committed: from.field("UpToDate.committed")? }
        }
        kind::PROPOSE => take_propose(from)?,
        kind::ACK => Message::Ack {
            epoch: from.field("Ack.epoch")?,
            zxid: from.field("Ack.zxid")?,
            server: from.field("Ack.server")?,
        },
        kind::COMMIT => Message::Commit { epoch: from.field("Commit.epoch")?, zxid: from.field("Commit.zxid")? },
        kind::HANDOVER => Message::Handover {
            epoch: from.field("Handover.epoch")?,
            next: from.field("Handover.next")?,
            last: from.field("Handover.last")?,
            round: from.field("Handover.round")?,
            choice: from.field("Handover.choice")?,
            asked: from.field("Handover.asked")?,
        },
        kind::TAKEN_OVER => {
            Message::TakenOver { epoch: from.field("TakenOver.epoch")?, last: from.field("TakenOver.last")? }
        }
        kind::PING => Message::Ping { seq: from.field("Ping.seq")? },
        kind::PONG => Message::Pong { seq: from.field("Pong.seq")?, accepted: from.field("Pong.accepted")? },
        got => return Err(from.error(Cause::Unknown { expected: "the kind of a message", got: got.into() })),
    })
}

fn take_propose(from: &mut Reader) -> Result<Message, Error> {
    let (epoch, prev) = (from.field("Propose.epoch")?, from.field("Propose.prev")?);
    let committed = from.field("Propose.committed")?;
    let listeners = from.field("Propose.listeners")?;
    Ok(Message::Propose { epoch, prev, entries: from.field("Propose.entries")?, committed, listeners })
}

/// Encoded as a flag whether the history goes back to the first transaction, then the last position of each epoch.
impl Wire for Epochs {
    const BYTES_MIN: usize = bool::BYTES_MIN + Vec::<Zxid>::BYTES_MIN;

    fn put(&self, out: &mut BytesMut) {
        // Two histories that share no epoch have a known common point only if both are complete.
        let complete = self.common(&Self::starting_at(Zxid::ZERO)) == Some(Zxid::ZERO);
        complete.put(out);
        ends_of(self).put(out);
    }

    fn take(from: &mut Reader) -> Result<Self, Error> {
        let complete: bool = from.field("Epochs.complete")?;
        let ends: Vec<Zxid> = from.field("Epochs.ends")?;
        if ends.len() > Self::PAIRS_MAX {
            let got = ends.len() as u64;
            return Err(from.error(Cause::Unknown { expected: "at most 1024 epochs", got }));
        }
        if ends.contains(&Zxid::ZERO) || !ends.is_sorted_by(|a, b| a.epoch() < b.epoch()) {
            return Err(from.error(Cause::Order));
        }
        let mut epochs = match (complete, ends.first()) {
            (true, _) => Self::starting_at(Zxid::ZERO),
            (false, Some(first)) => Self::starting_at(*first),
            (false, None) => empty_incomplete(),
        };
        ends.into_iter().for_each(|end| epochs.push(end));
        Ok(epochs)
    }
}

/// The last position of each epoch, oldest first.
fn ends_of(epochs: &Epochs) -> Vec<Zxid> {
    let mut rest = epochs.clone();
    let mut ends = Vec::new();
    while let Some(end) = rest.last() {
        ends.push(end);
        let Some(before) = end.epoch().0.checked_sub(1) else { break };
        rest.truncate(Zxid::new(Epoch(before), u32::MAX));
    }
    ends.reverse();
    ends
}

/// A history that does not go back to the first transaction, and whose known part was truncated completely.
fn empty_incomplete() -> Epochs {
    let mut epochs = Epochs::starting_at(Zxid::new(Epoch(1), 1));
    epochs.truncate(Zxid::ZERO);
    epochs
}
