//! TLS for clients and between servers.
//!
//! Turns [`TlsSettings`], with the files that they name, into `rustls` configurations for both ends, and a client
//! certificate into an identity. Stores and passwords are opened at the start, where an operator sees errors, and by
//! `reload` when their files change.
//!
//! Between servers, certificates are verified up to a trusted one in both directions. Revoked certificates are those in
//! the lists of `revocation`; nothing is fetched. The cryptography is that of
//! `ring`, regardless of what provider the process has installed.
//!
//! The meaning of identities is in `tree`, the configuration keys in `config`.

mod blocking;
mod jks;
mod principal;
mod reload;
mod revocation;
mod stores;
mod version_one;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ParsedCertificate, VerifierBuilderError, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
    SupportedCipherSuite, SupportedProtocolVersion,
};

use crate::config::{ClientAuth, Store, TlsSettings};

pub use principal::principal;
pub use reload::Live;
pub(crate) use reload::watch;
use version_one::{VersionOneVerifier, is_version_one};

/// Builds the configuration of the listening side, for clients or for other servers.
///
/// # Errors
/// If a store is missing, cannot be opened, or lacks what is needed.
pub fn acceptor(settings: &TlsSettings) -> Result<Arc<ServerConfig>, Error> {
    let provider = provider(settings);
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(&versions(settings))?;
    let builder = match settings.client_auth {
        ClientAuth::None => builder.with_no_client_auth(),
        ClientAuth::Need | ClientAuth::Want => {
            let trusted = stores::trusted(trust_store(settings)?)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(settings)?), provider.clone());
            let verifier = match &settings.revocation_lists {
                Some(file) => verifier.with_crls(revocation::lists(file)?).enforce_revocation_expiration(),
                None => verifier,
            };
            let optional = settings.client_auth == ClientAuth::Want;
            let verifier = if optional { verifier.allow_unauthenticated() } else { verifier };
            let fallback = verifier.build().map_err(|error| verifier_error(settings, &error))?;
            let verifier: Arc<dyn ClientCertVerifier> = match settings.revocation_lists {
                // Nobody could tell whether a certificate of version 1 is revoked, so it is refused.
                Some(_) => fallback,
                None => Arc::new(VersionOneVerifier { fallback, trusted, provider: provider.clone() }),
            };
            builder.with_client_cert_verifier(verifier)
        }
    };
    let store = key_store(settings)?;
    let identity = stores::identity(store)?;
    let failed = |source| Error::Identity { file: store.location.clone(), source };
    if !identity.chain.first().is_some_and(is_version_one) {
        return Ok(Arc::new(builder.with_single_cert(identity.chain, identity.key).map_err(failed)?));
    }
    // `rustls` cannot check here that key and certificate match; clients notice if they do not.
    let key = provider.key_provider.load_private_key(identity.key).map_err(failed)?;
    let own = SingleCertAndKey::from(CertifiedKey::new(identity.chain, key));
    Ok(Arc::new(builder.with_cert_resolver(Arc::new(own))))
}

/// Mutual TLS between servers: each end presents a certificate and verifies the other's.
#[derive(Clone, Debug)]
pub struct PeerTls {
    /// For incoming connections. It verifies who signed the other's certificate. The host must be checked with
    /// [`PeerTls::check_host`] once the other end has identified itself.
    pub acceptor: Arc<ServerConfig>,
    /// For outgoing connections, to the name from [`server_name`]. It verifies the host too, if that is enabled.
    pub connector: Arc<ClientConfig>,
    /// Whether the certificate of an incoming connection must match the host of its server.
    pub verify_client_host: bool,
}

impl PeerTls {
    /// Opens the stores.
    ///
    /// # Errors
    /// See [`acceptor`].
    pub fn open(settings: &TlsSettings) -> Result<Self, Error> {
        let provider = provider(settings);
        let roots = Arc::new(roots(settings)?);
        let builder =
            ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(&versions(settings))?;
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider);
        let verifier = match &settings.revocation_lists {
            Some(file) => verifier.with_crls(revocation::lists(file)?).enforce_revocation_expiration(),
            None => verifier,
        };
        let verifier = verifier.build().map_err(|error| verifier_error(settings, &error))?;
        let verifier: Arc<dyn ServerCertVerifier> = match settings.verify_host {
            true => verifier,
            false => Arc::new(AnyHost(verifier)),
        };
        let store = key_store(settings)?;
        let identity = stores::identity(store)?;
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let connector = builder.with_client_auth_cert(identity.chain, identity.key);
        let connector = connector.map_err(|source| Error::Identity { file: store.location.clone(), source })?;
        let mutual = TlsSettings { client_auth: ClientAuth::Need, ..settings.clone() };
        let verify_client_host = settings.verify_client_host;
        Ok(Self { acceptor: acceptor(&mutual)?, connector: Arc::new(connector), verify_client_host })
    }

    /// Checks that the certificate of an incoming connection matches this host. Succeeds if verification is disabled.
    ///
    /// # Errors
    /// If there is no certificate, or it does not match.
    pub fn check_host(&self, chain: Option<&[CertificateDer<'_>]>, host: &str) -> Result<(), Error> {
        if !self.verify_client_host {
            return Ok(());
        }
        let mismatch =
            |why| Error::Host { host: host.to_owned(), why, switch: "ssl.quorum.clientHostnameVerification" };
        let first = chain.and_then(<[_]>::first).ok_or_else(|| mismatch("there is none".to_owned()))?;
        check_name(first, &server_name(host)?).map_err(|error| mismatch(error.to_string()))
    }
}

