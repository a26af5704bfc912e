//! Authentication of clients: one provider for each scheme of identities.
//!
//! A provider says what an auth request proves, which ids an ACL may contain, and which of them an identity matches.
//! Another scheme is a file here and a line in [`PROVIDERS`]. The rules for whole ACLs are in `access`.
//!
//! The TLS code of `server` verifies certificates, and the connection in `node` has the exchange of a SASL mechanism.
//! Both end with a name, for which [`identities`] returns what the client may call itself.

mod digest;
mod ensemble;
mod ip;
mod sasl;
mod superuser;
mod x509;

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use pole_jute::{ErrorCode, Id};

use crate::Rules;

pub use digest::{DigestAlgorithm, digest_id};
pub(crate) use ip::{Network, Prefix};
pub(crate) use superuser::is_superuser;

/// A scheme of identities.
pub(crate) trait Provider: Sync {
    /// The name of the scheme in identities and ACLs.
    fn scheme(&self) -> &'static str;

    /// Whether the operator lets ACLs use the scheme.
    fn is_offered(&self, _rules: Rules) -> bool {
        true
    }

    /// The identities that the data of an auth request proves.
    fn authenticate(&self, _data: &[u8], _settings: &AuthSettings) -> Result<Vec<Id>, AuthFailed> {
        Err(AuthFailed)
    }

    /// The identities of a client whose name was proved without an auth request.
    fn identities(&self, name: &str, _settings: &AuthSettings) -> Vec<Id> {
        Vec::from([Id { scheme: self.scheme().into(), id: name.into() }])
    }

    /// Whether the scheme `auth` in an ACL stands for identities of this one: they say who a client is, not where.
    fn is_authenticated(&self) -> bool;

    /// Whether an ACL may contain this id.
    fn is_valid(&self, id: &str) -> bool;

    /// The entries of this scheme whose permissions an identity with this id has.
    fn matching(&self, _id: &str) -> Matching {
        Matching::Same
    }

    /// The network that an entry with this id stands for, if the scheme has networks.
    fn network(&self, _id: &str) -> Option<Network> {
        None
    }

    /// The name of the user, for whoAmI.
    fn user<'a>(&self, id: &'a str) -> &'a str {
        id
    }

    /// The id as shown to those who may not change an ACL that contains it: without secrets.
    fn masked<'a>(&self, id: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(id)
    }
}

/// The entries of a scheme that match an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matching {
    /// Those with the same id.
    Same,
    All,
    /// The networks that contain this address.
    Networks(IpAddr),
    None,
}

/// All schemes.
const PROVIDERS: [&dyn Provider; SCHEMES] =
    [&digest::Digest, &ensemble::Ensemble, &ip::Ip, &sasl::Sasl, &x509::X509, &superuser::Superuser];

pub(crate) const SCHEMES: usize = 6;

/// The operator's settings for providers; `zoo.cfg` names them as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthSettings {
    /// `DigestAuthenticationProvider.digestAlg`; `None` if `DigestAuthenticationProvider.enabled` is false.
    pub digest: Option<DigestAlgorithm>,
    /// `DigestAuthenticationProvider.superDigest`: the id of the superuser under the scheme `digest`.
    pub super_digest: Option<String>,
    /// `X509AuthenticationProvider.superUser`: the subject of the superuser's certificate.
    pub x509_super_user: Option<String>,
    /// `superUser` and `superUser.N`: the superusers among the users of SASL.
    pub sasl_super_users: Vec<String>,
    /// `ensembleAuthName`: the names that clients may expect of this ensemble; `None` if the scheme `ensemble` is not
    /// enabled, and empty if any name will do.
    pub ensemble_names: Option<Vec<String>>,
}

impl Default for AuthSettings {
    fn default() -> Self {
        let digest = Some(DigestAlgorithm::default());
        Self { digest, super_digest: None, x509_super_user: None, sasl_super_users: Vec::new(), ensemble_names: None }
    }
}

/// The client's credentials are invalid. The client gets this error, and its connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scheme is not one that a client can prove by an auth request: expected digest or ip")]
pub struct AuthFailed;

impl From<AuthFailed> for ErrorCode {
    fn from(_: AuthFailed) -> Self {
        Self::AuthFailed
    }
}

/// Returns the identities that the data of an auth request proves.
///
/// # Errors
/// If there is no such scheme, or its identities cannot be proved by an auth request.
pub fn authenticate(scheme: &str, data: &[u8], settings: &AuthSettings) -> Result<Vec<Id>, AuthFailed> {
    provider(scheme).ok_or(AuthFailed)?.authenticate(data, settings)
}

/// Returns the identities of a client that has proved its name under a scheme without an auth request: by its
/// certificate (`x509`) or by SASL (`sasl`). None if there is no such scheme.
#[must_use]
pub fn identities(scheme: &str, name: &str, settings: &AuthSettings) -> Vec<Id> {
    provider(scheme).map(|provider| provider.identities(name, settings)).unwrap_or_default()
}

/// The name of the user that an identity stands for, without secrets.
#[must_use]
pub fn user_name(id: &Id) -> &str {
    provider(&id.scheme).map_or(id.id.as_str(), |provider| provider.user(&id.id))
}

/// The provider of a scheme.
pub(crate) fn provider(scheme: &str) -> Option<&'static dyn Provider> {
    numbered_provider(scheme).map(|(_, provider)| provider)
}

/// The provider of a scheme, and its number below [`SCHEMES`].
pub(crate) fn numbered_provider(scheme: &str) -> Option<(usize, &'static dyn Provider)> {
    PROVIDERS.into_iter().enumerate().find(|(_, provider)| provider.scheme() == scheme)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn only_digest_and_ip_are_proved_by_an_auth_request() {
        let settings = AuthSettings::default();
        for scheme in ["", "foo", "world", "super", "pole", "sasl", "x509"] {
            assert_eq!(authenticate(scheme, b"anyone", &settings), Err(AuthFailed), "{scheme}");
        }
        assert_eq!(authenticate("ip", b"anyone", &settings), Ok(Vec::new()));
        assert_eq!(ErrorCode::from(AuthFailed).to_string(), "AuthFailed (-115)");
    }

    #[test]
    fn every_scheme_has_one_provider() {
        for (index, one) in PROVIDERS.iter().enumerate() {
            assert!(PROVIDERS[..index].iter().all(|other| other.scheme() != one.scheme()), "{}", one.scheme());
        }
    }
}
