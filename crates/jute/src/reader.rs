//! Decodes primitive types: big-endian numbers, and lengths that are checked before use.
//!
//! A length is compared with the remaining input and with the limit before anything is allocated. After an error the
//! position is unspecified, but further reads are safe.
//!
//! A returned buffer shares the memory of the input. Code that keeps one for long should copy it, or a few bytes keep
//! a whole receive buffer alive.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

use crate::{Cause, Error, Place, Value};

/// A position in a byte sequence, moving forward.
#[derive(Clone, Debug)]
pub struct Reader {
    bytes: Bytes,
    at: usize,
    /// The maximum length of a buffer or string.
    length_max: usize,
}

impl Reader {
    /// Reads from the start of `bytes`, with its size as the only limit.
    #[must_use]
    pub fn new(bytes: Bytes) -> Self {
        Self::with_limit(bytes, i32::MAX as usize)
    }

    /// Like [`Self::new`], but no buffer or string may be longer than `length_max`. For files, whose size is no useful
    /// limit.
    #[must_use]
    pub fn with_limit(bytes: Bytes, length_max: usize) -> Self {
        Self { bytes, at: 0, length_max }
    }

    /// The number of bytes read so far.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// The number of bytes left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Takes all remaining bytes.
    #[must_use]
    pub fn rest(&mut self) -> Bytes {
        let rest = self.bytes.slice(self.at..);
        self.at = self.bytes.len();
        rest
    }

    /// Returns an error if any bytes are left.
    ///
    /// For files and tests: Apache's server accepts trailing bytes in a request.
    pub fn finish(&self, record: &'static str) -> Result<(), Error> {
        match self.left() {
            0 => Ok(()),
            left => Err(self.error(Place::new(record, "end"), Cause::Trailing { left })),
        }
    }

    /// Reads four bytes, signed.
    pub fn int(&mut self, place: Place) -> Result<i32, Error> {
        self.array(place).map(i32::from_be_bytes)
    }

    /// Reads eight bytes, signed.
    pub fn long(&mut self, place: Place) -> Result<i64, Error> {
        self.array(place).map(i64::from_be_bytes)
    }

    /// Reads one byte. As in Java, everything except 0 is true.
    pub fn bool(&mut self, place: Place) -> Result<bool, Error> {
        self.array(place).map(|[byte]: [u8; 1]| byte != 0)
    }

    /// Reads a length and that many bytes. Length -1 is null, which is different from empty.
    pub fn buffer(&mut self, place: Place) -> Result<Option<Bytes>, Error> {
        let Some(length) = self.length(place)? else { return Ok(None) };
        let buffer = self.bytes.slice(self.at..self.at + length);
        self.at += length;
        Ok(Some(buffer))
    }

    /// Reads a length and that many bytes of UTF-8, or null.
    ///
    /// Invalid UTF-8 is replaced by U+FFFD, as in Apache: its Java writer produces such bytes for characters outside
    /// the basic plane, so they occur in directories that must open here. Apache does not allow that character in a
    /// path.
    pub fn nullable_string(&mut self, place: Place) -> Result<Option<String>, Error> {
        let Some(length) = self.length(place)? else { return Ok(None) };
        let bytes = &self.bytes[self.at..self.at + length];
        let string = match core::str::from_utf8(bytes) {
            Ok(valid) => valid.to_owned(),
            Err(_) => String::from_utf8_lossy(bytes).into_owned(),
        };
        self.at += length;
        Ok(Some(string))
    }

    /// Reads a string that must not be null.
    pub fn string(&mut self, place: Place) -> Result<String, Error> {
        let null = self.error(place, Cause::Null);
        self.nullable_string(place)?.ok_or(null)
    }

