//! The operator's settings for the state machine.
//!
//! They affect which requests are accepted and how they are answered, never how a transaction is applied. Servers
//! with different settings therefore still hold the same tree.

/// Settings; `zoo.cfg` names them as given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// `skipACL`: permissions are not checked.
    pub skip_acl: bool,
    /// `reconfigEnabled`: the members of the ensemble can be changed.
    pub reconfig: bool,
    /// `standaloneEnabled`: an ensemble keeps at least two voters, because one alone would be a standalone server.
    pub standalone: bool,
    /// Whether ACLs may name users of SASL. Where clients cannot use it, nobody would meet such an ACL.
    pub sasl: bool,
    /// `DigestAuthenticationProvider.enabled`: ACLs with the scheme `digest` may be set.
    pub digest_acls: bool,
    /// `enforceQuota`: hard limits are enforced. Otherwise usage is only counted.
    pub enforce_quota: bool,
    /// `extendedTypesEnabled`: nodes with a TTL may be created.
    pub extended_types: bool,
    /// `pole.tree.pathBytesMax`: longer paths cannot be created. Existing ones are served.
    pub path_bytes_max: usize,
    /// `pole.tree.depthMax`: deeper paths cannot be created. Existing ones are served. A change may visit every ancestor.
    pub depth_max: usize,
    /// `pole.tree.ephemeralsMax`: a session with this many ephemeral nodes cannot create more. One transaction
    /// deletes all of them and holds the tree's lock while it is applied.
    pub ephemerals_max: usize,
    /// `pole.client.watchesMax`: a connection that watches this many paths cannot set another watch.
    pub watches_max: usize,
    /// The maximum size of a transaction in the log and between servers. A request that needs more is rejected. A
    /// transaction can be larger than its request, because the scheme `auth` expands to all identities of the caller.
    pub txn_bytes_max: usize,
}

impl Rules {
    pub const DEFAULT: Self = Self {
        skip_acl: false,
        reconfig: false,
        standalone: true,
        sasl: false,
        digest_acls: true,
        enforce_quota: false,
        extended_types: false,
        path_bytes_max: 16 << 10,
        depth_max: 256,
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
