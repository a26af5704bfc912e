//! Whom a node belongs to: the number that Apache keeps in `ephemeralOwner`, and what its bits say.

/// The owner of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// It stays until it is deleted.
    Nobody,
    /// It goes with this session.
    Session(i64),
    /// It goes once its children have gone.
    Container,
    /// It goes if nothing happens to it for so many milliseconds.
    Ttl(i64),
}

impl Owner {
    /// From the number on disk.
    ///
    /// A time to live is recognised whatever the settings say. Apache takes such a node for an ephemeral one where
    /// extended types are off, and deletes it with its "session"; sessions whose id begins like this would need server
    /// 255 and a clock at 1970.
    pub(crate) fn of(number: i64) -> Self {
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

    /// What clients see: sessions only.
    pub(crate) fn shown(self) -> i64 {
        match self {
            Self::Session(session) => session,
            Self::Nobody | Self::Container | Self::Ttl(_) => 0,
        }
    }
}

/// Only the highest bit.
const CONTAINER: i64 = i64::MIN;

/// The highest byte is all ones, and the two bytes that tell extended types apart are 0.
const TTL_MARK: i64 = 0xff00_0000_0000_0000_u64.cast_signed();

/// The longest time to live, in milliseconds: about 34 years.
pub(crate) const TTL_MAX: i64 = 0x00ff_ffff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_owner_survives_the_disk() {
        for owner in [Owner::Nobody, Owner::Session(0x100_0000_0001), Owner::Session(-2), Owner::Container] {
            assert_eq!(Owner::of(owner.number()), owner);
        }
        for ms in [1, 1000, TTL_MAX] {
            assert_eq!(Owner::of(Owner::Ttl(ms).number()), Owner::Ttl(ms));
        }
    }

    #[test]
    fn clients_see_sessions_only() {
        assert_eq!(Owner::Session(7).shown(), 7);
        assert_eq!(Owner::Container.shown() | Owner::Ttl(5).shown() | Owner::Nobody.shown(), 0);
    }
}
