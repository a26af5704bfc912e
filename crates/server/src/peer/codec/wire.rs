//! Encoding of basic values: big-endian numbers, checked lengths, and exactly one encoding per value.
//!
//! Errors name the field, its position, what was expected and what was found. Nothing is allocated for more elements
//! than the remaining bytes can hold, and bodies share the memory of the frame.
//!
//! The primitives of jute are not used, because they are as lenient as Java: any byte is true, and invalid UTF-8 is
//! replaced. Between our own servers anything unusual is an error. The fields of messages are in `agreement` and
//! `election`.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// A value that can be encoded.
pub(super) trait Wire: Sized {
    /// The minimal size, which bounds how many of them a frame can hold.
    const BYTES_MIN: usize;

    fn put(&self, out: &mut BytesMut);

    fn take(from: &mut Reader) -> Result<Self, Error>;
}

/// Bytes that are not a valid message. The link is closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place} at byte {at}: {cause}")]
pub struct Error {
    /// The record and field.
    pub place: &'static str,
    /// The number of bytes read before the error.
    pub at: usize,
    /// What is wrong.
    pub cause: Cause,
}

/// What can be wrong with the bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The frame ends too early.
    #[error("needs {needed} bytes, got {left}")]
    Short {
        /// The number of bytes needed.
        needed: usize,
        /// The number of bytes left.
        left: usize,
    },
    /// The frame continues after the message.
    #[error("expected the end, got {left} more bytes")]
    Trailing {
        /// The number of extra bytes.
        left: usize,
    },
    /// A number outside a fixed set.
    #[error("expected {expected}, got {got}")]
    Unknown {
        /// The valid values.
        expected: &'static str,
        /// The number.
        got: u64,
    },
    /// A string that is not UTF-8.
    #[error("expected UTF-8")]
    Utf8,
    /// A list that is not sorted, or has duplicates.
    #[error("expected a list in ascending order without doubles")]
    Order,
}

/// Reads a frame from front to back.
#[derive(Debug)]
pub(super) struct Reader {
    left: Bytes,
    whole: usize,
    place: &'static str,
}

impl Reader {
    pub(super) fn new(frame: Bytes) -> Self {
        Self { whole: frame.len(), left: frame, place: "Frame.kind" }
    }

    /// Reads the next value; `place` names the record and field for errors.
    pub(super) fn field<T: Wire>(&mut self, place: &'static str) -> Result<T, Error> {
        self.place = place;
        T::take(self)
    }

    /// Returns an error if any bytes are left.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        self.place = "Frame.end";
        match self.left.len() {
            0 => Ok(()),
            left => Err(self.error(Cause::Trailing { left })),
        }
    }

    pub(super) fn error(&self, cause: Cause) -> Error {
        Error { place: self.place, at: self.whole - self.left.len(), cause }
    }

    fn need(&self, needed: usize) -> Result<(), Error> {
        match self.left.len() {
            left if left < needed => Err(self.error(Cause::Short { needed, left })),
            _ => Ok(()),
        }
    }

    /// Reads a count of elements, and checks that the rest of the frame can hold them.
    fn count(&mut self, bytes_each: usize) -> Result<usize, Error> {
        let count = u32::take(self)? as usize;
        self.need(count.saturating_mul(bytes_each))?;
        Ok(count)
    }
}

macro_rules! number {
    ($type:ty, $put:ident, $get:ident) => {
        impl Wire for $type {
            const BYTES_MIN: usize = size_of::<Self>();

            fn put(&self, out: &mut BytesMut) {
                out.$put(*self);
            }

            fn take(from: &mut Reader) -> Result<Self, Error> {
                from.need(Self::BYTES_MIN)?;
                Ok(from.left.$get())
            }
        }
    };
}

number!(u8, put_u8, get_u8);
number!(u32, put_u32, get_u32);
number!(u64, put_u64, get_u64);
number!(i32, put_i32, get_i32);
number!(i64, put_i64, get_i64);

/// Implements [`Wire`] for a record: its fields in this order, without separators.
macro_rules! record {
    ($record:ident { $($field:ident: $type:ty),+ $(,)? }) => {
        impl Wire for $record {
            const BYTES_MIN: usize = 0 $(+ <$type as Wire>::BYTES_MIN)+;

            fn put(&self, out: &mut BytesMut) {
                $(self.$field.put(out);)+
            }

            fn take(from: &mut Reader) -> Result<Self, Error> {
                Ok(Self { $($field: from.field(concat!(stringify!($record), ".", stringify!($field)))?),+ })
            }
        }
    };
}

