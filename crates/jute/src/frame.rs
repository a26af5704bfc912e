//! Frames: a length of four bytes, followed by that many bytes.
//!
//! Frames are cut from the received bytes without copying. A length over the limit is rejected as soon as its four
//! bytes have arrived, and memory is reserved only for a frame within the limit.

use bytes::{Buf, Bytes, BytesMut};

/// The default of `jute.maxbuffer`, the largest frame that Apache accepts, not counting the four bytes of the length.
pub const MAX_BUFFER_DEFAULT: usize = 0xf_ffff;

/// Splits a stream into frames.
#[derive(Clone, Copy, Debug)]
pub struct Deframer {
    frame_bytes_max: usize,
}

impl Deframer {
    /// Creates a deframer with `jute.maxbuffer` as the limit.
    #[must_use]
    pub fn new(max_buffer: usize) -> Self {
        Self { frame_bytes_max: max_buffer }
    }

    /// Returns the next complete frame without its length, or None if it has not arrived yet.
    ///
    /// Once the length is known, space for the rest of the frame is reserved in `arrived`, so that further reads do
    /// not copy.
    pub fn next(&self, arrived: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        let Some(whole) = self.whole_bytes(arrived)? else { return Ok(None) };
        if arrived.len() < whole {
            arrived.reserve(whole - arrived.len());
            return Ok(None);
        }
        let mut frame = arrived.split_to(whole);
        frame.advance(LENGTH_BYTES);
        Ok(Some(frame.freeze()))
    }

    /// Whether the next frame has arrived completely.
    pub fn has_frame(&self, arrived: &[u8]) -> Result<bool, FrameError> {
        Ok(self.whole_bytes(arrived)?.is_some_and(|whole| arrived.len() >= whole))
    }

    /// The size of the next frame including its length field, if that has arrived.
    fn whole_bytes(&self, arrived: &[u8]) -> Result<Option<usize>, FrameError> {
        let Some(declared) = arrived.first_chunk().copied().map(i32::from_be_bytes) else { return Ok(None) };
        let length = usize::try_from(declared).ok().filter(|length| *length <= self.frame_bytes_max);
        let length = length.ok_or(FrameError { declared, max: self.frame_bytes_max })?;
        Ok(Some(LENGTH_BYTES + length))
    }
}

impl Default for Deframer {
    fn default() -> Self {
        Self::new(MAX_BUFFER_DEFAULT)
    }
}

/// Returns the first four bytes of a connection if they can be a four-letter word. As a length they would be more than
/// 1.6 GB.
///
/// Check this only before the first frame of a connection: afterwards four letters are a length like any other.
#[must_use]
pub fn four_letter_word(arrived: &[u8]) -> Option<[u8; 4]> {
    arrived.first_chunk().copied().filter(|word: &[u8; 4]| word.iter().all(u8::is_ascii_lowercase))
}

/// A frame length that is negative or over the limit. The connection cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a frame of at most {max} bytes (jute.maxbuffer), got a length of {declared}")]
pub struct FrameError {
    /// The length in the first four bytes.
    pub declared: i32,
    /// The limit.
    pub max: usize,
}

const LENGTH_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn deframer() -> Deframer {
        Deframer::new(8)
    }

    #[test]
    fn frames_come_out_whole_however_they_arrive() {
        let stream = [0, 0, 0, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 3];
        let mut arrived = BytesMut::new();
        let mut frames = alloc::vec::Vec::new();
        for byte in stream {
            arrived.extend_from_slice(&[byte]);
            frames.extend(deframer().next(&mut arrived).unwrap());
        }
        assert_eq!(frames, [&[1, 2][..], &[], &[3]]);
        assert!(arrived.is_empty());
    }

    #[test]
    fn the_limit_itself_is_allowed_and_one_more_is_refused_at_once() {
        let mut arrived = BytesMut::from(&[0, 0, 0, 8][..]);
        assert_eq!(deframer().next(&mut arrived), Ok(None));
        let mut arrived = BytesMut::from(&[0, 0, 0, 9][..]);
        assert_eq!(deframer().next(&mut arrived), Err(FrameError { declared: 9, max: 8 }));
    }

    #[test]
    fn a_huge_or_negative_length_allocates_nothing() {
        for declared in [i32::MAX, i32::MIN, -1, 9] {
            let mut arrived = BytesMut::from(&declared.to_be_bytes()[..]);
            let before = arrived.capacity();
            assert_eq!(deframer().next(&mut arrived), Err(FrameError { declared, max: 8 }));
            assert_eq!(arrived.capacity(), before);
        }
    }

    #[test]
    fn room_is_made_for_the_declared_frame_and_little_more() {
        let mut arrived = BytesMut::from(&[0, 1, 0, 0][..]);
        assert_eq!(Deframer::default().next(&mut arrived), Ok(None));
        assert!((0x1_0004..0x2_0000).contains(&arrived.capacity()), "{}", arrived.capacity());
    }

    #[test]
    fn four_letter_words_are_distinguished_from_lengths() {
        assert_eq!(four_letter_word(b"ruok\n"), Some(*b"ruok"));
        assert_eq!(four_letter_word(b"ruo"), None);
        assert_eq!(four_letter_word(&[0, 0, 0, 45]), None);
    }
}
