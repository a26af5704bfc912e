//! Encodes primitive types and frames into a growing buffer.
//!
//! Several replies can be written into one writer and sent with a single system call.

use bytes::{BufMut, Bytes, BytesMut};

/// A buffer under construction.
#[derive(Clone, Debug)]
pub struct Writer {
    bytes: BytesMut,
    /// The maximum length of the buffer.
    bytes_max: usize,
    /// Something did not fit. Nothing is written any more.
    is_over_limit: bool,
}

impl Default for Writer {
    fn default() -> Self {
        Self::with_buffer(BytesMut::new())
    }
}

impl Writer {
    /// Creates an empty writer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a writer that appends to `bytes` and reuses its capacity.
    #[must_use]
    pub fn with_buffer(bytes: BytesMut) -> Self {
        Self { bytes, bytes_max: usize::MAX, is_over_limit: false }
    }

    /// Limits the length of the buffer. Data that does not fit is not written, nor is anything after it, and
    /// [`Writer::is_over_limit`] returns true.
    #[must_use]
    pub fn limited(self, bytes_max: usize) -> Self {
        Self { bytes_max, ..self }
    }

    /// Whether something did not fit.
    #[must_use]
    pub fn is_over_limit(&self) -> bool {
        self.is_over_limit
    }

    /// Whether this many more bytes fit.
    fn fits(&mut self, count: usize) -> bool {
        self.is_over_limit |= count > self.bytes_max.saturating_sub(self.bytes.len());
        !self.is_over_limit
    }

    /// Makes room for this many more bytes. Returns false if they do not fit; then nothing more is written.
    pub fn reserve(&mut self, count: usize) -> bool {
        let fits = self.fits(count);
        if fits {
            self.bytes.reserve(count);
        }
        fits
    }

    /// The length of the buffer.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing has been written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the buffer, frozen.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.bytes.freeze()
    }

    /// Returns the buffer, for further use.
    #[must_use]
    pub fn into_inner(self) -> BytesMut {
        self.bytes
    }

    /// Takes what has been written so far. The writer continues, empty, with the remaining capacity.
    #[must_use]
    pub fn take(&mut self) -> Bytes {
        self.bytes.split().freeze()
    }

    /// Writes four bytes.
    pub fn int(&mut self, value: i32) {
        if self.fits(4) {
            self.bytes.put_i32(value);
        }
    }

    /// Writes eight bytes.
    pub fn long(&mut self, value: i64) {
        if self.fits(8) {
            self.bytes.put_i64(value);
        }
    }

    /// Writes one byte.
    pub fn bool(&mut self, value: bool) {
        if self.fits(1) {
            self.bytes.put_u8(u8::from(value));
        }
    }

    /// Writes a length and the bytes; None is null.
    pub fn buffer(&mut self, value: Option<&[u8]>) {
        match value {
            None => self.int(-1),
            Some(bytes) => {
                self.length(bytes.len());
                self.raw(bytes);
            }
        }
    }

    /// Writes a length and the bytes of a string.
    pub fn string(&mut self, value: &str) {
        self.buffer(Some(value.as_bytes()));
    }

    /// Writes the bytes without a length.
    pub fn raw(&mut self, bytes: &[u8]) {
        if self.fits(bytes.len()) {
            self.bytes.put_slice(bytes);
        }
    }

    /// Writes the number of elements or bytes that follow.
    ///
    /// # Panics
    /// If it does not fit into 31 bits. Nothing received in a frame is that long, so it is a bug.
    pub fn length(&mut self, length: usize) {
        self.int(i32::try_from(length).unwrap_or_else(|_| panic!("a length of {length} does not fit into jute's int")));
    }

    /// Writes the output of `content` with its length in front: a frame, or a record inside a buffer.
    pub fn frame(&mut self, content: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.int(0);
        content(self);
        if self.is_over_limit {
            return;
        }
        let length = self.bytes.len() - start - 4;
        let length =
            i32::try_from(length).unwrap_or_else(|_| panic!("a frame of {length} bytes is longer than an int"));
        self.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_over_the_limit_is_omitted_and_reported() {
        let mut writer = Writer::with_buffer(BytesMut::from(&b"before"[..])).limited(14);
        writer.long(1);
        assert!(!writer.is_over_limit());
        writer.frame(|w| w.string("ab"));
        writer.bool(true);
        assert!(writer.is_over_limit());
        assert_eq!(writer.into_bytes()[..], *b"before\0\0\0\0\0\0\0\x01");
    }

    #[test]
    fn room_is_made_only_for_what_fits() {
        let mut writer = Writer::new().limited(100);
        assert!(writer.reserve(100) && !writer.is_over_limit());
        writer.raw(&[0; 60]);
        assert!(!writer.reserve(41) && writer.is_over_limit());
        writer.raw(&[0; 1]);
        assert_eq!(writer.len(), 60);
    }

    #[test]
    fn the_length_of_a_frame_does_not_count_what_is_before_it() {
        let mut writer = Writer::new();
        writer.bool(true);
        writer.frame(|w| w.string("ab"));
        assert_eq!(writer.take()[..], [1, 0, 0, 0, 6, 0, 0, 0, 2, b'a', b'b']);
        writer.frame(|_| ());
        assert_eq!(writer.into_bytes()[..], [0; 4]);
    }
}