/// Implements [`Wire`] for newtypes of numbers.
macro_rules! newtype {
    ($($name:ident($type:ty)),+ $(,)?) => {
        $(impl Wire for $name {
            const BYTES_MIN: usize = <$type as Wire>::BYTES_MIN;

            fn put(&self, out: &mut BytesMut) {
                self.0.put(out);
            }

            fn take(from: &mut Reader) -> Result<Self, Error> {
                <$type as Wire>::take(from).map($name)
            }
        })+
    };
}

pub(super) use {newtype, record};

impl Wire for usize {
    const BYTES_MIN: usize = u64::BYTES_MIN;

    fn put(&self, out: &mut BytesMut) {
        (*self as u64).put(out);
    }

    fn take(from: &mut Reader) -> Result<Self, Error> {
        let got = u64::take(from)?;
        Self::try_from(got).map_err(|_| from.error(Cause::Unknown { expected: "a size", got }))
    }
}

impl Wire for bool {
    const BYTES_MIN: usize = 1;

    fn put(&self, out: &mut BytesMut) {
        out.put_u8(u8::from(*self));
    }

    fn take(from: &mut Reader) -> Result<Self, Error> {
        match u8::take(from)? {
            0 => Ok(false),
            1 => Ok(true),
            got => Err(from.error(Cause::Unknown { expected: "0 or 1", got: got.into() })),
        }
    }
}

impl<T: Wire> Wire for Option<T> {
    const BYTES_MIN: usize = 1;

    fn put(&self, out: &mut BytesMut) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Error> {
        bool::take(from)?.then(|| T::take(from)).transpose()
    }
}

impl Wire for Bytes {
    const BYTES_MIN: usize = u32::BYTES_MIN;

    fn put(&self, out: &mut BytesMut) {
        put_count(self.len(), out);
        out.put_slice(self);
    }

    fn take(from: &mut Reader) -> Result<Self, Error> {
        let length = from.count(1)?;
        Ok(from.left.split_to(length))
    }
}

impl Wire for String {
    const BYTES_MIN: usize = u32::BYTES_MIN;

    fn put(&self, out: &mut BytesMut) {
        put_count(self.len(), out);
        out.put_slice(self.as_bytes());
    }

    fn take(from: &mut Reader) -> Result<Self, Error> {
        let bytes = <Bytes as Wire>::take(from)?;
        std::str::from_utf8(&bytes).map(str::to_owned).map_err(|_| from.error(Cause::Utf8))
    }
}

impl<T: Wire> Wire for Vec<T> {
    const BYTES_MIN: usize = u32::BYTES_MIN;

    fn put(&self, out: &mut BytesMut) {
        put_list(self, out);
    }

    fn take(from: &mut Reader) -> Result<Self, Error> {
        let count = from.count(T::BYTES_MIN)?;
        let mut list = Self::with_capacity(count);
        for _ in 0..count {
            list.push(T::take(from)?);
        }
        Ok(list)
    }
}

impl<T: Wire + Ord> Wire for BTreeSet<T> {
    const BYTES_MIN: usize = u32::BYTES_MIN;

    fn put(&self, out: &mut BytesMut) {
        put_count(self.len(), out);
        self.iter().for_each(|value| value.put(out));
    }

    fn take(from: &mut Reader) -> Result<Self, Error> {
        let list = Vec::take(from)?;
        let ascending = list.is_sorted_by(|a: &T, b| a < b);
        if ascending { Ok(list.into_iter().collect()) } else { Err(from.error(Cause::Order)) }
    }
}

impl<K: Wire + Ord, V: Wire> Wire for BTreeMap<K, V> {
    const BYTES_MIN: usize = u32::BYTES_MIN;

    fn put(&self, out: &mut BytesMut) {
        put_count(self.len(), out);
        for (key, value) in self {
            key.put(out);
            value.put(out);
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Error> {
        let list: Vec<(K, V)> = Vec::take(from)?;
        let ascending = list.is_sorted_by(|a, b| a.0 < b.0);
        if ascending { Ok(list.into_iter().collect()) } else { Err(from.error(Cause::Order)) }
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    const BYTES_MIN: usize = A::BYTES_MIN + B::BYTES_MIN;

    fn put(&self, out: &mut BytesMut) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut Reader) -> Result<Self, Error> {
        Ok((A::take(from)?, B::take(from)?))
    }
}

pub(super) fn put_list<T: Wire>(list: &[T], out: &mut BytesMut) {
    put_count(list.len(), out);
    list.iter().for_each(|value| value.put(out));
}

/// # Panics
/// Above 2^32, which is far more than a frame may hold, so it would be a bug of ours.
fn put_count(count: usize, out: &mut BytesMut) {
    out.put_u32(u32::try_from(count).unwrap_or_else(|_| panic!("{count} elements do not fit into a frame")));
}
