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

use super::{AuthFailed, AuthSettings, Provider, superuser};

pub(super) struct Digest;

impl Provider for Digest {
    fn scheme(&self) -> &'static str {
        "digest"
    }

    /// The data is `user:password`. The superuser is known by the hash.
    fn authenticate(&self, data: &[u8], settings: &AuthSettings) -> Result<Vec<Id>, AuthFailed> {
        let id = digest_id(&String::from_utf8_lossy(data));
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

    /// From Apache's documentation of `superDigest`.
    const SUPER: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";

    #[test]
    fn a_digest_is_what_apache_computes() {
        assert_eq!(digest_id("super:test"), SUPER);
        assert_eq!(digest_id("nocolon").split(':').next(), Some("nocolon"));
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
}
