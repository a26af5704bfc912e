//! The `op_enum!` macro: enums with one variant per operation, each with its record.

/// An enum over operations. Variants are named as in [`crate::OpCode`]; the operations listed after `not` have no
/// variant.
macro_rules! op_enum {
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
            /// Reads the body that belongs to `op`, after the header has been read.
            pub fn decode(op: $crate::OpCode, reader: &mut $crate::Reader) -> Result<Self, $crate::Error> {
                Ok(match op {
                    $($crate::OpCode::$variant => Self::$variant $((<$type as $crate::Record>::read(reader)?))?,)*
                    $($crate::OpCode::$absent)|* => {
                        let cause = $crate::Cause::Misplaced { expected: concat!("the operation of a ", stringify!($name)), got: op };
                        return Err(reader.error($crate::Place::new(stringify!($name), "op"), cause));
                    }
                })
            }

            /// Appends the body, without a header.
            pub fn write(&self, writer: &mut $crate::Writer) {
                match self {
                    $(Self::$variant $(($body))? => { $($crate::Record::write($body, writer);)? })*
                }
            }

            /// The operation of this variant.
            #[must_use]
            pub fn op(&self) -> $crate::OpCode {
                match self {
                    $(Self::$variant { .. } => $crate::OpCode::$variant,)*
                }
            }
        }
    };
}

pub(crate) use op_enum;
