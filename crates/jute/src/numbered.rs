//! The `numbered!` macro: enums that are encoded as a number.

/// An enum with explicit numbers. Decoding any other number is an error.
macro_rules! numbered {
    (
        $(#[$outer:meta])* $expected:literal
        pub enum $name:ident { $($(#[$inner:meta])* $variant:ident = $number:literal,)* }
    ) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i32)]
        pub enum $name {
            $($(#[$inner])* $variant = $number,)*
        }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The number that encodes this value.
            #[must_use]
            pub const fn number(self) -> i32 {
                self as i32
            }

            /// The value with this number, if there is one.
            #[must_use]
            pub const fn from_number(number: i32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        impl $crate::Value for $name {
            const BYTES_MIN: usize = 4;

            fn take(reader: &mut $crate::Reader, place: $crate::Place) -> Result<Self, $crate::Error> {
                let got = reader.int(place)?;
                let unknown = $crate::Cause::Unknown { expected: $expected, got };
                Self::from_number(got).ok_or_else(|| reader.error(place, unknown))
            }

            fn put(&self, writer: &mut $crate::Writer) {
                writer.int(self.number());
            }
        }
    };
}

pub(crate) use numbered;
