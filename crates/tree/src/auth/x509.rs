//! The scheme `x509`: the subject of a client's certificate, which the TLS handshake has verified.

use alloc::vec::Vec;

use pole_jute::Id;

use super::{AuthSettings, Provider, superuser};

pub(super) struct X509;

impl Provider for X509 {
    fn scheme(&self) -> &'static str {
        "x509"
    }

    fn identities(&self, name: &str, settings: &AuthSettings) -> Vec<Id> {
        let is_super = settings.x509_super_user.as_deref() == Some(name);
        let superuser = is_super.then(|| superuser::identity(name));
        superuser.into_iter().chain([Id { scheme: self.scheme().into(), id: name.into() }]).collect()
    }

    fn is_authenticated(&self) -> bool {
        true
    }

    fn is_valid(&self, id: &str) -> bool {
        id.contains('=')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn the_superuser_is_known_by_the_subject() {
        let settings = AuthSettings { x509_super_user: Some("CN=root".into()), ..AuthSettings::default() };
        let schemes = |subject: &str| -> Vec<String> {
            X509.identities(subject, &settings).into_iter().map(|id| id.scheme).collect()
        };
        assert_eq!(schemes("CN=root"), ["super", "x509"]);
        assert_eq!(schemes("CN=other"), ["x509"]);
    }
}
