//! Sending history to another server: a snapshot in pieces, then the log above it, with bounded data in flight.
//!
//! A leader synchronises its followers this way, and the source of a pull its leader. Memory use does not grow with the
//! history: pieces of the state are produced one by one by the driver ([`Output::NextPiece`]), and the log is read from
//! memory or, where memory no longer reaches back, from disk ([`Output::ReadLog`]). Transactions proposed meanwhile are
//! not queued for the receiver; they are sent from the log.
//!
//! Flow control: at most [`Limits::pieces_in_flight`](crate::Limits) messages are unconfirmed. While the log is sent under
//! load, the receiver may stay behind by a constant distance: a window takes a round trip, and in a round trip as much is
//! proposed. Then the window grows, up to [`WINDOW_GROWTH_MAX`] times. The receiver sends
//! [`Message::Received`] for a piece when it is on its disk, and for the last piece of a snapshot when the state is
//! restored. It thus holds no more than a few pieces and its state.

use alloc::vec::Vec;
use bytes::Bytes;
use pole_types::{ServerId, Zxid};

use crate::log::is_contiguous;
use crate::state::{State, send};
use crate::{Body, Entry, Epochs, Message, Output, Snapshot, SnapshotPart};

/// Identifies a transfer. Not reused by the same process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub u64);

/// A transfer to one server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Transfer {
    id: TransferId,
    /// Whether the driver was asked to open it. A difference that fits into the window is sent without.
    opened: bool,
    /// Messages that the receiver has not confirmed.
    in_flight: usize,
    /// How many of these there may be.
    window: usize,
    step: Step,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// Sending the state.
    State {
        zxid: Zxid,
        epochs: Epochs,
        /// The byte offset of the next piece.
        offset: usize,
        /// Pieces that were requested and have not been produced yet.
        requested: usize,
        /// The last piece was sent. The log follows when the receiver has confirmed all of them.
        complete: bool,
    },
    /// Sending the log.
    Log {
        /// The last position sent.
        sent: Zxid,
        /// A read from disk is under way.
        reading: bool,
        round: Round,
    },
}

/// A part of the log in a transfer: everything that was logged when the part before was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Round {
    /// The last position.
    end: Zxid,
    /// The number of entries. The maximum if the log begins in an older epoch, where they are not counted.
    entries: u32,
}

impl Round {
    fn new(sent: Zxid, last: Zxid) -> Self {
        let is_one_epoch = sent.epoch() == last.epoch();
        Self { end: last, entries: if is_one_epoch { last.counter() - sent.counter() } else { u32::MAX } }
    }
}

impl Step {
    fn log_after(sent: Zxid) -> Self {
        Self::Log { sent, reading: false, round: Round { end: sent, entries: u32::MAX } }
    }
}

/// What an event did to a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Progress {
    /// It goes on, or there is no such transfer.
    Continues,
    /// Everything was sent: the receiver can be asked to adopt it.
    Complete { to: ServerId },
    /// The log could not be read: the receiver has to start over.
    Unreadable { to: ServerId },
}

impl Progress {
    pub(crate) fn is_complete(self) -> bool {
        matches!(self, Self::Complete { .. })
    }
}

impl State {
    /// Sends the log above `after`, which must be in memory.
    pub(crate) fn send_log(&mut self, to: ServerId, after: Zxid, out: &mut Vec<Output>) -> Progress {
        self.start_transfer(to, Step::log_after(after), out);
        let progress = self.advance_transfer(to, out);
        if let Some(Transfer { step: Step::Log { sent: after, .. }, .. }) = self.transfers.get(&to) {
            let after = *after;
            self.open_transfer(to, after, None, out);
        }
        progress
    }

    /// Sends a snapshot and the log above it.
    pub(crate) fn send_state(&mut self, to: ServerId, snapshot: Snapshot, out: &mut Vec<Output>) -> Progress {
        let Snapshot { zxid, epochs, body } = snapshot;
        self.start_transfer(to, Step::State { zxid, epochs, offset: 0, requested: 0, complete: false }, out);
        self.open_transfer(to, zxid, Some(body), out);
        self.advance_transfer(to, out)
    }

    /// Takes the next piece of the state passed to [`Output::OpenTransfer`]. `last`: there are no more.
    pub(crate) fn piece_is_ready(
        &mut self,
        transfer: TransferId,
        body: Bytes,
        last: bool,
        out: &mut Vec<Output>,
    ) -> Progress {
        let Some((to, transfer)) = self.find_transfer(transfer) else { return Progress::Continues };
        let Step::State { zxid, epochs, offset, requested, complete } = &mut transfer.step else {
            return Progress::Continues;
        };
        if *complete {
            return Progress::Continues; // more pieces were requested than there are
        }
        let part = SnapshotPart { zxid: *zxid, epochs: epochs.clone(), offset: *offset, last, body };
        *offset += part.body.len();
        *requested = requested.saturating_sub(1);
        *complete = last;
        transfer.in_flight += 1;
        send(to, Message::Snapshot(part), out);
        self.advance_transfer(to, out)
    }

