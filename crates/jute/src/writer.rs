//! Appends the primitives to a buffer that grows, and frames around them.
//!
//! Many replies may go into one writer before it is sent: one system call for all of them.

use bytes::{BufMut, Bytes, BytesMut};

/// A buffer under construction.
#[derive(Clone, Debug)]
pub struct Writer {
    bytes: BytesMut,
    /// The buffer does not grow beyond this many bytes.
    bytes_max: usize,
    /// Something did not fit; nothing is written any more.
    is_over_limit: bool,
}

impl Default for Writer {
    fn default() -> Self {
        Self::over(BytesMut::new())
    }
}

impl Writer {
    /// Empty.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends to what is there already, or reuses the room of it.
    #[must_use]
    pub fn over(bytes: BytesMut) -> Self {
        Self { bytes, bytes_max: usize::MAX, is_over_limit: false }
    }

    /// The same writer with a limit on the length of its buffer. What does not fit is not written, nor is anything after
    /// it, and [`Writer::is_over_limit`] says so.
    #[must_use]
    pub fn limited(self, bytes_max: usize) -> Self {
        Self { bytes_max, ..self }
    }

    /// Whether something did not fit.
    #[must_use]
    pub fn is_over_limit(&self) -> bool {
        self.is_over_limit
    }

    /// Whether so many bytes more may be written.
    fn fits(&mut self, count: usize) -> bool {
        self.is_over_limit |= count > self.bytes_max.saturating_sub(self.bytes.len());
        !self.is_over_limit
    }

    /// How many bytes have been written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing has been written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What has been written.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.bytes.freeze()
    }

    /// The buffer, to go on with.
    #[must_use]
    pub fn into_inner(self) -> BytesMut {
        self.bytes
    }

    /// What has been written so far; the writer goes on, empty, with the room that is left.
    #[must_use]
    pub fn take(&mut self) -> Bytes {
        self.bytes.split().freeze()
    }

    /// Four bytes.
    pub fn int(&mut self, value: i32) {
        if self.fits(4) {
            self.bytes.put_i32(value);
        }
    }

    /// Eight bytes.
    pub fn long(&mut self, value: i64) {
        if self.fits(8) {
            self.bytes.put_i64(value);
        }
    }

    /// One byte.
    pub fn bool(&mut self, value: bool) {
        if self.fits(1) {
            self.bytes.put_u8(u8::from(value));
        }
    }

    /// A length and the bytes; none is null.
    pub fn buffer(&mut self, value: Option<&[u8]>) {
        match value {
            None => self.int(-1),
            Some(bytes) => {
                self.length(bytes.len());
                self.raw(bytes);
            }
        }
    }

    /// A length and the bytes of a string.
    pub fn string(&mut self, value: &str) {
        self.buffer(Some(value.as_bytes()));
    }

    /// Bytes as they are, without a length.
    pub fn raw(&mut self, bytes: &[u8]) {
        if self.fits(bytes.len()) {
            self.bytes.put_slice(bytes);
        }
    }

    /// The number of elements or bytes that follow.
    ///
    /// # Panics
    /// If it does not fit into 31 bits. Nothing that came through a frame is so long, so it would be our own bug.
    pub fn length(&mut self, length: usize) {
        self.int(i32::try_from(length).unwrap_or_else(|_| panic!("a length of {length} does not fit into jute's int")));
    }

    /// What `content` writes, with its length in front: a frame, or a record inside a buffer.
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
    fn what_exceeds_the_limit_is_left_out_and_said() {
        let mut writer = Writer::over(BytesMut::from(&b"before"[..])).limited(14);
        writer.long(1);
        assert!(!writer.is_over_limit());
        writer.frame(|w| w.string("ab"));
        writer.bool(true);
        assert!(writer.is_over_limit());
        assert_eq!(writer.into_bytes()[..], *b"before\0\0\0\0\0\0\0\x01");
    }

    #[test]
    fn a_frame_knows_its_length_and_not_what_stands_before_it() {
        let mut writer = Writer::new();
        writer.bool(true);
        writer.frame(|w| w.string("ab"));
        assert_eq!(writer.take()[..], [1, 0, 0, 0, 6, 0, 0, 0, 2, b'a', b'b']);
        writer.frame(|_| ());
        assert_eq!(writer.into_bytes()[..], [0; 4]);
    }
}
