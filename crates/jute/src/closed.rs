//! The closed lists: one variant for each operation, with the record that belongs to it.

/// An enum over operations. Variants have the names of [`crate::OpCode`]; what stands after `not` has no variant.
macro_rules! closed {
    (
        $(#[$outer:meta])*
        pub enum $name:ident {
            $($(#[$inner:meta])* $variant:ident $(($body:ident: $type:ty))?,)*
        }
        not { $($absent:ident)|* }
    ) => {
        $(#[$outer])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$inner])* $variant $(($type))?,)*
        }

        impl $name {
            /// Takes the one that belongs to `op`; its header has been read.
            pub fn decode(op: $crate::OpCode, reader: &mut $crate::Reader) -> Result<Self, $crate::Error> {
                Ok(match op {
                    $($crate::OpCode::$variant => Self::$variant $((<$type as $crate::Record>::read(reader)?))?,)*
                    $($crate::OpCode::$absent)|* => {
                        let cause = $crate::Cause::Misplaced { expected: concat!("the operation of a ", stringify!($name)), got: op };
                        return Err(reader.error($crate::Place::new(stringify!($name), "op"), cause));
                    }
                })
            }

            /// Appends its body, without a header.
            pub fn write(&self, writer: &mut $crate::Writer) {
                match self {
                    $(Self::$variant $(($body))? => { $($crate::Record::write($body, writer);)? })*
                }
            }

            /// Its operation.
            #[must_use]
            pub fn op(&self) -> $crate::OpCode {
                match self {
                    $(Self::$variant { .. } => $crate::OpCode::$variant,)*
                }
            }
        }
    };
}

pub(crate) use closed;
