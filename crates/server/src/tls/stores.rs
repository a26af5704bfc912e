//! Reads key stores and trust stores from files.
//!
//! The type JKS or PKCS12 is detected by content, as Java does: most stores are PKCS12 today, whatever they are called.

use std::io::Read;
use std::path::Path;

use p12_keystore::{KeyStore, KeyStoreEntry, Pkcs12Archive, Pkcs12ImportPolicy};
use pkcs8::{EncryptedPrivateKeyInfoRef, SecretDocument};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{Error, jks};
use crate::config::{Password, Store, StoreFormat};

/// The key of a server with its certificate chain.
pub(super) struct Identity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

/// Opens a key store.
pub(super) fn identity(store: &Store) -> Result<Identity, Error> {
    let bytes = read(&store.location)?;
    let identity = match store.format {
        StoreFormat::Pem => {
            Identity { chain: pem_certificates(store, &bytes)?, key: pem_key(store, &bytes, &password(store)?)? }
        }
        StoreFormat::Jks | StoreFormat::Pkcs12 if bytes.starts_with(&jks::MAGIC) => {
            let opened = jks::open(&bytes, &password(store)?).map_err(|why| store_error(store, why))?;
            opened.identity.ok_or_else(|| store_error(store, "there is no private key with a certificate in it"))?
        }
        StoreFormat::Jks | StoreFormat::Pkcs12 => pkcs12_identity(store, &bytes, &password(store)?)?,
    };
    if identity.chain.is_empty() {
        return Err(store_error(store, "there is no certificate for the key in it"));
    }
    Ok(identity)
}

/// Opens a trust store.
pub(super) fn roots(store: &Store) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in trusted(store)? {
        roots
            .add(certificate)
            .map_err(|error| store_error(store, &format!("a certificate cannot be trusted: {error}")))?;
    }
    Ok(roots)
}

/// Reads the certificates of a trust store, of which there is at least one.
pub(super) fn trusted(store: &Store) -> Result<Vec<CertificateDer<'static>>, Error> {
    let bytes = read(&store.location)?;
    let certificates = match store.format {
        StoreFormat::Pem => pem_certificates(store, &bytes)?,
        StoreFormat::Jks | StoreFormat::Pkcs12 if bytes.starts_with(&jks::MAGIC) => {
            jks::open(&bytes, &password(store)?).map_err(|why| store_error(store, why))?.trusted
        }
        StoreFormat::Jks | StoreFormat::Pkcs12 => pkcs12_certificates(store, &bytes, &password(store)?)?,
    };
    if certificates.is_empty() {
        return Err(store_error(store, "there is no certificate to trust in it; add one with keytool -importcert"));
    }
    Ok(certificates)
}

fn pem_certificates(store: &Store, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let certificates = CertificateDer::pem_slice_iter(bytes).collect::<Result<_, _>>();
    certificates.map_err(|error| store_error(store, &format!("a certificate cannot be read: {error}")))
}

fn pem_key(store: &Store, bytes: &[u8], password: &str) -> Result<PrivateKeyDer<'static>, Error> {
    let text = String::from_utf8_lossy(bytes);
    let Some(block) = encrypted_block(&text) else {
        let key = PrivateKeyDer::from_pem_slice(bytes);
        return key.map_err(|error| store_error(store, &format!("no private key can be read from it: {error}")));
    };
    let decrypt_error =
        |error: String| store_error(store, &format!("its key cannot be decrypted, is the password right? {error}"));
    let (_, encrypted) = SecretDocument::from_pem(block).map_err(|error| decrypt_error(error.to_string()))?;
    let encrypted =
        EncryptedPrivateKeyInfoRef::try_from(encrypted.as_bytes()).map_err(|error| decrypt_error(error.to_string()))?;
    let key = encrypted.decrypt(password).map_err(|error| decrypt_error(error.to_string()))?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}

/// Finds the encrypted key in a PEM file, including its first and last line.
fn encrypted_block(text: &str) -> Option<&str> {
    const BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
    const END: &str = "-----END ENCRYPTED PRIVATE KEY-----";
    let block = &text[text.find(BEGIN)?..];
    Some(&block[..block.find(END)? + END.len()])
}

fn pkcs12_identity(store: &Store, bytes: &[u8], password: &str) -> Result<Identity, Error> {
    let opened = KeyStore::from_pkcs12(bytes, password, Pkcs12ImportPolicy::Strict);
    let opened = opened.map_err(|error| pkcs12_error(store, &error))?;
    let chain = opened.entries().find_map(|(_, entry)| match entry {
        KeyStoreEntry::PrivateKeyChain(chain) => Some(chain),
        KeyStoreEntry::Certificate(_) | KeyStoreEntry::Secret(_) => None,
    });
    let chain = chain.ok_or_else(|| store_error(store, "there is no private key with a certificate in it"))?;
    Ok(Identity {
        chain: chain.certs().iter().map(|cert| CertificateDer::from(cert.as_der().to_vec())).collect(),
        key: PrivatePkcs8KeyDer::from(chain.key().as_der().to_vec()).into(),
    })
}

/// Java marks trusted certificates. OpenSSL does not; then all certificates without a key are trusted.
fn pkcs12_certificates(store: &Store, bytes: &[u8], password: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let archive = Pkcs12Archive::from_pkcs12(bytes, password).map_err(|error| pkcs12_error(store, &error))?;
    let marked = archive.certs.iter().any(|bag| bag.trusted);
    let trusted = archive.certs.iter().filter(|bag| if marked { bag.trusted } else { bag.local_key_id.is_none() });
    Ok(trusted.map(|bag| CertificateDer::from(bag.cert.as_der().to_vec())).collect())
}

/// The content of a file, up to a limit.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::Read { file: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(STORE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > STORE_BYTES_MAX {
        let why = "longer than 16 megabytes: this is neither a key store nor a list of certificates".to_owned();
        return Err(Error::Store { file: path.to_owned(), why });
    }
    Ok(bytes)
}

fn password(store: &Store) -> Result<String, Error> {
    match &store.password {
        Password::None => Ok(String::new()),
        Password::Given(secret) => Ok(secret.0.clone()),
        Password::InFile(file) => {
            let text = std::fs::read_to_string(file).map_err(|source| Error::Read { file: file.clone(), source })?;
            Ok(text.lines().next().unwrap_or_default().to_owned())
        }
    }
}

fn pkcs12_error(store: &Store, error: &p12_keystore::error::Error) -> Error {
    store_error(store, &format!("cannot be opened as PKCS12, is the password right? {error}"))
}

fn store_error(store: &Store, why: &str) -> Error {
    Error::Store { file: store.location.clone(), why: why.to_owned() }
}

/// All public authorities of the world together take a quarter of a megabyte.
const STORE_BYTES_MAX: u64 = 16 << 20;
