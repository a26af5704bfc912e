//! Enumerations that travel as a number.

/// A closed enumeration with its numbers; one that it does not have is an error when read.
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
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its number.
            #[must_use]
            pub const fn number(self) -> i32 {
                self as i32
            }

            /// The one with this number, if there is one.
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
