//! What a connection has to send: whole frames in one buffer, in the order in which they were made.
//!
//! A driver without TLS sends as much of the buffer as the socket takes. A driver with TLS sends pieces that never reach
//! beyond one frame: some clients read one reply for each readable socket and do not ask their TLS library for more, so
//! two replies in one TLS record would leave the second unseen until the next ping.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use pole_oracle::Time;

/// Bytes for the client.
#[derive(Debug, Default)]
pub(super) struct Output {
    buffer: BytesMut,
    /// With [`Output::take`]: what is left of the frame at the front; 0: a frame begins there.
    frame_left: usize,
    /// Taken by the driver and not yet sent.
    taken: usize,
    /// Since when the client has taken nothing, while there was something to take.
    stalled_since: Option<Time>,
}

impl Output {
    /// Bytes that the client has not taken.
    pub(super) fn len(&self) -> usize {
        self.buffer.len() + self.taken
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn stalled_since(&self) -> Option<Time> {
        self.stalled_since
    }

    /// A reply or an event: length, xid, zxid, code, body.
    pub(super) fn frame(&mut self, xid: i32, zxid: i64, code: i32, body: &[u8]) {
        let length = REPLY_HEADER_BYTES + body.len();
        self.buffer.reserve(4 + length);
        // A body over `Limits::reply_bytes_max` never gets here.
        self.buffer.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
        self.buffer.put_i32(xid);
        self.buffer.put_i64(zxid);
        self.buffer.put_i32(code);
        self.buffer.put_slice(body);
    }

    /// Bytes that are whole frames already, or the text of a four-letter word.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The buffer, for a reply that is written in place. Whole frames must be in it when the borrow ends.
    pub(super) fn buffer_mut(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Everything that can be sent.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.buffer
    }

    /// The driver sent this many bytes of [`Output::unsent`].
    pub(super) fn sent(&mut self, count: usize) {
        self.buffer.advance(count);
        self.stalled_since = None;
        self.release();
    }

    /// A piece of at most `max` bytes and of one frame, to be sent before the next is taken.
    pub(super) fn take(&mut self, max: usize, is_framed: bool) -> Bytes {
        debug_assert_eq!(self.taken, 0, "one piece at a time");
        let rest = match (self.frame_left, self.buffer.first_chunk()) {
            _ if !is_framed => self.buffer.len(),
            (0, Some(length)) => 4 + u32::from_be_bytes(*length) as usize,
            (left, _) => left,
        };
        let piece = self.buffer.len().min(rest).min(max);
        (self.frame_left, self.taken) = (rest - piece, piece);
        self.buffer.split_to(piece).freeze()
    }

    /// The piece that was taken has been sent.
    pub(super) fn taken_sent(&mut self) {
        self.taken = 0;
        self.stalled_since = None;
        self.release();
    }

    /// The client takes nothing for now.
    pub(super) fn stalled(&mut self, now: Time) {
        self.stalled_since.get_or_insert(now);
    }

    /// Nothing more is to be sent.
    pub(super) fn clear(&mut self) {
        *self = Self { taken: self.taken, ..Self::default() };
    }

    /// A burst must not hold its memory for as long as the connection lasts.
    fn release(&mut self) {
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BYTES_MAX {
            self.buffer = BytesMut::new();
        }
    }
}

/// Xid, zxid and code.
pub(super) const REPLY_HEADER_BYTES: usize = 16;

/// The capacity that an idle connection keeps for its next replies.
const KEPT_BYTES_MAX: usize = 16 << 10;
