//! Which user of ACLs a principal of Kerberos is: the rules of Apache's `KerberosName` with their defaults.
//!
//! A principal is `NAME@REALM` or `NAME/HOST@REALM`. The user is the principal, without the host and the realm if the
//! operator wants it so. These are removed from principals of the server's own realm only: `bob@A` and `bob@B` are different
//! people. In Apache the user of another realm has whatever name the client asks for; here it is the whole principal.
//! Rules of `auth_to_local` are not supported.

use alloc::format;
use alloc::string::{String, ToString};

/// How the names of users are made of principals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KerberosNames {
    /// The realm of the server.
    pub realm: String,
    /// `kerberos.removeHostFromPrincipal`.
    pub remove_host: bool,
    /// `kerberos.removeRealmFromPrincipal`.
    pub remove_realm: bool,
}

impl KerberosNames {
    /// The user that this principal is; `None` if ACLs cannot name it.
    pub(super) fn user(&self, principal: &str) -> Option<String> {
        let (name, realm) = principal.split_once('@')?;
        let (name, host) = match name.split_once('/') {
            Some((name, host)) => (name, Some(host)),
            None => (name, None),
        };
        // A library writes a backslash before a separator that is part of a name. Apache refuses these names too.
        let is_plain = |part: &str| !part.is_empty() && !part.contains(['/', '@', '\\']);
        if !is_plain(name) || !is_plain(realm) || !host.is_none_or(is_plain) {
            return None;
        }
        if realm != self.realm {
            return Some(principal.to_string());
        }
        let host = host.filter(|_| !self.remove_host).map_or(String::new(), |host| format!("/{host}"));
        let realm = if self.remove_realm { String::new() } else { format!("@{realm}") };
        Some(format!("{name}{host}{realm}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(principal: &str, remove_host: bool, remove_realm: bool) -> Option<String> {
        KerberosNames { realm: "A".into(), remove_host, remove_realm }.user(principal)
    }

    #[test]
    fn host_and_realm_are_removed_where_the_operator_wants_it() {
        for (principal, whole, no_host, no_realm, short) in
            [("bob@A", "bob@A", "bob@A", "bob", "bob"), ("bob/h@A", "bob/h@A", "bob@A", "bob/h", "bob")]
        {
            assert_eq!(user(principal, false, false).as_deref(), Some(whole));
            assert_eq!(user(principal, true, false).as_deref(), Some(no_host));
            assert_eq!(user(principal, false, true).as_deref(), Some(no_realm));
            assert_eq!(user(principal, true, true).as_deref(), Some(short));
        }
    }

    #[test]
    fn a_principal_of_another_realm_keeps_its_whole_name() {
        for principal in ["bob@B", "bob/h@B", "bob@a"] {
            assert_eq!(user(principal, true, true).as_deref(), Some(principal));
        }
    }

    #[test]
    fn a_name_that_acls_cannot_express_is_no_user() {
        for principal in [
            "", "bob", "@", "bob@", "@A", "/h@A", "bob/@A", "a/b/c@A", "a@b@A", "a\\@b@A", "a\\/b@A", "a\\@A",
            "bob@A/h",
        ] {
            assert_eq!(user(principal, false, false), None, "{principal}");
            assert_eq!(user(principal, true, true), None, "{principal}");
        }
    }
}
