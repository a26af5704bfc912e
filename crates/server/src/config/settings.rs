//! The typed settings: the content of a configuration file after parsing, checks and defaults.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use crate::topology::Topology;
use pole_types::ServerId;

use super::servers::{Address, Server};

/// The servers of an ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ensemble {
    /// The id of this server, from the file `myid` in `dataDir`; always one of `servers`.
    pub me: ServerId,
    /// All voting servers.
    pub servers: BTreeMap<ServerId, Server>,
    /// `quorumListenOnAllIPs`.
    pub listen_on_all: bool,
}

/// Ports and limits for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clients {
    /// `clientPort` and `clientPortAddress`, or the client part of this server's `server.N`. The host `0.0.0.0` means
    /// all addresses.
    pub plain: Option<Address>,
    /// `secureClientPort` and `secureClientPortAddress`.
    pub secure: Option<Address>,
    /// `maxClientCnxns`: connections from one address; 0 for no limit.
    pub max_per_host: u64,
    /// `maxCnxns`: connections in total; 0 for no limit.
    pub max_total: u64,
    /// `clientPortListenBacklog`; `None` for the system's default.
    pub backlog: Option<u32>,
    /// `globalOutstandingLimit`.
    pub outstanding_max: u64,
    /// `jute.maxbuffer`.
    pub request_bytes_max: u64,
    /// `pole.client.replyBytesMax`.
    pub reply_bytes_max: u64,
    /// `pole.client.outputBytesMax`.
    pub output_bytes_max: u64,
    /// `pole.client.watchesMax`.
    pub watches_max: u64,
    /// `pole.client.identityBytesMax`.
    pub identity_bytes_max: u64,
    /// `pole.client.greetingTimeoutMs`.
    pub greeting_timeout_ms: u64,
    /// `pole.client.greetingsMax`.
    pub greetings_max: u64,
    /// `4lw.commands.whitelist`.
    pub four_letter_words: FourLetterWords,
    /// `readonlymode.enabled`.
    pub read_only_mode: bool,
}

/// The whitelist of four-letter words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FourLetterWords {
    /// The list contains `*`.
    pub all: bool,
    /// The words in the list; always includes `srvr`, and `isro` in read-only mode.
    pub named: BTreeSet<String>,
}

impl FourLetterWords {
    /// Whether this word is answered, provided that it exists. Words that change the leader have to be named.
    /// Otherwise, where `*` is set for the sake of a dashboard, anyone who can reach the client port could use them.
    #[must_use]
    pub fn allows(&self, word: &str) -> bool {
        (self.all && !NAMED_ONLY.contains(&word)) || self.named.contains(word)
    }
}

/// Words that `*` does not allow.
const NAMED_ONLY: [&str; 2] = ["rqld", "ydld"];

/// The tick and the timeouts based on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// `tickTime`.
    pub tick_ms: u64,
    /// `initLimit`, in ticks.
    pub init_limit: u64,
    /// `syncLimit`, in ticks.
    pub sync_limit: u64,
    /// `minSessionTimeout`, or two ticks.
    pub min_session_timeout_ms: u64,
    /// `maxSessionTimeout`, or twenty ticks.
    pub max_session_timeout_ms: u64,
}

/// Directories, snapshots and log files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// `dataDir`.
    pub data_dir: PathBuf,
    /// `dataLogDir`, or `dataDir`.
    pub log_dir: PathBuf,
    /// `snapCount`.
    pub snap_count: u64,
    /// `snapSizeLimitInKb`, in bytes; `None` for no limit.
    pub snap_size_limit_bytes: Option<u64>,
    /// `snapshot.trust.empty`.
    pub trust_empty_snapshot: bool,
    /// `preAllocSize`, in bytes.
    pub prealloc_bytes: u64,
    /// `autopurge.snapRetainCount`, at least 3.
    pub snap_retain_count: u64,
    /// `autopurge.purgeInterval`; `None` for never.
    pub purge_interval_hours: Option<u64>,
    /// `forceSync`.
    pub force_sync: bool,
    /// `fsync.warningthresholdms`.
    pub fsync_warning_ms: u64,
}

