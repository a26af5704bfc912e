//! The output buffer of a connection: whole frames, in the order in which they were queued.
//!
//! A driver without TLS sends as much of the buffer as the socket accepts. A driver with TLS sends pieces that never
//! extend beyond one frame: some clients read one reply for each readable socket and do not ask their TLS library for
//! more, so that with two replies in one TLS record they would not notice the second one until the next ping.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use pole_types::Time;

#[derive(Debug, Default)]
pub(super) struct Output {
    buffer: BytesMut,
    /// With [`Output::take`]: the rest of the frame at the front; 0 if a frame begins there.
    frame_left: usize,
    /// Bytes taken by the driver and not yet sent.
    taken: usize,
    /// Since when the client has not read, while there was output.
    stalled_since: Option<Time>,
}

impl Output {
    /// The number of bytes not sent yet.
    pub(super) fn len(&self) -> usize {
        self.buffer.len() + self.taken
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn stalled_since(&self) -> Option<Time> {
        self.stalled_since
    }

    /// Appends a reply or an event: length, xid, zxid, code, body.
    pub(super) fn frame(&mut self, xid: i32, zxid: i64, code: i32, body: &[u8]) {
        let length = REPLY_HEADER_BYTES + body.len();
        self.buffer.reserve(4 + length);
        // Bodies are limited by `Limits::reply_bytes_max`.
        self.buffer.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
        self.buffer.put_i32(xid);
        self.buffer.put_i64(zxid);
        self.buffer.put_i32(code);
        self.buffer.put_slice(body);
    }

    /// Appends bytes that are whole frames already, or the text of a four-letter word.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The buffer, for a reply that is written in place. It must hold whole frames when the borrow ends.
    pub(super) fn buffer_mut(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    pub(super) fn unsent(&self) -> &[u8] {
        &self.buffer
    }

    /// Removes `count` bytes of [`Output::unsent`], which were sent.
    pub(super) fn sent(&mut self, count: usize) {
        self.buffer.advance(count);
        self.stalled_since = None;
        self.release();
    }

    /// Takes a piece of one frame with at most `max` bytes. It must be sent before the next one is taken.
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

    /// Reports that the piece taken was sent.
    pub(super) fn taken_sent(&mut self) {
        self.taken = 0;
        self.stalled_since = None;
        self.release();
    }

    /// Reports that the client does not read for now.
    pub(super) fn stalled(&mut self, now: Time) {
        self.stalled_since.get_or_insert(now);
    }

    /// Discards everything that was not taken.
    pub(super) fn clear(&mut self) {
        *self = Self { taken: self.taken, ..Self::default() };
    }

    /// Frees the memory of a burst, which must not be kept for as long as the connection lasts.
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
