//! The scheme `super`: the superuser, who may do everything. No ACL contains it, and no client can ask for it: the
//! other schemes add it to an identity that the operator has named.

use pole_jute::Id;

use super::Provider;

pub(super) struct Superuser;

impl Provider for Superuser {
    fn scheme(&self) -> &'static str {
        SCHEME
    }

    fn is_authenticated(&self) -> bool {
        false
    }

    fn is_valid(&self, _id: &str) -> bool {
        false
    }

    /// The superuser has no name.
    fn user<'a>(&self, _id: &'a str) -> &'a str {
        ""
    }
}

/// The identity of the superuser. Apache gives it a name only for a certificate.
pub(super) fn identity(name: &str) -> Id {
    Id { scheme: SCHEME.into(), id: name.into() }
}

pub(crate) fn is_superuser(id: &Id) -> bool {
    id.scheme == SCHEME
}

const SCHEME: &str = "super";
