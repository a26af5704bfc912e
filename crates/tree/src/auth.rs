//! Authentication of a connection by an auth request.
//!
//! Client certificates are handled by the TLS code of `server`. Pole does not support SASL.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pole_jute::{ErrorCode, Id};
use sha1::{Digest, Sha1};

/// The client's credentials are invalid. The client gets this error, and its connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scheme is not one that a client can prove by an auth request: expected digest or ip")]
pub struct AuthFailed;

impl From<AuthFailed> for ErrorCode {
    fn from(_: AuthFailed) -> Self {
        Self::AuthFailed
    }
}

/// Returns the identities that `data` proves. For `digest` that is the digest of `user:password`, plus the super user
/// if the digest equals `super_digest`; no secret of the server is needed. For `ip` there are none, because a
/// connection has its address anyway.
///
/// # Errors
/// If the scheme is neither `digest` nor `ip`.
pub fn authenticate(scheme: &str, data: &[u8], super_digest: Option<&str>) -> Result<Vec<Id>, AuthFailed> {
    match scheme {
        "ip" => Ok(Vec::new()),
        "digest" => {
            let id = digest_id(&String::from_utf8_lossy(data));
            let is_super = super_digest == Some(&id);
            let superuser = is_super.then(|| Id { scheme: "super".to_owned(), id: String::new() });
            Ok(superuser.into_iter().chain([Id { scheme: "digest".to_owned(), id }]).collect())
        }
        _ => Err(AuthFailed),
    }
}

/// The user and a hash of user and password, as stored in an ACL and in `superDigest`.
#[must_use]
pub fn digest_id(user_and_password: &str) -> String {
    let user = user_and_password.split(':').next().unwrap_or_default();
    let hash = Sha1::digest(user_and_password.as_bytes());
    alloc::format!("{user}:{}", STANDARD.encode(hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    /// From Apache's documentation of `superDigest`.
    const SUPER: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";

    #[test]
    fn a_digest_is_what_apache_computes() {
        assert_eq!(digest_id("super:test"), SUPER);
        assert_eq!(digest_id("nocolon").split(':').next(), Some("nocolon"));
    }

    #[test]
    fn the_super_user_is_known_by_the_digest() {
        let ids = authenticate("digest", b"super:test", Some(SUPER)).unwrap();
        assert_eq!(ids.iter().map(|id| id.scheme.as_str()).collect::<Vec<_>>(), ["super", "digest"]);
        assert_eq!(authenticate("digest", b"super:tset", Some(SUPER)).unwrap().len(), 1);
        assert_eq!(authenticate("digest", b"super:test", None).unwrap().len(), 1);
    }

    #[test]
    fn an_unknown_scheme_fails() {
        for scheme in ["", "foo", "world", "super", "pole", "sasl", "x509"] {
            assert_eq!(authenticate(scheme, b"anyone", None), Err(AuthFailed), "{scheme}");
        }
        assert_eq!(ErrorCode::from(AuthFailed).to_string(), "AuthFailed (-115)");
    }
}
