//! The scheme `digest`: a user and a hash of user and password.
//!
//! The ACL contains the hash, so the server needs no list of users. A client sends its password with an auth request.

use alloc::borrow::{Cow, ToOwned};
use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pole_jute::Id;
use sha1::{Digest as _, Sha1};
use sha2::{Sha256, Sha384, Sha512};
use sha3::{Sha3_256, Sha3_384, Sha3_512};

use super::{AuthFailed, AuthSettings, Provider, superuser};
use crate::Rules;

pub(super) struct Digest;

impl Provider for Digest {
    fn scheme(&self) -> &'static str {
        "digest"
    }

    fn is_offered(&self, rules: Rules) -> bool {
        rules.digest_acls
    }

    /// The data is `user:password`. The superuser is known by the hash.
    fn authenticate(&self, data: &[u8], settings: &AuthSettings) -> Result<Vec<Id>, AuthFailed> {
        let id = settings.digest.ok_or(AuthFailed)?.id(&String::from_utf8_lossy(data));
        let is_super = settings.super_digest.as_ref() == Some(&id);
        let superuser = is_super.then(|| superuser::identity(""));
        Ok(superuser.into_iter().chain([Id { scheme: self.scheme().to_owned(), id }]).collect())
    }

    fn is_authenticated(&self) -> bool {
        true
    }

    /// Two parts, as Java splits: trailing empty parts do not count.
    fn is_valid(&self, id: &str) -> bool {
        id.trim_end_matches(':').matches(':').count() == 1
    }

    fn user<'a>(&self, id: &'a str) -> &'a str {
        id.split(':').next().unwrap_or_default()
    }

    fn masked<'a>(&self, id: &'a str) -> Cow<'a, str> {
        id.split_once(':').map_or(Cow::Borrowed(id), |(user, _)| Cow::Owned(user.to_owned() + ":x"))
    }
}

/// The hash of the scheme `digest`, which all servers of an ensemble and the authors of ACLs have to agree on:
/// `DigestAuthenticationProvider.digestAlg`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DigestAlgorithm {
    #[default]
    Sha1,
    Sha256,
    Sha384,
    Sha512,
    Sha3_256,
    Sha3_384,
    Sha3_512,
}

impl DigestAlgorithm {
    /// All algorithms with Java's names for them.
    pub const ALL: [(&str, Self); 7] = [
        ("SHA1", Self::Sha1),
        ("SHA-256", Self::Sha256),
        ("SHA-384", Self::Sha384),
        ("SHA-512", Self::Sha512),
        ("SHA3-256", Self::Sha3_256),
        ("SHA3-384", Self::Sha3_384),
        ("SHA3-512", Self::Sha3_512),
    ];

    /// The user and a hash of user and password, as stored in an ACL and in `superDigest`.
    #[must_use]
    pub fn id(self, user_and_password: &str) -> String {
        let user = user_and_password.split(':').next().unwrap_or_default();
        let text = user_and_password.as_bytes();
        let hash = match self {
            Self::Sha1 => STANDARD.encode(Sha1::digest(text)),
            Self::Sha256 => STANDARD.encode(Sha256::digest(text)),
            Self::Sha384 => STANDARD.encode(Sha384::digest(text)),
            Self::Sha512 => STANDARD.encode(Sha512::digest(text)),
            Self::Sha3_256 => STANDARD.encode(Sha3_256::digest(text)),
            Self::Sha3_384 => STANDARD.encode(Sha3_384::digest(text)),
            Self::Sha3_512 => STANDARD.encode(Sha3_512::digest(text)),
        };
        alloc::format!("{user}:{hash}")
    }
}

/// The digest of a user with the default algorithm.
#[must_use]
pub fn digest_id(user_and_password: &str) -> String {
    DigestAlgorithm::default().id(user_and_password)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From Apache's documentation of `superDigest`.
    const SUPER: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";

    #[test]
    fn a_digest_is_what_apache_computes() {
        assert_eq!(digest_id("super:test"), SUPER);
        assert_eq!(digest_id("nocolon").split(':').next(), Some("nocolon"));
        // As Apache ZooKeeper 3.9.2 writes it into an ACL; the other two are made by the same rule.
        assert_eq!(DigestAlgorithm::Sha3_256.id("u:p"), "u:3+U94Pf1dSrKR/q5qu/huTFf1Fha6TtpdtpSdhWvIS0=");
        assert_eq!(DigestAlgorithm::Sha256.id("u:p"), "u:/Y8xRBngpX5duYn15uUqIRaIaCviy5TEwSk419hCwuA=");
        assert_eq!(
            DigestAlgorithm::Sha512.id("u:p"),
            "u:JuOwXdmk4f1omXNJj7k4ILDOHOlc+8PMyEaxl9nrWl6OmV83jKYivSqJWsp5PsMTda6BtnipueoU1r5DtBd7CA=="
        );
    }

    #[test]
    fn each_algorithm_has_a_hash_of_its_own() {
        let mut ids: alloc::vec::Vec<_> =
            DigestAlgorithm::ALL.iter().map(|(_, algorithm)| algorithm.id("u:p")).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), DigestAlgorithm::ALL.len());
    }

    #[test]
    fn the_superuser_is_known_by_the_digest() {
        let schemes = |data: &[u8], super_digest: Option<&str>| -> Vec<String> {
            let settings = AuthSettings { super_digest: super_digest.map(str::to_owned), ..AuthSettings::default() };
            let ids = Digest.authenticate(data, &settings).expect("any text is an identity");
            ids.into_iter().map(|id| id.scheme).collect()
        };
        assert_eq!(schemes(b"super:test", Some(SUPER)), ["super", "digest"]);
        assert_eq!(schemes(b"super:tset", Some(SUPER)), ["digest"]);
        assert_eq!(schemes(b"super:test", None), ["digest"]);
    }

    #[test]
    fn a_disabled_scheme_proves_nothing() {
        let disabled = AuthSettings { digest: None, ..AuthSettings::default() };
        assert_eq!(Digest.authenticate(b"u:p", &disabled), Err(AuthFailed));
    }
}