/// Znodes and permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// `extendedTypesEnabled`: nodes with a time to live.
    pub extended_types: bool,
    /// `znode.container.checkIntervalMs`.
    pub container_check_ms: u64,
    /// `znode.container.maxPerMinute`.
    pub container_max_per_minute: u64,
    /// `enforceQuota`.
    pub enforce_quota: bool,
    /// `skipACL`.
    pub skip_acl: bool,
    /// `DigestAuthenticationProvider.superDigest`.
    pub super_digest: Option<Secret>,
    /// `pole.tree.pathBytesMax`.
    pub path_bytes_max: u64,
    /// `pole.tree.ephemeralsMax`.
    pub ephemerals_max: u64,
    /// `X509AuthenticationProvider.superUser`.
    pub x509_super_user: Option<String>,
}

/// The admin server and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// `admin.serverAddress` and `admin.serverPort` (0 for any free one); `None` if `admin.enableServer` is false.
    pub address: Option<Address>,
    /// `metricsProvider.httpHost` and `metricsProvider.httpPort`.
    pub metrics: Option<Address>,
    /// `pole.admin.token`.
    pub token: Option<Secret>,
}

/// TLS for clients and between servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// `ssl.*`, for `secureClientPort`.
    pub clients: TlsSettings,
    /// `ssl.quorum.*`.
    pub peers: TlsSettings,
    /// `sslQuorum`.
    pub between_servers: bool,
    /// `ssl.handshakeDetectionTimeoutMillis`.
    pub handshake_timeout_ms: u64,
}

/// TLS settings, for clients or between servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// The key and certificates of this server.
    pub key_store: Option<Store>,
    /// The authorities that sign the certificates of the other side.
    pub trust_store: Option<Store>,
    /// Whether the connecting side must present a certificate.
    pub client_auth: ClientAuth,
    /// Whether a certificate must match the host name.
    pub verify_host: bool,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// A certificate is required.
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

/// A text that `Debug` does not print.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// Pole's own settings: elections, measurements, resignation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pole {
    /// `pole.oracle`; see [`super::Config::oracle`].
    pub oracle: String,
    /// `pole.oracle.preference`, even if another oracle is configured, since it may be chosen at run time.
    pub preference: Option<String>,
    /// `pole.oracle.combined`, likewise even if another oracle is configured.
    pub combined: Option<String>,
    /// `pole.oracle.rateHalfLifeMs`.
    pub rate_half_life_ms: u64,
    /// `pole.heartbeatMs`.
    pub heartbeat_ms: u64,
    /// `pole.livenessMs`.
    pub liveness_ms: u64,
    /// `pole.livenessTimeoutMs`.
    pub liveness_timeout_ms: u64,
    /// `pole.electionTimeoutMs`.
    pub election_timeout_ms: u64,
    /// `pole.firstScoreWaitMs`.
    pub first_score_wait_ms: u64,
    /// `pole.patienceMs`.
    pub patience_ms: u64,
    /// `pole.diffRetainMb`.
    pub diff_retain_mb: u64,
    /// `pole.peer.secret`: the path of the file.
    pub peer_secret: Option<PathBuf>,
    /// `pole.resign`.
    pub resign: bool,
    /// `pole.resign.marginPercent`.
    pub resign_margin_percent: u64,
    /// `pole.resign.marginMs`.
    pub resign_margin_ms: u64,
    /// `pole.resign.holdMs`.
    pub resign_hold_ms: u64,
    /// `pole.resign.cooldownMs`.
    pub resign_cooldown_ms: u64,
    /// `pole.resign.maxPerHour`.
    pub resign_max_per_hour: u64,
    /// `pole.topology`.
    pub emulation: Option<Emulation>,
    /// `pole.site`, or the site that the topology gives to this server.
    pub site: Option<String>,
    /// `pole.log=json`.
    pub log_json: bool,
}

/// Emulated delays on the links to other servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emulation {
    /// The path of the topology file.
    pub file: PathBuf,
    /// The content of the file.
    pub topology: Topology,
}
