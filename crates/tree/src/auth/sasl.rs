//! The scheme `sasl`: a user who has authenticated by a SASL mechanism. The exchange is in `node`.

use alloc::vec::Vec;

use pole_jute::Id;

use super::{AuthSettings, Matching, Provider, superuser};
use crate::Rules;

pub(super) struct Sasl;

impl Provider for Sasl {
    fn scheme(&self) -> &'static str {
        "sasl"
    }

    fn is_offered(&self, rules: Rules) -> bool {
        rules.sasl
    }

    fn identities(&self, name: &str, settings: &AuthSettings) -> Vec<Id> {
        let is_super = settings.sasl_super_users.iter().any(|user| user == name);
        let superuser = is_super.then(|| superuser::identity(""));
        [Id { scheme: self.scheme().into(), id: name.into() }].into_iter().chain(superuser).collect()
    }

    fn is_authenticated(&self) -> bool {
        true
    }

    /// A name without `@`, or a principal of Kerberos: `user@REALM` or `service/host@REALM`.
    fn is_valid(&self, id: &str) -> bool {
        match id.split_once('@') {
            None => true,
            Some((name, realm)) => !realm.contains(['/', '@']) && name.matches('/').count() <= 1,
        }
    }

    /// The user called `super` has the permissions of every user, but is not the superuser.
    fn matching(&self, id: &str) -> Matching {
        if id == "super" { Matching::All } else { Matching::Same }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn names_and_principals_are_valid() {
        for id in ["bob", "", "a/b/c", "bob@REALM", "zookeeper/host@REALM", "@", "/@"] {
            assert!(Sasl.is_valid(id), "{id}");
        }
        for id in ["a/b/c@REALM", "bob@A@B", "bob@A/B", "@@"] {
            assert!(!Sasl.is_valid(id), "{id}");
        }
    }

    #[test]
    fn the_superusers_are_named_by_the_operator() {
        let settings = AuthSettings { sasl_super_users: ["root".into()].into(), ..AuthSettings::default() };
        let schemes =
            |user: &str| -> Vec<String> { Sasl.identities(user, &settings).into_iter().map(|id| id.scheme).collect() };
        assert_eq!(schemes("root"), ["sasl", "super"]);
        assert_eq!(schemes("super"), ["sasl"]);
        assert_eq!((Sasl.matching("super"), Sasl.matching("bob")), (Matching::All, Matching::Same));
    }
}
