//! What an operator may set about the service. It decides what is asked for and answered, never what is applied: so
//! servers whose settings differ still hold the same tree.

/// Settings, by the names of `zoo.cfg`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// `skipACL`: nobody is asked for permission.
    pub skip_acl: bool,
    /// `enforceQuota`: hard limits refuse; else they are only counted.
    pub enforce_quota: bool,
    /// `extendedTypesEnabled`: nodes with a time to live may be created.
    pub extended_types: bool,
}
