//! Authentication of a connection by an auth request.
//!
//! Client certificates are handled by the TLS code of `server`. Pole does not support SASL.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use pole_jute::{ErrorCode, Id};

use crate::DigestAlgorithm;

/// What the operator configured about auth requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthRules {
    /// The hash of the scheme `digest`; `None` if the scheme is disabled.
    pub digest: Option<DigestAlgorithm>,
    /// The digest of the super user, if there is one.
    pub super_digest: Option<String>,
    /// The names that clients may expect of this ensemble; `None` if the scheme `ensemble` is not enabled, and empty if
    /// any name will do.
    pub ensemble_names: Option<Vec<String>>,
}

impl Default for AuthRules {
    fn default() -> Self {
        Self { digest: Some(DigestAlgorithm::default()), super_digest: None, ensemble_names: None }
    }
}

/// Why a client is not authenticated. Its connection is closed in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthFailed {
    /// The client gets `AuthFailed`.
    #[error("the scheme is not one that a client can prove by an auth request: expected digest or ip")]
    Refused,
    /// The client gets no answer, as in Apache, so that it tries another server.
    #[error("the client expects another ensemble (ensembleAuthName)")]
    OtherEnsemble,
}

impl From<AuthFailed> for ErrorCode {
    fn from(_: AuthFailed) -> Self {
        Self::AuthFailed
    }
}

/// Returns the identities that `data` proves; `None` is data that was sent as null.
///
/// For `digest` that is the digest of `user:password`, plus the super user if the digest equals
/// [`AuthRules::super_digest`]; no secret of the server is needed. For `ip` there are none, because a connection has its
/// address anyway, and for `ensemble` neither: the client only makes sure that it reached the right servers.
///
/// # Errors
/// If the scheme is unknown or disabled, or the data is not what it requires.
pub fn authenticate(scheme: &str, data: Option<&[u8]>, rules: &AuthRules) -> Result<Vec<Id>, AuthFailed> {
    match (scheme, data, rules) {
        ("ip", ..) => Ok(Vec::new()),
        ("digest", Some(data), AuthRules { digest: Some(algorithm), super_digest, .. }) => {
            let id = algorithm.id(&String::from_utf8_lossy(data));
            let is_super = super_digest.as_ref() == Some(&id);
            let superuser = is_super.then(|| Id { scheme: "super".to_owned(), id: String::new() });
            Ok(superuser.into_iter().chain([Id { scheme: "digest".to_owned(), id }]).collect())
        }
        ("ensemble", data, AuthRules { ensemble_names: Some(names), .. }) => {
            let expected = data.unwrap_or_default();
            let is_ours = |name: &String| name.as_bytes() == expected;
            let matches = names.is_empty() || expected.is_empty() || names.iter().any(is_ours);
            if matches { Ok(Vec::new()) } else { Err(AuthFailed::OtherEnsemble) }
        }
        _ => Err(AuthFailed::Refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    /// From Apache's documentation of `superDigest`.
    const SUPER: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";

    fn with_super() -> AuthRules {
        AuthRules { super_digest: Some(SUPER.into()), ..AuthRules::default() }
    }

    #[test]
    fn the_super_user_is_known_by_the_digest() {
        let ids = authenticate("digest", Some(b"super:test"), &with_super()).unwrap();
        assert_eq!(ids.iter().map(|id| id.scheme.as_str()).collect::<Vec<_>>(), ["super", "digest"]);
        assert_eq!(authenticate("digest", Some(b"super:tset"), &with_super()).unwrap().len(), 1);
        assert_eq!(authenticate("digest", Some(b"super:test"), &AuthRules::default()).unwrap().len(), 1);
        let other = AuthRules { digest: Some(DigestAlgorithm::Sha256), ..with_super() };
        assert_eq!(authenticate("digest", Some(b"super:test"), &other).unwrap().len(), 1, "of another algorithm");
    }

    #[test]
    fn an_unknown_scheme_fails() {
        for scheme in ["", "foo", "world", "super", "pole", "sasl", "x509", "ensemble", "key"] {
            let refused = authenticate(scheme, Some(b"anyone"), &AuthRules::default());
            assert_eq!(refused, Err(AuthFailed::Refused), "{scheme}");
        }
        assert_eq!(ErrorCode::from(AuthFailed::Refused).to_string(), "AuthFailed (-115)");
    }

    #[test]
    fn a_digest_needs_data_and_can_be_disabled() {
        let disabled = AuthRules { digest: None, ..with_super() };
        assert_eq!(authenticate("digest", Some(b"super:test"), &disabled), Err(AuthFailed::Refused));
        assert_eq!(authenticate("digest", None, &with_super()), Err(AuthFailed::Refused));
        assert_eq!(authenticate("ip", None, &disabled), Ok(vec![]));
    }

    #[test]
    fn a_client_of_another_ensemble_is_sent_away() {
        let of = |names: &[&str], expected: Option<&[u8]>| {
            let names = names.iter().map(ToString::to_string).collect();
            authenticate("ensemble", expected, &AuthRules { ensemble_names: Some(names), ..AuthRules::default() })
        };
        assert_eq!(of(&["east", "west"], Some(b"west")), Ok(vec![]));
        assert_eq!(of(&["east", "west"], Some(b"north")), Err(AuthFailed::OtherEnsemble));
        assert_eq!(of(&["east"], Some(b"")), Ok(vec![]), "a client that expects nothing");
        assert_eq!(of(&["east"], None), Ok(vec![]));
        assert_eq!(of(&[], Some(b"north")), Ok(vec![]), "without names nothing is compared");
    }
}
