//! The `digest` scheme: a user and a hash of user and password.

use alloc::string::String;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};
use sha2::{Sha256, Sha384, Sha512};
use sha3::{Sha3_256, Sha3_384, Sha3_512};

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

    #[test]
    fn a_digest_is_what_apache_computes() {
        assert_eq!(digest_id("super:test"), "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
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
}
