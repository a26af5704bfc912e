//! What an operator may set about the service. It decides what is asked for and answered, never what is applied: so
//! servers whose settings differ still hold the same tree.

/// Settings, by the names of `zoo.cfg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// `skipACL`: nobody is asked for permission.
    pub skip_acl: bool,
    /// `enforceQuota`: hard limits refuse; else they are only counted.
    pub enforce_quota: bool,
    /// `extendedTypesEnabled`: nodes with a time to live may be created.
    pub extended_types: bool,
    /// `pole.tree.pathBytesMax`: longer paths cannot be created. Those that exist are served.
    pub path_bytes_max: usize,
    /// `pole.tree.ephemeralsMax`: a session with this many ephemeral nodes cannot create more. They are all deleted by
    /// one transaction, which holds the tree while it is applied.
    pub ephemerals_max: usize,
    /// `pole.client.watchesMax`: a connection that watches this many paths cannot set another watch.
    pub watches_max: usize,
    /// What a transaction may take in the log and between servers. A request that would need more is refused; it can
    /// need more than its own size, because the scheme `auth` stands for all identities of the caller.
    pub txn_bytes_max: usize,
}

impl Rules {
    /// What holds unless an operator says otherwise.
    pub const DEFAULT: Self = Self {
        skip_acl: false,
        enforce_quota: false,
        extended_types: false,
        path_bytes_max: 16 << 10,
        ephemerals_max: 50_000,
        watches_max: 500_000,
        txn_bytes_max: 4 << 20,
    };
}

impl Default for Rules {
    fn default() -> Self {
        Self::DEFAULT
    }
}
