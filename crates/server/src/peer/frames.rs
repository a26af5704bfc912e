//! Decodes the bytes of one connection into messages and the link's own frames.
//!
//! Bytes can be appended in pieces of any size. After a [`FrameError`] the connection must be closed. What a frame
//! causes is decided in `link`.

use bytes::BytesMut;
use pole_jute::Deframer;
use pole_node::{Channel, Message};

use super::codec;

/// The bytes received on one connection that have not been decoded yet.
#[derive(Debug)]
pub struct FrameReader {
    deframer: Deframer,
    arrived: BytesMut,
    /// How much to reserve for a read.
    room: usize,
}

/// A decoded frame.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly all are messages; a box for each would cost more than it saves")]
pub enum Frame {
    /// A message for the node.
    Message {
        /// The message.
        message: Message,
        /// Its size on the wire, which is about its size in memory.
        bytes: usize,
    },
    /// Asks whether this end is alive.
    Probe,
    /// The answer to a probe: the other end is alive.
    ProbeAnswer,
}

/// Bytes that are not a valid frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The frame is longer than any message.
    #[error("a frame of {declared} bytes, expected at most {max}")]
    TooLong {
        /// The declared length.
        declared: u32,
        /// The limit.
        max: usize,
    },
    /// The frame does not contain a valid message.
    #[error("not a message: {0}")]
    Message(#[from] codec::Error),
}

impl FrameReader {
    /// Creates a reader for a connection of this channel. `frame_bytes_max` does not include the length field.
    #[must_use]
    pub fn new(channel: Channel, frame_bytes_max: usize) -> Self {
        let room = match channel {
            Channel::Election => ELECTION_ROOM_BYTES,
            Channel::Quorum => QUORUM_ROOM_BYTES,
        };
        Self { deframer: Deframer::new(frame_bytes_max), arrived: BytesMut::new(), room }
    }

    /// The buffer to append received bytes to. It has free capacity.
    pub fn buffer(&mut self) -> &mut BytesMut {
        if self.arrived.capacity() - self.arrived.len() < self.room / 16 {
            self.arrived.reserve(self.room);
        }
        &mut self.arrived
    }

    /// Returns the next frame, or `None` if it has not arrived completely.
    ///
    /// # Errors
    /// If the bytes are not a valid frame. Nothing that follows on the connection can be trusted.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let too_long = |error: pole_jute::FrameError| FrameError::TooLong {
            declared: error.declared.cast_unsigned(),
            max: error.max,
        };
        let Some(frame) = self.deframer.next(&mut self.arrived).map_err(too_long)? else { return Ok(None) };
        Ok(Some(match frame[..] {
            [codec::PROBE] => Frame::Probe,
            [codec::PROBE_ANSWER] => Frame::ProbeAnswer,
            _ => Frame::Message { bytes: frame.len(), message: codec::decode(frame)? },
        }))
    }
}

/// Capacity of the receive buffer. The bodies of transactions stay in it as long as the log keeps them, so on the
/// quorum channel it holds several batches. Elections and measurements are small.
const QUORUM_ROOM_BYTES: usize = 64 << 10;
const ELECTION_ROOM_BYTES: usize = 4 << 10;