    /// Reads a count and that many values. Null is read as empty: ZooKeeper does not distinguish the two.
    pub fn vector<T: Value>(&mut self, place: Place) -> Result<Vec<T>, Error> {
        let count = match self.int(place)? {
            -1 => return Ok(Vec::new()),
            got => usize::try_from(got).map_err(|_| self.error(place, Cause::Length { got, max: self.left() }))?,
        };
        // Every element takes some bytes, so the remaining input bounds the allocation.
        let needed = count.saturating_mul(T::BYTES_MIN);
        if needed > self.left() {
            return Err(self.error(place, Cause::Short { needed, left: self.left() }));
        }
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            values.push(T::take(self, place)?);
        }
        Ok(values)
    }

    /// Reads the length of the data that follows, which is available in full; None for null.
    fn length(&mut self, place: Place) -> Result<Option<usize>, Error> {
        let got = self.int(place)?;
        if got == -1 {
            return Ok(None);
        }
        let max = self.length_max;
        let fits = usize::try_from(got).ok().filter(|length| *length <= max);
        let needed = fits.ok_or_else(|| self.error(place, Cause::Length { got, max }))?;
        let left = self.left();
        if needed > left { Err(self.error(place, Cause::Short { needed, left })) } else { Ok(Some(needed)) }
    }

    fn array<const N: usize>(&mut self, place: Place) -> Result<[u8; N], Error> {
        let Some(array) = self.bytes[self.at..].first_chunk::<N>().copied() else {
            return Err(self.error(place, Cause::Short { needed: N, left: self.left() }));
        };
        self.at += N;
        Ok(array)
    }

    /// Creates an error at the current position.
    pub(crate) fn error(&self, place: Place, cause: Cause) -> Error {
        Error { place, at: self.at, cause }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use super::*;

    const PLACE: Place = Place::new("Test", "field");

    fn reader(bytes: &'static [u8]) -> Reader {
        Reader::new(Bytes::from_static(bytes))
    }

    #[test]
    fn null_is_not_empty() {
        assert_eq!(reader(&[0xff; 4]).buffer(PLACE), Ok(None));
        assert_eq!(reader(&[0; 4]).buffer(PLACE), Ok(Some(Bytes::new())));
    }

    #[test]
    fn a_null_vector_is_empty() {
        assert_eq!(reader(&[0xff; 4]).vector::<String>(PLACE), Ok(vec![]));
    }

    #[test]
    fn a_buffer_shares_the_memory_of_its_input() {
        let input = Bytes::from(vec![0, 0, 0, 2, 7, 8]);
        let buffer = Reader::new(input.clone()).buffer(PLACE).unwrap().unwrap();
        assert_eq!(buffer.as_ptr(), input[4..].as_ptr());
    }

    #[test]
    fn an_error_says_where_and_expected_against_got() {
        let error = reader(&[0, 0, 0, 9, b'a']).string(PLACE).unwrap_err();
        assert_eq!(error.to_string(), "Test.field at byte 4: needs 9 bytes, got 1");
        let error = reader(&[0x80, 0, 0, 0]).vector::<i32>(PLACE).unwrap_err();
        assert_eq!(error.to_string(), "Test.field at byte 4: expected a length from -1 to 0, got -2147483648");
    }

    #[test]
    fn a_huge_count_is_refused_before_anything_is_allocated() {
        let error = reader(&[0x7f, 0xff, 0xff, 0xff, 0, 0]).vector::<i64>(PLACE).unwrap_err();
        assert_eq!(error.cause, Cause::Short { needed: 0x7fff_ffff * 8, left: 2 });
    }

    #[test]
    fn a_length_over_the_limit_is_refused_even_if_the_bytes_are_there() {
        let bytes = Bytes::from_static(&[0, 0, 0, 3, 1, 2, 3]);
        assert_eq!(
            Reader::with_limit(bytes.clone(), 2).buffer(PLACE).unwrap_err().cause,
            Cause::Length { got: 3, max: 2 }
        );
        assert!(Reader::with_limit(bytes, 3).buffer(PLACE).is_ok());
    }

    #[test]
    fn invalid_utf8_is_replaced_as_in_apache() {
        assert_eq!(reader(&[0, 0, 0, 2, b'a', 0xff]).string(PLACE).as_deref(), Ok("a\u{fffd}"));
    }
}
