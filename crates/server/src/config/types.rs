//! The types of settings that are more than a number, a word or a path.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use super::properties;
use super::values::Values;
use crate::topology::Topology;

/// The whitelist of four-letter words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FourLetterWords {
    /// The list contains `*`.
    pub all: bool,
    /// The words in the list; always includes `srvr`, and `isro` in read-only mode.
    pub named: BTreeSet<String>,
}

impl FourLetterWords {
    /// `srvr` is always allowed because `zkServer.sh` depends on it, and `isro` in read-only mode because clients do.
    pub(super) fn read(values: &Values, key: &'static str) -> Self {
        let list = values.text(key).unwrap_or_default();
        let named = list.split(',').map(properties::trim).filter(|word| !word.is_empty());
        let always = ["srvr"].into_iter().chain(values.bool("readonlymode.enabled").then_some("isro"));
        let mut named: BTreeSet<String> = named.chain(always).map(str::to_owned).collect();
        Self { all: named.remove("*"), named }
    }

    /// Whether this word is answered, provided that it exists. Words that change the leader have to be named.
    /// Otherwise, where `*` is set for the sake of a dashboard, anyone who can reach the client port could use them.
    #[must_use]
    pub fn allows(&self, word: &str) -> bool {
        (self.all && !NAMED_ONLY.contains(&word)) || self.named.contains(word)
    }
}

/// Words that `*` does not allow.
const NAMED_ONLY: [&str; 2] = ["rqld", "ydld"];

/// TLS settings, for clients or between servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// The key and certificates of this server.
    pub key_store: Option<Store>,
    /// The authorities that sign the certificates of the other side.
    pub trust_store: Option<Store>,
    /// Whether the connecting side must present a certificate.
    pub client_auth: ClientAuth,
    /// Lists of revoked certificates, as PEM or DER; `None` if certificates are not looked up.
    pub revocation_lists: Option<PathBuf>,
    /// Whether the certificate of a server must match the host name that was dialled.
    pub verify_host: bool,
    /// Whether the certificate of the connecting side must match its host. Only with `verify_host`.
    pub verify_client_host: bool,
    /// Whether TLS 1.2 is enabled.
    pub tls12: bool,
    /// Whether TLS 1.3 is enabled.
    pub tls13: bool,
    /// Java's names of the enabled cipher suites, all known to Pole; empty for all.
    pub cipher_suites: Vec<String>,
}

/// A key store or trust store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// The path of the store.
    pub location: PathBuf,
    /// Its format, as configured or by the extension of the file.
    pub format: StoreFormat,
    /// The source of its password.
    pub password: Password,
}

/// The format of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFormat {
    /// Java's own format. Current versions of Java write PKCS12 under this name; the old format is supported too.
    Jks,
    /// Key and certificates as PEM text in one file.
    Pem,
    /// PKCS12, which both Java and OpenSSL write.
    Pkcs12,
}

impl StoreFormat {
    /// The name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Jks => "JKS",
            Self::Pem => "PEM",
            Self::Pkcs12 => "PKCS12",
        }
    }
}

/// The source of the password of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Password {
    /// No password.
    None,
    /// The password itself.
    Given(Secret),
    /// The first line of this file.
    InFile(PathBuf),
}

/// `ssl.clientAuth`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// A certificate is required.
    #[default]
    Need,
    /// A certificate is optional, and verified if there is one.
    Want,
    /// No certificate is requested.
    None,
}

impl ClientAuth {
    /// The name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Need => "need",
            Self::Want => "want",
            Self::None => "none",
        }
    }
}

/// The server's own principal of Kerberos.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kerberos {
    /// The principal with its realm: `zookeeper/HOST@REALM`.
    pub principal: String,
    /// The file with its key; `None` for that of the Kerberos library.
    pub keytab: Option<PathBuf>,
}

impl Kerberos {
    /// The realm of the principal.
    #[must_use]
    pub fn realm(&self) -> &str {
        self.principal.split_once('@').map_or("", |(_, realm)| realm)
    }
}

/// A text that `Debug` does not print.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// Emulated delays on the links to other servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emulation {
    /// The path of the topology file.
    pub file: PathBuf,
    /// The content of the file.
    pub topology: Topology,
}

/// The file that a configuration was read from, if it was. It makes no difference between two configurations.
#[derive(Clone, Debug, Default)]
pub struct SourceFile(pub Option<PathBuf>);

impl PartialEq for SourceFile {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for SourceFile {}
