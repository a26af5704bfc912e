//! Certificates for the secure ports of an ensemble, newly made in each run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::{ClientConfig, RootCertStore};

use crate::Failure;

/// The certificates of an ensemble, for its servers and for clients.
pub struct Certificates {
    /// The file with key and certificate, shared by all servers, as PEM.
    key_store: PathBuf,
    /// The file with the certificate of the authority that signed it, as PEM.
    authority: PathBuf,
    /// The configuration of clients, which present no certificate.
    pub client: Arc<ClientConfig>,
}

impl Certificates {
    /// Makes the certificates and writes the files of the servers into this folder.
    pub fn make(folder: &Path) -> Result<Self, Failure> {
        let failed = |why: &dyn std::fmt::Display| Failure::Check(format!("cannot make certificates: {why}"));
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // The name must differ from that of the servers: OpenSSL treats their certificate as self-signed otherwise.
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().map_err(|why| failed(&why))?;
        let root = params.self_signed(&key).map_err(|why| failed(&why))?;
        let authority = Self::authority_in(folder);
        fs::write(&authority, pem("CERTIFICATE", root.der())?).map_err(|why| Failure::io("write", &authority, &why))?;
        let issuer = Issuer::new(params, key);

        let key = KeyPair::generate().map_err(|why| failed(&why))?;
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let params = CertificateParams::new(names).map_err(|why| failed(&why))?;
        let leaf = params.signed_by(&key, &issuer).map_err(|why| failed(&why))?;
        let key_store = Self::key_store_in(folder);
        let contents = pem("PRIVATE KEY", &key.serialize_der())? + &pem("CERTIFICATE", leaf.der())?;
        fs::write(&key_store, contents).map_err(|why| Failure::io("write", &key_store, &why))?;

        let mut roots = RootCertStore::empty();
        roots.add(root.der().clone()).map_err(|why| failed(&why))?;
        let client = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|why| failed(&why))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { key_store, authority, client: Arc::new(client) })
    }

    /// The path of [`Self::authority`] for certificates that were made in this folder.
    pub fn authority_in(folder: &Path) -> PathBuf {
        folder.join("authority.pem")
    }

    /// The path of [`Self::key_store`] for certificates that were made in this folder.
    pub fn key_store_in(folder: &Path) -> PathBuf {
        folder.join("server.pem")
    }

    /// The file with the certificate that clients have to trust, as PEM.
    pub fn authority(&self) -> &Path {
        &self.authority
    }

    /// The file with key and certificate of the servers, as PEM.
    pub fn key_store(&self) -> &Path {
        &self.key_store
    }

    /// The `zoo.cfg` lines for TLS between servers. All of them have the same certificate.
    pub fn lines_between_servers(&self) -> String {
        format!(
            "sslQuorum=true\nssl.quorum.keyStore.location={}\nssl.quorum.keyStore.type=PEM\n\
             ssl.quorum.trustStore.location={}\nssl.quorum.trustStore.type=PEM\n",
            self.key_store.display(),
            self.authority.display()
        )
    }

    /// The `zoo.cfg` lines that open a secure port.
    pub fn lines(&self, port: u16) -> String {
        format!(
            "secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\nssl.keyStore.location={}\n\
             ssl.keyStore.type=PEM\nssl.clientAuth=none\n",
            self.key_store.display()
        )
    }
}

fn pem(label: &str, der: &[u8]) -> Result<String, Failure> {
    pem_rfc7468::encode_string(label, pem_rfc7468::LineEnding::LF, der)
        .map_err(|why| Failure::Check(format!("cannot encode a {label}: {why}")))
}
