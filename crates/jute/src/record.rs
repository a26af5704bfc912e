//! The [`Record`] trait, and the `record!` macro for records whose fields are encoded one after the other.

use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

use crate::{Error, Place, Reader, Writer};

/// A type that can be decoded from bytes and encoded to bytes.
pub trait Record: Sized {
    /// The name used in errors.
    const NAME: &'static str;
    /// The minimum encoded size; it bounds the number of elements that a vector may claim.
    const BYTES_MIN: usize;

    /// Reads one from the input.
    fn read(reader: &mut Reader) -> Result<Self, Error>;

    /// Appends it to the output.
    fn write(&self, writer: &mut Writer);

    /// Encodes it alone.
    #[must_use]
    fn encode(&self) -> Bytes {
        let mut writer = Writer::new();
        self.write(&mut writer);
        writer.into_bytes()
    }

    /// Decodes it from bytes that contain nothing else.
    fn decode(bytes: Bytes) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes);
        let record = Self::read(&mut reader)?;
        reader.finish(Self::NAME)?;
        Ok(record)
    }
}

/// The type of a field: a primitive, a record, or a vector of either.
pub trait Value: Sized {
    /// The minimum encoded size.
    const BYTES_MIN: usize;

    /// Reads one from the input; `place` is used in errors.
    fn take(reader: &mut Reader, place: Place) -> Result<Self, Error>;

    /// Appends it to the output.
    fn put(&self, writer: &mut Writer);
}

/// Primitives: type, minimum size, how it is read, how it is written.
macro_rules! values {
    ($($type:ty, $min:literal, $read:ident, |$value:ident, $writer:ident| $write:expr;)*) => { $(
        impl Value for $type {
            const BYTES_MIN: usize = $min;

            fn take(reader: &mut Reader, place: Place) -> Result<Self, Error> {
                reader.$read(place)
            }

            fn put(&self, $writer: &mut Writer) {
                let $value = self;
                $write;
            }
        }
    )* };
}

values! {
    i32, 4, int, |value, writer| writer.int(*value);
    i64, 8, long, |value, writer| writer.long(*value);
    bool, 1, bool, |value, writer| writer.bool(*value);
    String, 4, string, |value, writer| writer.string(value);
    Option<String>, 4, nullable_string, |value, writer| writer.buffer(value.as_deref().map(str::as_bytes));
    Option<Bytes>, 4, buffer, |value, writer| writer.buffer(value.as_deref());
}

impl<T: Value> Value for Vec<T> {
    const BYTES_MIN: usize = 4;

    fn take(reader: &mut Reader, place: Place) -> Result<Self, Error> {
        reader.vector(place)
    }

    fn put(&self, writer: &mut Writer) {
        writer.length(self.len());
        self.iter().for_each(|value| value.put(writer));
    }
}

impl<T: Record> Value for T {
    const BYTES_MIN: usize = T::BYTES_MIN;

    /// The place is ignored, because the record's own fields are more specific.
    fn take(reader: &mut Reader, _: Place) -> Result<Self, Error> {
        T::read(reader)
    }

    fn put(&self, writer: &mut Writer) {
        self.write(writer);
    }
}

/// A struct whose fields are encoded in the order of their definition.
macro_rules! record {
    ($(#[$outer:meta])* pub struct $name:ident { $($(#[$inner:meta])* pub $field:ident: $type:ty,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub struct $name {
            $($(#[$inner])* pub $field: $type,)*
        }

        impl $crate::Record for $name {
            const NAME: &'static str = stringify!($name);
            const BYTES_MIN: usize = 0 $(+ <$type as $crate::Value>::BYTES_MIN)*;

            fn read(reader: &mut $crate::Reader) -> Result<Self, $crate::Error> {
                Ok(Self {
                    $($field: $crate::Value::take(reader, $crate::Place::new(Self::NAME, stringify!($field)))?,)*
                })
            }

            fn write(&self, writer: &mut $crate::Writer) {
                $($crate::Value::put(&self.$field, writer);)*
            }
        }
    };
}

pub(crate) use record;
