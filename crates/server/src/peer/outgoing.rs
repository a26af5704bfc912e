//! The output queue of one connection.
//!
//! Messages go in; bytes come out when the emulated line lets them pass. There are two stores: encoded messages would
//! be in memory twice, while the bodies of messages share the memory of the log. So only [`ENCODED_BYTES`] and one
//! message are encoded ahead.
//!
//! The queue is first in, first out, and each message is encoded once. The caller bounds it with [`Outgoing::is_over`].

use crate::topology::Link as Line;
use bytes::{Buf, BytesMut};
use pole_node::Message;
use pole_types::Time;

use super::codec;
use super::delay::DelayLine;

#[derive(Debug)]
pub(super) struct Outgoing {
    encoded: BytesMut,
    waiting: DelayLine<Message>,
    /// The memory that the waiting messages use.
    waiting_bytes: usize,
    /// Nothing is written while the emulated line is cut.
    is_cut: bool,
}

impl Outgoing {
    pub(super) fn new(line: Option<Line>, is_cut: bool, seed: u64) -> Self {
        Self { encoded: BytesMut::new(), waiting: DelayLine::new(line, seed), waiting_bytes: 0, is_cut }
    }

    pub(super) fn set_line(&mut self, line: Option<Line>, is_cut: bool) {
        self.waiting.set_line(line);
        self.is_cut = is_cut;
    }

    pub(super) fn push(&mut self, now: Time, message: &Message) {
        let at_once = self.waiting.is_empty() && !self.waiting.is_delayed();
        if at_once && self.encoded.len() < ENCODED_BYTES {
            codec::encode(message, &mut self.encoded);
        } else {
            self.waiting_bytes += message.size_bytes();
            self.waiting.push(now, message.size_bytes(), message.clone());
        }
    }

    /// Queues a control frame, which consists of its kind only. It overtakes waiting messages.
    pub(super) fn push_control(&mut self, kind: u8) {
        self.encoded.extend_from_slice(&[0, 0, 0, 1, kind]);
    }

    /// Whether the queue is larger than this.
    pub(super) fn is_over(&self, bytes_max: usize) -> bool {
        self.encoded.len() + self.waiting_bytes > bytes_max
    }

    /// Returns the bytes that can be written now.
    pub(super) fn ready(&mut self, now: Time) -> &[u8] {
        if self.is_cut {
            return &[];
        }
        self.refill(now);
        &self.encoded
    }

    /// Removes and returns the bytes that can be written now.
    pub(super) fn take(&mut self, now: Time) -> BytesMut {
        if self.is_cut {
            return BytesMut::new();
        }
        self.refill(now);
        self.encoded.split()
    }

    /// Removes bytes that were written.
    pub(super) fn written(&mut self, bytes: usize) {
        self.encoded.advance(bytes);
        if self.encoded.is_empty() && self.encoded.capacity() > 4 * ENCODED_BYTES {
            // Frees the memory after a burst.
            self.encoded = BytesMut::new();
        }
    }

    /// When the emulated line lets the next waiting message pass, if there is one and the line is not cut.
    pub(super) fn next(&self) -> Option<Time> {
        if self.is_cut { None } else { self.waiting.next() }
    }

    fn refill(&mut self, now: Time) {
        while self.encoded.len() < ENCODED_BYTES {
            let Some(message) = self.waiting.pop(now) else { return };
            self.waiting_bytes -= message.size_bytes();
            codec::encode(&message, &mut self.encoded);
        }
    }
}

/// How much is encoded ahead, plus one message: several times what a socket accepts at once.
const ENCODED_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn batch(bytes: usize) -> Message {
        let body = vec![bytes as u8; bytes].into();
        let request = pole_node::Request { origin: pole_zab::Origin::default(), floor: pole_types::Zxid::ZERO, body };
        Message::Forward { epoch: pole_types::Epoch(1), requests: vec![request] }
    }

    proptest! {
        #[test]
        fn the_bytes_of_all_messages_come_out_in_order_however_they_are_taken(
            steps in vec((0_usize..200_000, 0_usize..150_000), 1..20),
        ) {
            let (mut expected, mut got) = (BytesMut::new(), Vec::new());
            let mut outgoing = Outgoing::new(None, false, 0);
            let mut write = |outgoing: &mut Outgoing, room: usize| {
                let ready = outgoing.ready(Time(0));
                let bytes = ready.len().min(room);
                got.extend_from_slice(&ready[..bytes]);
                outgoing.written(bytes);
                bytes
            };
            for (size, room) in steps {
                codec::encode(&batch(size), &mut expected);
                outgoing.push(Time(0), &batch(size));
                write(&mut outgoing, room);
            }
            while write(&mut outgoing, usize::MAX) > 0 {}
            prop_assert!(got == expected);
            prop_assert_eq!((outgoing.waiting_bytes, outgoing.next()), (0, None));
        }
    }

    #[test]
    fn a_line_that_is_cut_carries_nothing_until_it_is_restored() {
        let mut outgoing = Outgoing::new(None, true, 0);
        outgoing.push(Time(0), &batch(10));
        outgoing.push_control(codec::PROBE);
        assert!(outgoing.ready(Time(9)).is_empty() && outgoing.take(Time(9)).is_empty());
        assert_eq!(outgoing.next(), None);
        outgoing.set_line(None, false);
        let mut expected = BytesMut::new();
        codec::encode(&batch(10), &mut expected);
        assert!(outgoing.ready(Time(9)).len() > expected.len());
    }

    #[test]
    fn little_is_encoded_ahead_and_all_of_it_counts() {
        let mut outgoing = Outgoing::new(None, false, 0);
        (0..100).for_each(|_| outgoing.push(Time(0), &batch(100 << 10)));
        assert!(outgoing.ready(Time(0)).len() < ENCODED_BYTES + (101 << 10));
        assert!(outgoing.is_over(99 * (100 << 10)));
        assert!(!outgoing.is_over(101 * (101 << 10)));
    }
}
