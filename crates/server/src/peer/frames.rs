//! Turns the bytes of one connection into messages and the link's own frames.
//!
//! In: bytes, as the socket gives them. Out: [`Frame`]s in order, or a [`FrameError`], after which the connection is of
//! no use. Where the bytes were cut makes no difference.
//!
//! Not here: sockets, and what a frame causes (`link`).

use bytes::BytesMut;
use pole_jute::Deframer;
use pole_node::{Channel, Message};

use super::codec;

/// What has arrived on one connection and was not taken yet.
#[derive(Debug)]
pub struct FrameReader {
    deframer: Deframer,
    arrived: BytesMut,
    /// How much a read may bring.
    room: usize,
}

/// One frame.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly all are messages; a box for each would cost more than it saves")]
pub enum Frame {
    /// For the node.
    Message {
        /// What.
        message: Message,
        /// What it took on the wire, and so about what it takes in memory.
        bytes: usize,
    },
    /// The other end asks whether this end is alive.
    Probe,
    /// The other end is alive.
    ProbeAnswer,
}

/// Bytes that no peer sends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Longer than any message.
    #[error("a frame of {declared} bytes, expected at most {max}")]
    TooLong {
        /// What its length says.
        declared: u32,
        /// The limit.
        max: usize,
    },
    /// A frame that holds no message.
    #[error("not a message: {0}")]
    Message(#[from] codec::Error),
}

impl FrameReader {
    /// For a connection of this channel. A frame may be as long as `frame_bytes_max`, without its length.
    #[must_use]
    pub fn new(channel: Channel, frame_bytes_max: usize) -> Self {
        let room = match channel {
            Channel::Election => ELECTION_ROOM_BYTES,
            Channel::Quorum => QUORUM_ROOM_BYTES,
        };
        Self { deframer: Deframer::new(frame_bytes_max), arrived: BytesMut::new(), room }
    }

    /// Where the next bytes are to be appended. It has room.
    pub fn buffer(&mut self) -> &mut BytesMut {
        if self.arrived.capacity() - self.arrived.len() < self.room / 16 {
            self.arrived.reserve(self.room);
        }
        &mut self.arrived
    }

    /// The next frame; none if it has not arrived as a whole.
    ///
    /// # Errors
    /// If the bytes are no frame: nothing that follows on the connection can be trusted.
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

/// Room for what arrives. The bodies of transactions stay in it as long as the log keeps them, so on the quorum channel
/// it is as large as some batches; elections and measurements are small.
const QUORUM_ROOM_BYTES: usize = 64 << 10;
const ELECTION_ROOM_BYTES: usize = 4 << 10;
