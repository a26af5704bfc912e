//! The owner of a node, decoded from and encoded to Apache's `ephemeralOwner`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A persistent node.
    Nobody,
    /// An ephemeral node of this session.
    Session(i64),
    /// A container, deleted after its last child is gone.
    Container,
    /// A node with a TTL: deleted if it is not modified for this many milliseconds.
    Ttl(i64),
}

impl Owner {
    /// Decodes the number on disk.
    ///
    /// A TTL is recognised regardless of the settings. With extended types disabled, Apache treats such a node as
    /// ephemeral and deletes it with its "session". A session id with the same leading bits would need server 255 and
    /// a clock at 1970.
    pub(crate) fn from_number(number: i64) -> Self {
        match number {
            0 => Self::Nobody,
            CONTAINER => Self::Container,
            ttl if ttl & !TTL_MAX == TTL_MARK => Self::Ttl(ttl & TTL_MAX),
            session => Self::Session(session),
        }
    }

    /// The number on disk.
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Nobody => 0,
            Self::Session(session) => session,
            Self::Container => CONTAINER,
            Self::Ttl(ms) => TTL_MARK | (ms & TTL_MAX),
        }
    }

    /// The value that clients see: the session, or 0.
    pub(crate) fn client_value(self) -> i64 {
        match self {
            Self::Session(session) => session,
            Self::Nobody | Self::Container | Self::Ttl(_) => 0,
        }
    }
}

/// Only the highest bit is set.
const CONTAINER: i64 = i64::MIN;

/// The highest byte is all ones, and the two bytes that distinguish extended types are 0.
const TTL_MARK: i64 = 0xff00_0000_0000_0000_u64.cast_signed();

/// The maximum TTL, in milliseconds: about 34 years.
pub(crate) const TTL_MAX: i64 = 0x00ff_ffff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_owner_survives_the_disk() {
        for owner in [Owner::Nobody, Owner::Session(0x100_0000_0001), Owner::Session(-2), Owner::Container] {
            assert_eq!(Owner::from_number(owner.number()), owner);
        }
        for ms in [1, 1000, TTL_MAX] {
            assert_eq!(Owner::from_number(Owner::Ttl(ms).number()), Owner::Ttl(ms));
        }
    }

    #[test]
    fn clients_see_sessions_only() {
        assert_eq!(Owner::Session(7).client_value(), 7);
        assert_eq!(Owner::Container.client_value() | Owner::Ttl(5).client_value() | Owner::Nobody.client_value(), 0);
    }
}
