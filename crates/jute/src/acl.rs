//! Access control lists: identities and permissions.

use alloc::string::String;
use core::ops::BitOr;

use crate::record::record;
use crate::{Error, Place, Reader, Record, Value, Writer};

/// An identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    /// The kind: `world`, `auth`, `digest`, `ip`, `x509`, …
    pub scheme: String,
    /// The identity in the syntax of the scheme. Some clients send null where it is not used, as with `auth`; null is
    /// read as empty there. Schemes of `NEED_AN_ID` cannot be read without one.
    pub id: String,
}

impl Record for Id {
    const NAME: &'static str = "Id";
    const BYTES_MIN: usize = 8;

    fn read(reader: &mut Reader) -> Result<Self, Error> {
        // Apache reads a null scheme as one that it does not know.
        let scheme = reader.nullable_string(Place::new(Self::NAME, "scheme"))?.unwrap_or_default();
        let place = Place::new(Self::NAME, "id");
        let id = if NEED_AN_ID.contains(&&*scheme) {
            reader.string(place)?
        } else {
            reader.nullable_string(place)?.unwrap_or_default()
        };
        Ok(Self { scheme, id })
    }

    fn write(&self, writer: &mut Writer) {
        writer.string(&self.scheme);
        writer.string(&self.id);
    }
}

/// Apache answers an ACL that has null for the id of one of these with `MarshallingError`, and all others with
/// `InvalidAcl`.
const NEED_AN_ID: [&str; 3] = ["world", "digest", "ip"];

record! {
    /// The permissions of one identity. A list of these is the ACL of a node.
    pub struct Acl {
        /// The permissions.
        pub perms: Perms,
        /// The identity that they apply to.
        pub id: Id,
    }
}

/// A set of permissions as bits. Unknown bits are preserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Perms(pub i32);

impl Perms {
    /// No permissions.
    pub const NONE: Self = Self(0);
    /// Read the data and the list of children.
    pub const READ: Self = Self(1);
    /// Set the data.
    pub const WRITE: Self = Self(1 << 1);
    /// Create children.
    pub const CREATE: Self = Self(1 << 2);
    /// Delete children.
    pub const DELETE: Self = Self(1 << 3);
    /// Set the ACL.
    pub const ADMIN: Self = Self(1 << 4);
    /// All five permissions.
    pub const ALL: Self = Self(0x1f);

    /// Whether all of `other` are in this set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is in this set.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Perms {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Value for Perms {
    const BYTES_MIN: usize = 4;

    fn take(reader: &mut Reader, place: Place) -> Result<Self, Error> {
        reader.int(place).map(Self)
    }

    fn put(&self, writer: &mut Writer) {
        writer.int(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn an_identity_without_a_name_may_be_null() {
        let bytes = Bytes::from_static(&[0, 0, 0, 4, b'a', b'u', b't', b'h', 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(Id::decode(bytes), Ok(Id { scheme: "auth".into(), id: String::new() }));
    }

    #[test]
    fn an_identity_without_a_name_cannot_be_read_if_its_scheme_needs_one() {
        for scheme in NEED_AN_ID {
            let mut writer = Writer::new();
            writer.string(scheme);
            writer.int(-1);
            assert!(Id::decode(writer.into_bytes()).is_err(), "{scheme}");
        }
    }

    #[test]
    fn a_null_scheme_is_unknown_and_can_be_read() {
        let null = Bytes::from_static(&[0xff; 8]);
        assert_eq!(Id::decode(null), Ok(Id { scheme: String::new(), id: String::new() }));
    }
}
