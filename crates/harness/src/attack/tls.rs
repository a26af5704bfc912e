//! Certificates for the secure ports of an ensemble, made anew in each run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{ClientConfig, RootCertStore};

use crate::Failure;

/// What servers and clients need.
pub(super) struct Certificates {
    /// Key and certificate of all servers, as PEM.
    key_store: PathBuf,
    /// For clients, which show no certificate.
    pub(super) client: Arc<ClientConfig>,
}

impl Certificates {
    /// Makes them and writes those of the servers into this folder.
    pub(super) fn make(folder: &Path) -> Result<Self, Failure> {
        let failed = |why: &dyn std::fmt::Display| Failure::Check(format!("cannot make certificates: {why}"));
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().map_err(|why| failed(&why))?;
        let root = params.self_signed(&key).map_err(|why| failed(&why))?.der().clone();
        let issuer = Issuer::new(params, key);

        let key = KeyPair::generate().map_err(|why| failed(&why))?;
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let params = CertificateParams::new(names).map_err(|why| failed(&why))?;
        let leaf = params.signed_by(&key, &issuer).map_err(|why| failed(&why))?;
        let key_store = folder.join("server.pem");
        fs::write(&key_store, key.serialize_pem() + &leaf.pem())
            .map_err(|why| Failure::io("write", &key_store, &why))?;

        let mut roots = RootCertStore::empty();
        roots.add(root).map_err(|why| failed(&why))?;
        let client = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|why| failed(&why))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { key_store, client: Arc::new(client) })
    }

    /// Lines for the `zoo.cfg` of a server.
    pub(super) fn lines(&self, port: u16) -> String {
        format!(
            "secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\nssl.keyStore.location={}\n\
             ssl.keyStore.type=PEM\nssl.clientAuth=none\n",
            self.key_store.display()
        )
    }
}