/// Checks that the certificate of a client names its address, for `ssl.clientHostnameVerification`.
///
/// # Errors
/// If it does not.
pub fn check_address(certificate: &CertificateDer<'_>, address: IpAddr) -> Result<(), Error> {
    let address = address.to_canonical();
    let mismatch = |error: rustls::Error| Error::Host {
        host: address.to_string(),
        why: error.to_string(),
        switch: "ssl.clientHostnameVerification",
    };
    check_name(certificate, &ServerName::from(address)).map_err(mismatch)
}

fn check_name(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), rustls::Error> {
    rustls::client::verify_server_name(&ParsedCertificate::try_from(certificate)?, name)
}

/// The name for connecting to a server: its host name or IP address.
///
/// # Errors
/// If the host is neither.
pub fn server_name(host: &str) -> Result<ServerName<'static>, Error> {
    ServerName::try_from(host.to_owned()).map_err(|error| Error::Name { host: host.to_owned(), why: error.to_string() })
}

/// Why TLS cannot be set up, or a certificate is refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A required store is not configured.
    #[error("{what} is not set: TLS needs it")]
    Missing {
        /// The configuration key, without its prefix.
        what: &'static str,
    },
    /// A file could not be read.
    #[error("{}: cannot be read: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A store lacks what is needed or cannot be opened.
    #[error("{}: {why}", file.display())]
    Store {
        /// The file.
        file: PathBuf,
        /// What is wrong, and what is expected.
        why: String,
    },
    /// Key and certificates do not match.
    #[error("{}: key and certificates do not go together: {source}", file.display())]
    Identity {
        /// The file.
        file: PathBuf,
        /// The error of `rustls`.
        source: rustls::Error,
    },
    /// No usable combination of protocols and cipher suites.
    #[error("protocols and cipher suites: {0}")]
    Protocols(#[from] rustls::Error),
    /// Settings that `rustls` does not accept.
    #[error("trust store: {0}")]
    Settings(String),
    /// A certificate does not match the host.
    #[error("certificate of {host}: {why}; name the host in subjectAltName, or turn {switch} off")]
    Host {
        /// The host.
        host: String,
        /// What is wrong.
        why: String,
        /// The key that asks for the check.
        switch: &'static str,
    },
    /// A host that no certificate can name.
    #[error("{host} is neither a host name nor an address: {why}")]
    Name {
        /// The host.
        host: String,
        /// What is wrong.
        why: String,
    },
    /// A certificate could not be parsed.
    #[error("certificate: {0}")]
    Certificate(String),
}

/// Whether the cipher suite with this Java name is supported.
#[must_use]
pub fn knows_suite(name: &str) -> bool {
    suite_names().iter().any(|known| known == name)
}

/// The Java names of all supported cipher suites.
#[must_use]
pub fn suite_names() -> Vec<String> {
    ring::ALL_CIPHER_SUITES.iter().map(java_name).collect()
}

/// `rustls` marks the suites of TLS 1.3 with a prefix of its own; Java uses the names of the standard.
fn java_name(suite: &SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1)
}

fn provider(settings: &TlsSettings) -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    if !settings.cipher_suites.is_empty() {
        provider.cipher_suites.retain(|suite| settings.cipher_suites.contains(&java_name(suite)));
    }
    Arc::new(provider)
}

fn versions(settings: &TlsSettings) -> Vec<&'static SupportedProtocolVersion> {
    let old = settings.tls12.then_some(&rustls::version::TLS12);
    settings.tls13.then_some(&rustls::version::TLS13).into_iter().chain(old).collect()
}

fn key_store(settings: &TlsSettings) -> Result<&Store, Error> {
    settings.key_store.as_ref().ok_or(Error::Missing { what: "keyStore.location" })
}

fn trust_store(settings: &TlsSettings) -> Result<&Store, Error> {
    settings.trust_store.as_ref().ok_or(Error::Missing { what: "trustStore.location" })
}

fn roots(settings: &TlsSettings) -> Result<RootCertStore, Error> {
    stores::roots(trust_store(settings)?)
}

/// Why no verifier could be built: only the lists of revoked certificates are parsed that late.
fn verifier_error(settings: &TlsSettings, error: &VerifierBuilderError) -> Error {
    match (error, &settings.revocation_lists) {
        (VerifierBuilderError::InvalidCrl(why), Some(file)) => Error::Store {
            file: file.clone(),
            why: format!("a list of revoked certificates cannot be used: {}", rustls::Error::from(why.clone())),
        },
        _ => Error::Settings(error.to_string()),
    }
}

/// Verifies everything about a certificate but the host, for `hostnameVerification=false`.
///
/// The name is the last thing that `rustls` checks: a certificate that fails for it has passed everything else.
#[derive(Debug)]
struct AnyHost(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