    /// Takes the entries that [`Output::ReadLog`] requested; they must be contiguous. An empty list means that they
    /// could not be read.
    pub(crate) fn log_is_read(&mut self, transfer: TransferId, entries: Vec<Entry>, out: &mut Vec<Output>) -> Progress {
        let Some((to, transfer)) = self.find_transfer(transfer) else { return Progress::Continues };
        let Step::Log { sent, reading, .. } = &mut transfer.step else { return Progress::Continues };
        let prev = *sent;
        if !core::mem::take(reading) {
            return Progress::Continues;
        }
        let Some(last) = entries.last().map(|entry| entry.zxid).filter(|_| is_contiguous(prev, &entries)) else {
            return Progress::Unreadable { to };
        };
        *sent = last;
        transfer.in_flight += 1;
        send(to, Message::Entries { prev, entries }, out);
        self.advance_transfer(to, out)
    }

    /// The receiver confirms one message.
    pub(crate) fn on_received(&mut self, from: ServerId, out: &mut Vec<Output>) -> Progress {
        let Some(transfer) = self.transfers.get_mut(&from) else { return Progress::Continues };
        transfer.in_flight = transfer.in_flight.saturating_sub(1);
        if let Step::State { zxid, complete: true, .. } = transfer.step
            && transfer.in_flight == 0
        {
            transfer.step = Step::log_after(zxid);
        }
        out.push(Output::Progress);
        self.advance_transfer(from, out)
    }

    /// Ends a transfer, complete or not.
    pub(crate) fn end_transfer(&mut self, to: ServerId, out: &mut Vec<Output>) {
        self.wants_snapshot.remove(&to);
        if let Some(Transfer { id: transfer, opened: true, .. }) = self.transfers.remove(&to) {
            out.push(Output::CloseTransfer { transfer });
        }
    }

    pub(crate) fn end_transfers(&mut self, out: &mut Vec<Output>) {
        self.wants_snapshot.clear();
        for (_, transfer) in core::mem::take(&mut self.transfers) {
            if transfer.opened {
                out.push(Output::CloseTransfer { transfer: transfer.id });
            }
        }
    }

    fn find_transfer(&mut self, id: TransferId) -> Option<(ServerId, &mut Transfer)> {
        self.transfers.iter_mut().find(|(_, transfer)| transfer.id == id).map(|(to, transfer)| (*to, transfer))
    }

    fn start_transfer(&mut self, to: ServerId, step: Step, out: &mut Vec<Output>) {
        self.end_transfer(to, out);
        let id = self.next_transfer;
        self.next_transfer = TransferId(id.0 + 1);
        let window = self.limits.pieces_in_flight.max(1);
        self.transfers.insert(to, Transfer { id, opened: false, in_flight: 0, window, step });
    }

    fn open_transfer(&mut self, to: ServerId, after: Zxid, state: Option<Body>, out: &mut Vec<Output>) {
        let Some(transfer) = self.transfers.get_mut(&to) else { return };
        transfer.opened = true;
        out.push(Output::OpenTransfer { transfer: transfer.id, after, state });
    }

    /// Sends or requests as much as may be in flight.
    fn advance_transfer(&mut self, to: ServerId, out: &mut Vec<Output>) -> Progress {
        let bytes = self.limits.piece_bytes;
        let window_max = self.limits.pieces_in_flight.max(1).saturating_mul(WINDOW_GROWTH_MAX);
        while let Some(transfer) = self.transfers.get_mut(&to) {
            match &mut transfer.step {
                Step::State { requested, complete, .. } => {
                    if !*complete && transfer.in_flight + *requested < transfer.window {
                        *requested += 1;
                        out.push(Output::NextPiece { transfer: transfer.id, bytes });
                        continue;
                    }
                    return Progress::Continues;
                }
                Step::Log { sent, .. } if *sent == self.log.last() => {
                    self.end_transfer(to, out);
                    return Progress::Complete { to };
                }
                Step::Log { reading: true, .. } => return Progress::Continues,
                Step::Log { .. } if transfer.in_flight >= transfer.window => return Progress::Continues,
                Step::Log { sent, reading, round } => {
                    let prev = *sent;
                    if prev >= round.end {
                        let next = Round::new(prev, self.log.last());
                        if next.entries >= round.entries {
                            transfer.window = (transfer.window * 2).min(window_max);
                        }
                        *round = next;
                    }
                    if !self.log.reaches(prev) {
                        *reading = true;
                        // Not in memory, so it is committed and on our own disk.
                        let through = self.log.base();
                        out.push(Output::ReadLog { transfer: transfer.id, after: prev, through, bytes });
                        return Progress::Continues;
                    }
                    let entries = self.log.piece(prev, bytes);
                    *sent = entries.last().map_or(prev, |entry| entry.zxid);
                    transfer.in_flight += 1;
                    send(to, Message::Entries { prev, entries }, out);
                }
            }
        }
        Progress::Continues
    }
}

/// With the default limits, 64 MiB may be in flight to a server that is far away and behind under load.
const WINDOW_GROWTH_MAX: usize = 8;
