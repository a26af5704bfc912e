//! The table of all settings: key, allowed values, default, meaning, section, and the field that holds the value.
//!
//! Everything else derives from this table: the structs below, parsing, checks, messages, suggestions, printing, and
//! `docs/configuration.md`. A setting with a field of its own is one row. Rules between keys are in `build`, the form of
//! `server.N` in `pole_tree`, TLS in `ssl`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pole_oracle::DIRECT_ACKS_MARGIN;
use pole_tree::{Address, DigestAlgorithm, Members};
use pole_types::{ServerId, Span};

use super::keys::Kind::{self, Bool, Family, Number, Only, Secret as Hidden, Text, Unused, Word};
use super::keys::{Key, Origin};
use super::types::{Emulation, FourLetterWords, Kerberos, Secret, SourceFile, TlsSettings};
use super::values::Values;
use crate::log::Filter;

/// Defines [`KEYS`], and for each section a struct with a field for each row that has one (`=> field: type = reader`) and
/// for what `build` computes from several keys (`+ field: type = initial value`).
macro_rules! settings {
    ($(
        #[doc = $about:literal]
        $title:literal: $section:ident {
            $($origin:ident $name:literal, $kind:expr, $default:literal $(=> $field:ident: $type:ty = $read:expr)?,
                $meaning:literal;)*
            $($(#[doc = $doc:literal])* + $extra:ident: $extra_type:ty = $initial:expr;)*
        }
    )*) => {
        /// All keys, in the order of the documentation.
        pub const KEYS: &[Key] = &[$($(Key {
            name: $name,
            kind: $kind,
            default: $default,
            origin: Origin::$origin,
            meaning: $meaning,
            section: $title,
        },)*)*];

        $(
            #[doc = $about]
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub struct $section {
                $($(#[doc = concat!("`", $name, "`: ", $meaning)] pub $field: $type,)?)*
                $($(#[doc = $doc])* pub $extra: $extra_type,)*
            }

            impl $section {
                /// Takes what is in the table. `build` adds the rest.
                pub(super) fn read(values: &Values) -> Self {
                    Self {
                        $($($field: values.get($name, $read),)?)*
                        $($extra: $initial,)*
                    }
                }
            }
        )*
    };
}

const TRUE_FALSE: Kind = Bool("true", "false");
const YES_NO: Kind = Bool("yes", "no");
const PORT: Kind = Number(0, 65_535);
/// A count that Apache stores in a Java `int`.
const COUNT: Kind = Number(0, i32::MAX as i64);
/// Up to a day. More is a mistake, and with this limit sums of durations cannot overflow.
const MS: Kind = Number(1, 86_400_000);
const STORE_TYPES: Kind = Word(&["JKS", "PEM", "PKCS12"]);
const DIGESTS: Kind = Word(&["SHA1", "SHA-1", "SHA-256", "SHA-384", "SHA-512", "SHA3-256", "SHA3-384", "SHA3-512"]);
const SASL: &str = "servers use TLS or pole.peer.secret among themselves";
const OCSP: &str = "nobody is asked about certificates; use lists, ssl.crl and ssl.quorum.crl";
const REVERSE_DNS: &str = "a certificate has to name an address that it is for; names are not looked up by address";
const THREADS: &str = "Pole has other threads than Apache's server";
const RANDOM_DROPS: &str = "connections are refused when there are no tokens, never at random";
const ELECTION: &str = "Pole has another election";
const OBSERVERS: &str = "observers follow the leader itself";
const SYNCS: &str = "what a leader sends at once is limited in bytes";
const CACHE: &str = "replies are not cached";
const WATCHES: &str = "the watches of a closed connection are removed in small steps";
const PATHS: &str = "there are no statistics by path";
const BATCHES: &str = "the disk takes everything that waits at once";
const KERBEROS: &str = "the server takes tickets and needs none itself";
const RULES: &str = "names of principals are not rewritten";
const JVM: &str = "there is no JVM";

/// The algorithm with one of the names of [`DIGESTS`]; Java has two for the first.
fn digest_algorithm(name: &str) -> DigestAlgorithm {
    DigestAlgorithm::ALL.into_iter().find(|(known, _)| *known == name).map_or(DigestAlgorithm::Sha1, |(_, known)| known)
}

/// Apache keeps as many, so that there is another one if the newest snapshot is damaged.
pub(super) const SNAPSHOTS_MIN: u64 = 3;

settings! {
    /// The servers of an ensemble.
    "The ensemble": Ensemble {
        Apache "server.N", Family, "",
            "A server: `host:quorumPort:electionPort[:role][;[address:]clientPort]`. The role is `participant` or `observer`: an \
             observer follows and serves clients, and never votes.";
        Apache "dynamicConfigFile", Text, "",
            "A file that holds the `server.N` lines instead of this one.";
        Apache "standaloneEnabled", TRUE_FALSE, "true" => standalone: bool = Values::bool,
            "Whether a single `server.N` line means a server on its own.";
        Apache "reconfigEnabled", TRUE_FALSE, "false" => reconfig: bool = Values::bool,
            "Whether the servers of the ensemble can be changed at run time (`reconfig`, `pole members`). All servers need \
             the same value.";
        Apache "electionAlg", Only(&["3"], "Apache removed the others too"), "3",
            "Apache's number of the election algorithm.";
        Apache "peerType", Word(&["participant", "observer"]), "participant",
            "The role of this server, `participant` or `observer`. Its `server.N` line counts, and a difference is reported.";
        Apache "group.N", Family, "",
            "The servers of a group, `1:2:3`. A quorum is then more than half of the groups, each with more than half of its \
             weight. Every voting server is in one group.";
        Apache "weight.N", Family, "",
            "The weight of a vote within its group; 1 unless set. A server of weight 0 follows and never leads.";
        Apache "quorumListenOnAllIPs", TRUE_FALSE, "false" => listen_on_all: bool = Values::bool,
            "Whether the quorum and election ports listen on all addresses.";
        Apache "multiAddress.enabled", Only(&["false"], "a server has one address"), "false",
            "Several addresses for a server.";
        Apache "oraclePath", Only(&[], "Pole breaks no ties of two servers by a file"), "",
            "Apache's tie-breaker for two servers.";
        Apache "multiAddress.reachabilityCheckEnabled", Unused("a server has one address"), "", "Whether addresses are probed.";
        Apache "multiAddress.reachabilityCheckTimeoutMs", Unused("a server has one address"), "", "Milliseconds for that.";
        Apache "electionPortBindRetry", Unused("a port that is taken ends the start, with its name"), "", "Attempts to open the election port.";
        Apache "fastleader.minNotificationInterval", Unused(ELECTION), "", "Milliseconds between messages of an election.";
        Apache "fastleader.maxNotificationInterval", Unused(ELECTION), "", "Milliseconds between messages of an election.";
        Apache "leader.maxTimeToWaitForEpoch", Unused(ELECTION), "", "Milliseconds that a leader waits for followers.";
        Apache "leaderConnectDelayDuringRetryMs", Unused("a connection that fails is retried at once"), "", "Milliseconds between attempts to connect to the leader.";
        Apache "quorumCnxnTimeoutMs", Unused("peers watch each other by messages"), "", "Milliseconds after which a silent link is closed.";
        Apache "observerMasterPort", Unused(OBSERVERS), "", "The port on which a follower serves observers.";
        Apache "observerMaster.sizeLimit", Unused(OBSERVERS), "", "Bytes that it keeps for them.";
        Apache "observer.reconnectDelayMs", Unused("a connection that fails is retried at once"), "", "Milliseconds before an observer connects again.";
        Apache "observer.election.DelayMs", Unused(ELECTION), "", "Milliseconds before an observer looks for a leader.";
        Apache "leader.maxConcurrentSnapSyncs", Unused(SYNCS), "", "Followers that a leader brings level with snapshots at once.";
        Apache "leader.maxConcurrentDiffSyncs", Unused(SYNCS), "", "The same without snapshots.";
        Apache "leader.ackLoggingFrequency", Unused(THREADS), "", "Which acknowledgements are logged.";
        Apache "leader.closeSocketAsync", Unused(THREADS), "", "How links are closed.";
        Apache "learner.closeSocketAsync", Unused(THREADS), "", "How links are closed.";
        Apache "learner.asyncSending", Unused(THREADS), "", "How a follower sends.";
        Apache "messageTracker.Enabled", Unused("links are logged and counted"), "", "Whether the last messages of a link are kept for the log.";
        Apache "messageTracker.BufferSize", Unused("links are logged and counted"), "", "How many.";
        Apache "controllerPort", Unused("a part of Apache's tests"), "", "A port that controls failures.";
        /// The id of this server, from the file `myid` in `dataDir`; always one of the members.
        + me: ServerId = ServerId(0);
        /// All servers, observers included, and their votes.
        + members: Members = Members::default();
        /// The version of the members: the zxid of the change that set them, if the `dynamicConfigFile` names it.
        + members_version: i64 = 0;
        /// The configuration file, beside which changed members are stored.
        + file: SourceFile = SourceFile::default();
    }
    /// The tick and the timeouts based on it.
    "Time": Timing {
        Apache "tickTime", Number(1, 3_600_000), "3000" => tick_ms: u64 = Values::count,
            "Milliseconds of a tick, the unit of the limits below.";
        Apache "initLimit", Number(1, 1_000_000), "10" => init_limit: u64 = Values::count,
            "Ticks that a synchronisation may make no progress. Apache has no default.";
        Apache "syncLimit", Number(1, 1_000_000), "5" => sync_limit: u64 = Values::count,
            "Ticks that cap the liveness timeout. Apache has no default.";
        Apache "connectToLearnerMasterLimit", Unused("a connection that fails is retried at once"), "",
            "Ticks to connect to the leader.";
        Apache "minSessionTimeout", Number(-1, i32::MAX as i64), "-1"
            => min_session_timeout_ms: u64 = |values, key| values.ticks(key, 2),
            "Least session timeout in milliseconds; -1: two ticks.";
        Apache "maxSessionTimeout", Number(-1, i32::MAX as i64), "-1"
            => max_session_timeout_ms: u64 = |values, key| values.ticks(key, 20),
            "Greatest session timeout in milliseconds; -1: twenty ticks.";
        Apache "cnxTimeout", Unused("connections between servers are retried at once"), "",
            "Milliseconds to open an election connection.";
    }
    /// Ports and limits for clients.
    "Clients": Clients {
        Apache "clientPort", PORT, "0",
            "The port for clients; 0: none.";
        Apache "clientPortAddress", Text, "",
            "The address of that port; all addresses if not set.";
        Apache "secureClientPort", PORT, "0",
            "The port for clients with TLS; 0: none.";
        Apache "secureClientPortAddress", Text, "",
            "The address of that port; all addresses if not set.";
        Apache "maxClientCnxns", COUNT, "60" => max_per_host: u64 = Values::count,
            "Connections from one address; 0: no limit.";
        Apache "maxCnxns", COUNT, "0" => max_total: u64 = Values::count,
            "Connections in all; 0: no limit.";
        Apache "clientPortListenBacklog", Number(-1, 65_535), "-1"
            => backlog: Option<u32> = |values, key| u32::try_from(values.number(key)).ok(),
            "Connections that may wait to be accepted; -1: the system's default.";
        Apache "globalOutstandingLimit", Number(1, 1_000_000), "1000" => outstanding_max: u64 = Values::count,
            "Requests under way at most; further ones wait.";
        Apache "requestThrottleLimit", COUNT, "0"
            => throttle_limit: u64 = |values, key| Some(values.count(key)).filter(|limit| *limit > 0).unwrap_or(u64::MAX),
            "The same for one server; 0: no limit but `globalOutstandingLimit`. In Apache's file also `request_throttle_max_requests`.";
        Apache "requestThrottleStallTime", Unused("a request that waits goes on as soon as there is room"), "",
            "Milliseconds between two looks whether there is room.";
        Apache "requestThrottleDropStale", Unused("requests that wait end with their connection"), "",
            "Whether requests that wait are dropped when they are stale.";
        Apache "requestStaleConnectionCheck", Unused("requests that wait end with their connection"), "",
            "Whether requests of closed connections are stale.";
        Apache "requestStaleLatencyCheck", Unused("requests of an expired session are never executed"), "",
            "Whether requests older than the session timeout are stale.";
        Apache "throttledOpWaitTime", Number(-1, 86_400_000), "-1"
            => throttled_after_ms: Option<u64> = |values, key| u64::try_from(values.number(key)).ok().filter(|ms| *ms > 0),
            "Milliseconds after which a request that waits because of these limits is answered with ThrottledOp (-127); 0 or less: it waits. Requests of a client that has others under way wait for those first.";
        Apache "largeRequestThreshold", Number(-1, i32::MAX as i64), "-1"
            => large_request_bytes: Option<u64> = |values, key| u64::try_from(values.number(key)).ok(),
            "Bytes above which a request is large; -1: none is.";
        Apache "largeRequestMaxBytes", Number(1, i32::MAX as i64), "104857600" => large_bytes_max: u64 = Values::count,
            "Bytes of all large requests under way. A client that sends one more is disconnected.";
        Apache "connectionMaxTokens", COUNT, "0" => tokens_max: u64 = Values::count,
            "Sessions that can be asked for at once; every request for one takes a token, and a client that finds none is disconnected. 0: no limit.";
        Apache "connectionTokenFillTime", Number(1, 86_400_000), "1" => token_fill_ms: u64 = Values::count,
            "Milliseconds in which tokens come back.";
        Apache "connectionTokenFillCount", Number(1, i32::MAX as i64), "1" => token_fill_count: u64 = Values::count,
            "How many come back in that time.";
        Apache "connection_throttle_weight_enabled", TRUE_FALSE, "false",
            "Whether a session takes as many tokens as the weights below say, instead of one.";
        Apache "connection_throttle_global_session_weight", Number(1, i32::MAX as i64), "3"
            => new_session_weight: u64 = Values::session_weight,
            "Tokens of a new session.";
        Apache "connection_throttle_renew_session_weight", Number(1, i32::MAX as i64), "2"
            => resumed_session_weight: u64 = Values::session_weight,
            "Tokens of a resumed session.";
        Apache "connection_throttle_local_session_weight", Unused("there are no local sessions"), "",
            "Tokens of a local session.";
        Apache "connectionFreezeTime", Unused(RANDOM_DROPS), "",
            "Milliseconds between changes of the probability with which connections are dropped.";
        Apache "connectionDropIncrease", Unused(RANDOM_DROPS), "",
            "By how much it grows.";
        Apache "connectionDropDecrease", Unused(RANDOM_DROPS), "",
            "By how much it shrinks.";
        Apache "connectionDecreaseRatio", Unused(RANDOM_DROPS), "",
            "The share of free tokens from which on it shrinks.";
        Apache "jute.maxbuffer", Number(1_024, 1 << 30), "1048575" => request_bytes_max: u64 = Values::count,
            "Bytes of a request at most. Read from this file, unlike Apache's.";
        Apache "readonlymode.enabled", TRUE_FALSE, "false" => read_only_mode: bool = Values::bool,
            "Whether a server without a quorum serves read-only clients.";
        Apache "4lw.commands.whitelist", Text, "srvr" => four_letter_words: FourLetterWords = FourLetterWords::read,
            "Four-letter words that are answered, with commas; `*`: all but `rqld` and `ydld`, which have to be named.";
        Apache "leaderServes", YES_NO, "yes" => leader_serves: bool = Values::bool,
            "Whether the leader serves clients. With `no` its clients are disconnected when it begins to lead, and go to other servers.";
        Apache "localSessionsEnabled", Unused("every session is known to the whole ensemble"), "",
            "Sessions that only one server knows.";
        Apache "localSessionsUpgradingEnabled", Unused("every session is known to the whole ensemble"), "",
            "Their upgrade.";
        Apache "tcpKeepAlive", Unused("peers watch each other by messages"), "",
            "Keep-alive of election connections.";
        Apache "serverCnxnFactory", Unused("both ports work without"), "",
            "The class that serves connections.";
        Apache "nio.numSelectorThreads", Unused(THREADS), "",
            "Threads of Apache's server.";
        Apache "nio.numWorkerThreads", Unused(THREADS), "",
            "Threads of Apache's server.";
        Apache "commitProcessor.numWorkerThreads", Unused(THREADS), "",
            "Threads of Apache's server.";
        Apache "quorum.cnxn.threads.size", Unused(THREADS), "",
            "Threads of Apache's server.";
        Apache "clientTcpKeepAlive", Unused("a client that is gone is known by its session timeout"), "", "Keep-alive of client connections.";
        Apache "nio.directBufferBytes", Unused(THREADS), "", "Memory of Apache's server.";
        Apache "nio.shutdownTimeout", Unused(THREADS), "", "Threads of Apache's server.";
        Apache "netty.advancedFlowControl.enabled", Unused("input is read when there is room for it"), "", "Flow control of Netty.";
        Apache "netty.server.outstandingHandshake.limit", Unused("handshakes count as connections without a session: pole.client.greetingsMax"), "", "TLS handshakes at once.";
        Apache "netty.server.earlyDropSecureConnectionHandshakes", Unused("handshakes count as connections without a session: pole.client.greetingsMax"), "", "Whether further ones are dropped at once.";
        Apache "commitProcessor.maxReadBatchSize", Unused(THREADS), "", "Batches of Apache's server.";
        Apache "commitProcessor.maxCommitBatchSize", Unused(THREADS), "", "Batches of Apache's server.";
        Apache "commitProcessor.shutdownTimeout", Unused(THREADS), "", "Threads of Apache's server.";
        Apache "request_throttler.shutdownTimeout", Unused(THREADS), "", "Threads of Apache's server.";
        Apache "follower.skipLearnerRequestToNextProcessor", Unused(THREADS), "", "Stages of Apache's server.";
        Apache "forward_learner_requests_to_commit_processor_disabled", Unused(THREADS), "", "Stages of Apache's server.";
        Apache "intBufferStartingSizeBytes", Unused("buffers grow as needed"), "", "Memory of a reply.";
        Apache "maxResponseCacheSize", Unused(CACHE), "", "Replies kept for getData.";
        Apache "maxGetChildrenResponseCacheSize", Unused(CACHE), "", "Replies kept for getChildren.";
        Apache "watchManagerName", Unused(WATCHES), "", "The class that keeps watches.";
        Apache "watcherCleanThreadsNum", Unused(WATCHES), "", "Threads that remove watches.";
        Apache "watcherCleanIntervalInSeconds", Unused(WATCHES), "", "How often.";
        Apache "watcherCleanThreshold", Unused(WATCHES), "", "From how many on.";
        Apache "maxInProcessingDeadWatchers", Unused(WATCHES), "", "How many may wait.";
        Apache "bitHashCacheSize", Unused(WATCHES), "", "Memory of watches.";
        Apache "pathStats.enabled", Unused(PATHS), "", "Statistics of paths.";
        Apache "pathStats.slotCapacity", Unused(PATHS), "", "Statistics of paths.";
        Apache "pathStats.slotDuration", Unused(PATHS), "", "Statistics of paths.";
        Apache "pathStats.maxDepth", Unused(PATHS), "", "Statistics of paths.";
        Apache "pathStats.sampleRate", Unused(PATHS), "", "Statistics of paths.";
        Apache "pathStats.initialDelay", Unused(PATHS), "", "Statistics of paths.";
        Apache "pathStats.delay", Unused(PATHS), "", "Statistics of paths.";
        Apache "pathStats.topPathMax", Unused(PATHS), "", "Statistics of paths.";
        Pole "pole.client.replyBytesMax", Number(65_536, 1 << 30), "16777216" => reply_bytes_max: u64 = Values::count,
            "Bytes of a reply. A read that needs more is answered with MarshallingError (-5).";
        Pole "pole.client.outputBytesMax", Number(1 << 20, 1 << 40), "268435456"
            => output_bytes_max: u64 = Values::count,
            "Bytes that all clients of a server together may leave unread. Beyond that, connections with more than 1 MB unread are closed.";
        Pole "pole.client.identityBytesMax", Number(256, 1 << 20), "8192" => identity_bytes_max: u64 = Values::count,
            "Bytes of the identities of one connection (addAuth, certificate). They travel with every write; beyond the limit authentication fails.";
        Apache "nio.sessionlessCnxnTimeout", Number(100, 3_600_000), "10000",
            "Milliseconds after which a connection without a session is closed. `pole.client.greetingTimeoutMs` goes before.";
        Pole "pole.client.greetingTimeoutMs", Number(100, 3_600_000), "10000"
            => greeting_timeout_ms: u64 = |values, key| values.count(if values.line(key) > 0 { key } else { "nio.sessionlessCnxnTimeout" }),
            "Milliseconds from an accepted connection to its whole first request, TLS handshake included.";
        Pole "pole.client.greetingsMax", Number(1, 1_000_000), "1000" => greetings_max: u64 = Values::count,
            "Connections whose first request has not arrived. When there is one more, the oldest is closed.";
        Pole "pole.client.watchesMax", Number(1, 100_000_000), "500000" => watches_max: u64 = Values::count,
            "Paths that one connection may watch; a further watch is refused with QuotaExceeded (-125). A watch takes about 200 bytes; a path counts once more for each 256 bytes of its length.";
        /// `clientPort` and `clientPortAddress`, or the client part of this server's `server.N`. The host `0.0.0.0` means all addresses.
        + plain: Option<Address> = None;
        /// `secureClientPort` and `secureClientPortAddress`.
        + secure: Option<Address> = None;
    }
    /// Directories, snapshots and log files.
    "Disk": Storage {
        Apache "dataDir", Text, "" => data_dir: PathBuf = |values, key| values.path(key).unwrap_or_default(),
            "Where snapshots, `myid` and epochs are kept. Needed.";
        Apache "dataLogDir", Text, ""
            => log_dir: PathBuf = |values, key| values.path(key).or(values.path("dataDir")).unwrap_or_default(),
            "Where the log is kept; `dataDir` if not set.";
        Apache "snapCount", Number(2, i32::MAX as i64), "100000" => snap_count: u64 = Values::count,
            "Transactions between two snapshots.";
        Apache "snapSizeLimitInKb", Number(-1, i64::MAX >> 10), "4194304"
            => snap_size_limit_bytes: Option<u64> = Values::kilobytes_limit,
            "Kilobytes of log between two snapshots, drawn anew between half of it and all of it; 0 or less: no limit.";
        Apache "txnLogSizeLimitInKb", Number(-1, i64::MAX >> 10), "-1" => log_size_limit_bytes: Option<u64> = Values::kilobytes_limit,
            "Kilobytes after which the log goes on in another file; 0 or less: only after a snapshot.";
        Apache "preAllocSize", Number(64, 4_194_304), "65536"
            => prealloc_bytes: u64 = |values, key| values.count(key) << 10,
            "Kilobytes by which a log file grows at most; a small one grows by its own size.";
        Apache "autopurge.snapRetainCount", COUNT, "3"
            => snap_retain_count: u64 = |values, key| values.count(key).max(SNAPSHOTS_MIN),
            "Snapshots that a purge leaves; at least 3.";
        Apache "autopurge.purgeInterval", Number(0, 100_000), "0"
            => purge_interval_hours: Option<u64> = |values, key| Some(values.count(key)).filter(|hours| *hours > 0),
            "Hours between purges; 0: never.";
        Apache "forceSync", YES_NO, "yes" => force_sync: bool = Values::bool,
            "Whether a write is on the disk before it counts. `no` loses data in a power cut.";
        Apache "fsync.warningthresholdms", COUNT, "1000" => fsync_warning_ms: u64 = Values::count,
            "Milliseconds after which a slow disk is logged.";
        Apache "syncEnabled", Only(&["true"], "an observer logs like any follower"), "true",
            "Whether observers log.";
        Apache "snapshot.trust.empty", TRUE_FALSE, "false" => trust_empty_snapshot: bool = Values::bool,
            "Whether a log without any snapshot is read as the whole history, for one start. Otherwise it is refused.";
        Apache "snapshot.compression.method", Unused("snapshots are written plain; plain ones are read"), "",
            "Compression of snapshots.";
        Apache "datadir.autocreate", Unused("directories are made where they are missing"), "", "Whether directories are made.";
        Apache "db.autocreate", Unused("a server without history votes as the agreement allows"), "", "Whether a server without history may vote.";
        Apache "commitLogCount", Unused("pole.diffRetainMb says how much is kept, in bytes"), "", "Transactions kept in memory to bring others level.";
        Apache "snapshotSizeFactor", Unused("a follower gets a snapshot only if the log does not reach back far enough"), "", "How much log is sent instead of a snapshot.";
        Apache "forceSnapshotSync", Unused("a follower gets a snapshot only if the log does not reach back far enough"), "", "Whether followers always get a snapshot.";
        Apache "flushDelay", Unused(BATCHES), "", "Milliseconds that a write to the log waits for others.";
        Apache "maxWriteQueuePollTime", Unused(BATCHES), "", "Milliseconds that it waits at most.";
        Apache "maxBatchSize", Unused(BATCHES), "", "Transactions in one write to the log.";
        Apache "digest.enabled", Unused("Pole compares digests of its own"), "",
            "Apache's digest of the tree.";
    }
    /// Znodes and permissions.
    "Znodes and permissions": Service {
        Apache "extendedTypesEnabled", TRUE_FALSE, "false" => extended_types: bool = Values::bool,
            "Whether nodes with a time to live can be made.";
        Apache "znode.container.checkIntervalMs", MS, "60000" => container_check_ms: u64 = Values::count,
            "Milliseconds between looks for empty containers and old nodes.";
        Apache "znode.container.maxPerMinute", Number(1, i32::MAX as i64), "10000"
            => container_max_per_minute: u64 = Values::count,
            "How many of them may go in a minute.";
        Apache "enforceQuota", TRUE_FALSE, "false" => enforce_quota: bool = Values::bool,
            "Whether a quota refuses, or only logs.";
        Apache "skipACL", YES_NO, "no" => skip_acl: bool = Values::bool,
            "Whether permissions are not checked.";
        Apache "DigestAuthenticationProvider.superDigest", Hidden, "" => super_digest: Option<Secret> = Values::secret,
            "`super:` and the digest of the superuser's password.";
        Apache "DigestAuthenticationProvider.enabled", TRUE_FALSE, "true" => digest_enabled: bool = Values::bool,
            "Whether clients can authenticate with `digest` and set ACLs with it. Existing ones then match nobody.";
        Apache "DigestAuthenticationProvider.digestAlg", DIGESTS, "SHA1"
            => digest_algorithm: DigestAlgorithm = |values, key| digest_algorithm(values.word(key).unwrap_or_default()),
            "The hash of that scheme, in Java's names. Servers of an ensemble must agree, and ACLs and `superDigest` are of one hash.";
        Apache "X509AuthenticationProvider.superUser", Text, "" => x509_super_user: Option<String> = Values::owned,
            "The subject of the certificate that is a superuser.";
        Apache "authProvider.N", Family, "",
            "Apache's class of an authentication scheme. Those of x509, digest, ip and sasl are built in, that of `ensemble` is enabled by its line, and others are refused: classes of Java cannot be loaded. With that of SASL, ACLs of the scheme `sasl` are allowed before there are users.";
        Apache "ensembleAuthName", Text, "",
            "With `authProvider.N` of the class `EnsembleAuthenticationProvider`: the names of this ensemble, with commas. A client that expects another name is disconnected.";
        Pole "pole.sasl.usersFile", Text, "",
            "A file with the users that may authenticate by SASL DIGEST-MD5, `NAME:PASSWORD` in each line. Read at the start.";
        Pole "pole.sasl.jaasFile", Text, "",
            "The same as a JAAS file of Apache's server (`java.security.auth.login.config`), with options `user_NAME` of \
             `DigestLoginModule`; or with `principal` and `keyTab` of `Krb5LoginModule`, for Kerberos. Read at the start.";
        Apache "sasl.serverconfig", Text, "Server",
            "The section of the JAAS file.";
        Apache "SASLAuthenticationProvider.superPassword", Hidden, "",
            "Another password for the user `super` of these files.";
        Apache "superUser", Text, "",
            "A user of SASL that is a superuser. In a table of `pole.toml`: `name`.";
        Apache "superUser.N", Family, "",
            "Further ones.";
        Apache "allowSaslFailedClients", TRUE_FALSE, "false" => allow_sasl_failed: bool = Values::bool,
            "Whether a client whose authentication by SASL failed may go on without. Not where SASL is required.";
        Apache "sessionRequireClientSASLAuth", TRUE_FALSE, "false",
            "Whether clients must use SASL. Goes before `enforce.auth.schemes`.";
        Apache "requireClientAuthScheme", Unused("Apache's server does not read it either; see sessionRequireClientSASLAuth"), "",
            "The scheme that clients must use.";
        Apache "quorum.auth.enableSasl", Only(&["false"], SASL), "false",
            "Whether servers use SASL.";
        Apache "enforce.auth.enabled", TRUE_FALSE, "false",
            "Whether clients must authenticate before any other request.";
        Apache "enforce.auth.schemes", Text, "",
            "The schemes that count for it, with commas: `digest`, `ip`, `sasl`, `x509`.";
        Apache "closeSessionTxn.enabled", Unused("the end of a session always lists its nodes, unless there are many"), "", "Whether it does.";
        Apache "emulate353TTLNodes", Only(&["false"], "only versions before 3.5.4 wrote such nodes"), "false", "The format of nodes with a time to live.";
        Apache "enableEagerACLCheck", Unused("the leader checks permissions, once"), "", "Whether followers check permissions too.";
        Apache "letAnySaslUserDoX", Unused("a superuser is named with superUser"), "", "Whether a user of SASL may do everything.";
        Apache "quorum.auth.serverRequireSasl", Only(&["false"], SASL), "false", "Whether servers require SASL of each other.";
        Apache "quorum.auth.learnerRequireSasl", Only(&["false"], SASL), "false", "Whether servers require SASL of the leader.";
        Apache "quorum.auth.server.saslLoginContext", Unused(SASL), "", "A section of the JAAS file.";
        Apache "quorum.auth.learner.saslLoginContext", Unused(SASL), "", "A section of the JAAS file.";
        Apache "quorum.auth.kerberos.servicePrincipal", Unused(SASL), "", "A principal of Kerberos.";
        Apache "kerberos.removeHostFromPrincipal", TRUE_FALSE, "false" => kerberos_remove_host: bool = Values::bool,
            "Whether `NAME/HOST@REALM` of the server's own realm is the user `NAME@REALM`.";
        Apache "kerberos.removeRealmFromPrincipal", TRUE_FALSE, "false" => kerberos_remove_realm: bool = Values::bool,
            "Whether `NAME@REALM` of the server's own realm is the user `NAME`.";
        Apache "kerberos.canonicalizeHostNames", Unused(KERBEROS), "", "Names of Kerberos.";
        Apache "kerberos.minReLoginTimeMs", Unused(KERBEROS), "", "Tickets of Kerberos.";
        Apache "security.auth_to_local", Only(&["DEFAULT"], RULES), "DEFAULT", "Rules that make users of principals.";
        Apache "requireKerberosConfig", Unused("a principal without its key ends the start"), "", "Whether Kerberos must be configured.";
        Apache "kinit", Unused(KERBEROS), "", "The program that gets tickets.";
        Pole "pole.tree.pathBytesMax", Number(256, 1 << 20), "16384" => path_bytes_max: u64 = Values::count,
            "Bytes of a path that may be created; longer ones are answered with BadArguments (-8). Existing nodes are served.";
        Pole "pole.tree.depthMax", Number(16, 1 << 20), "256" => depth_max: u64 = Values::count,
            "Names in a path that may be created; deeper ones are answered with BadArguments (-8). Existing nodes are served.";
        Pole "pole.tree.ephemeralsMax", Number(1, 10_000_000), "50000" => ephemerals_max: u64 = Values::count,
            "Ephemeral nodes of one session; a further one is answered with QuotaExceeded (-125). They are deleted together.";
        /// Whether ACLs may name users of SASL.
        + sasl: bool = false;
        /// `pole.sasl.usersFile` and `pole.sasl.jaasFile`; `None` if neither is set.
        + sasl_users: Option<BTreeMap<String, Secret>> = None;
        /// The server's principal, if clients use Kerberos. Then there are no users.
        + kerberos: Option<Kerberos> = None;
        /// `superUser` and `superUser.N`.
        + sasl_super_users: Vec<String> = Vec::new();
        /// `enforce.auth.schemes`, or `sasl`; empty if clients need not authenticate.
        + required_schemes: Vec<String> = Vec::new();
        /// `ensembleAuthName`, if the scheme `ensemble` is enabled.
        + ensemble_names: Option<Vec<String>> = None;
    }
    /// TLS for clients and between servers.
    "TLS": Tls {
        Apache "ssl.keyStore.location", Text, "",
            "Key and certificates of the server for clients.";
        Apache "ssl.keyStore.password", Hidden, "",
            "Its password.";
        Apache "ssl.keyStore.passwordPath", Text, "",
            "A file with its password; goes before the password.";
        Apache "ssl.keyStore.type", STORE_TYPES, "",
            "Its format; by the ending of the file if not set.";
        Apache "ssl.trustStore.location", Text, "",
            "Certificates of the authorities that sign clients.";
        Apache "ssl.trustStore.password", Hidden, "",
            "Its password.";
        Apache "ssl.trustStore.passwordPath", Text, "",
            "A file with its password; goes before the password.";
        Apache "ssl.trustStore.type", STORE_TYPES, "",
            "Its format; by the ending of the file if not set.";
        Apache "ssl.clientAuth", Word(&["need", "want", "none"]), "need",
            "Whether clients show a certificate.";
        Apache "ssl.hostnameVerification", TRUE_FALSE, "true",
            "Whether `ssl.clientHostnameVerification` counts. No other effect: it concerns clients, and the server opens no connection as one.";
        Apache "ssl.protocol", Text, "",
            "`TLSv1.2`, `TLSv1.3` or `TLS` for both; both if not set.";
        Apache "ssl.enabledProtocols", Text, "",
            "The same as a list; goes before `ssl.protocol`.";
        Apache "ssl.ciphersuites", Text, "",
            "Cipher suites in Java's names, with commas; all safe ones if not set.";
        Apache "ssl.authProvider", Only(&["x509"], "there is no other"), "x509",
            "The scheme that certificates authenticate.";
        Apache "ssl.clientHostnameVerification", TRUE_FALSE, "false",
            "Whether the certificate of a client must name its address. Only with `ssl.hostnameVerification`.";
        Apache "ssl.allowReverseDnsLookup", Only(&["false"], REVERSE_DNS), "false",
            "Whether the certificate may name the host of that address instead.";
        Apache "ssl.crl", TRUE_FALSE, "false",
            "Whether certificates of clients are looked up in lists of revoked ones. Apache's server fetches these lists; Pole reads `pole.ssl.crlFile`.";
        Pole "pole.ssl.crlFile", Text, "",
            "Lists of revoked certificates (CRLs), as PEM or DER: one of each authority that signs clients. Read again when it changes.";
        Apache "ssl.ocsp", Only(&["false"], OCSP), "false",
            "Questions after revoked certificates.";
        Apache "ssl.handshakeDetectionTimeoutMillis", MS, "5000" => handshake_timeout_ms: u64 = Values::count,
            "Milliseconds for the TLS handshake of a client.";
        Apache "client.portUnification", Only(&["false"], "use clientPort and secureClientPort side by side"), "false",
            "TLS and plain text on one port.";
        Apache "sslQuorum", TRUE_FALSE, "false" => between_servers: bool = Values::bool,
            "Whether servers talk to each other over TLS, both showing certificates.";
        Apache "portUnification", Only(&["false"], "plain text beside TLS is not accepted between servers"), "false",
            "TLS and plain text between servers.";
        Apache "client.certReload", TRUE_FALSE, "false" => reload_for_clients: bool = Values::bool,
            "Whether the stores for clients are opened again when their files change. New connections then have the new certificates.";
        Apache "sslQuorumReloadCertFiles", TRUE_FALSE, "false" => reload_between_servers: bool = Values::bool,
            "The same for those between servers.";
        Apache "ssl.quorum.keyStore.location", Text, "",
            "Key and certificates of this server for the others.";
        Apache "ssl.quorum.keyStore.password", Hidden, "",
            "Its password.";
        Apache "ssl.quorum.keyStore.passwordPath", Text, "",
            "A file with its password; goes before the password.";
        Apache "ssl.quorum.keyStore.type", STORE_TYPES, "",
            "Its format; by the ending of the file if not set.";
        Apache "ssl.quorum.trustStore.location", Text, "",
            "Certificates of the authorities that sign servers.";
        Apache "ssl.quorum.trustStore.password", Hidden, "",
            "Its password.";
        Apache "ssl.quorum.trustStore.passwordPath", Text, "",
            "A file with its password; goes before the password.";
        Apache "ssl.quorum.trustStore.type", STORE_TYPES, "",
            "Its format; by the ending of the file if not set.";
        Apache "ssl.quorum.clientAuth", Only(&["need"], "servers always show certificates to each other"), "need",
            "Whether servers show certificates.";
        Apache "ssl.quorum.hostnameVerification", TRUE_FALSE, "true",
            "Whether a server's certificate must name its host.";
        Apache "ssl.quorum.protocol", Text, "",
            "As `ssl.protocol`.";
        Apache "ssl.quorum.enabledProtocols", Text, "",
            "As `ssl.enabledProtocols`.";
        Apache "ssl.quorum.ciphersuites", Text, "",
            "As `ssl.ciphersuites`.";
        Apache "ssl.quorum.clientHostnameVerification", TRUE_FALSE, "true",
            "The same for a server that connects: its certificate must name the host of its `server.N` line. Only with `ssl.quorum.hostnameVerification`.";
        Apache "ssl.quorum.allowReverseDnsLookup", Only(&["false"], REVERSE_DNS), "false",
            "Whether the certificate may name the host of its address instead.";
        Apache "ssl.quorum.crl", TRUE_FALSE, "false",
            "Whether certificates of servers are looked up in lists of revoked ones. Apache's server fetches these lists; Pole reads `pole.ssl.quorum.crlFile`.";
        Pole "pole.ssl.quorum.crlFile", Text, "",
            "Lists of revoked certificates (CRLs), as PEM or DER: one of each authority that signs servers. Read again when it changes.";
        Apache "ssl.quorum.ocsp", Only(&["false"], OCSP), "false",
            "Questions after revoked certificates.";
        Apache "ssl.context.supplier.class", Only(&[], "classes of Java cannot be loaded"), "", "Apache's class that makes the TLS context.";
        Apache "ssl.quorum.context.supplier.class", Only(&[], "classes of Java cannot be loaded"), "", "The same between servers.";
        Apache "ssl.quorum.handshakeDetectionTimeoutMillis", Unused("links between servers have time limits of their own"), "", "Milliseconds to tell TLS from plain text.";
        Apache "fips-mode", Unused("certificates are checked by the rules of the TLS library alone"), "", "Whether Apache checks host names with classes of its own.";
        /// `ssl.*`, for `secureClientPort`.
        + clients: TlsSettings = TlsSettings::default();
        /// `ssl.quorum.*`.
        + peers: TlsSettings = TlsSettings::default();
    }
    /// The admin server and metrics.
    "Admin and metrics": Admin {
        Apache "admin.enableServer", TRUE_FALSE, "true",
            "Whether there is an admin server.";
        Apache "admin.serverAddress", Text, "127.0.0.1",
            "Its address. Apache's default is all addresses.";
        Apache "admin.serverPort", PORT, "8080",
            "Its port; 0: any free one. If taken, the server warns and goes on.";
        Apache "admin.commandURL", Only(&["/commands"], "tools know it by this name"), "/commands",
            "Where the commands are.";
        Apache "admin.idleTimeout", Unused("a connection is closed after its answer"), "",
            "Milliseconds before an idle connection is closed.";
        Apache "admin.portUnification", TRUE_FALSE, "false" => port_unification: bool = Values::bool,
            "Whether the admin port takes HTTPS beside HTTP, with the certificate of `ssl.quorum.keyStore` or else of `ssl.keyStore`.";
        Apache "admin.snapshot.enabled", TRUE_FALSE, "true" => snapshot_enabled: bool = Values::bool,
            "Whether the command `snapshot` sends a backup.";
        Apache "admin.restore.enabled", TRUE_FALSE, "true" => restore_enabled: bool = Values::bool,
            "Whether the command `restore` takes one.";
        Apache "admin.rateLimiterIntervalInMS", Number(0, 86_400_000), "300000" => rate_limit_ms: u64 = Values::count,
            "Milliseconds between two of each of these commands at least; 0: no limit.";
        Apache "serializeLastProcessedZxid.enabled", Unused("a backup always contains its last transaction"), "",
            "Whether a snapshot contains its last transaction.";
        Apache "metricsProvider.className", Unused("metrics are always there for Prometheus"), "",
            "Apache's class of metrics.";
        Apache "metricsProvider.httpHost", Text, "127.0.0.1",
            "The address of the port below. Apache's default is all addresses.";
        Apache "metricsProvider.httpPort", PORT, "0",
            "A port that serves `/metrics` too; 0: only the admin server does.";
        Apache "metricsProvider.exportJvmInfo", Unused(JVM), "",
            "Metrics of the JVM.";
        Apache "jvm.pause.monitor", Unused(JVM), "",
            "The watch over pauses of the JVM.";
        Apache "jvm.pause.info-threshold.ms", Unused(JVM), "",
            "The watch over pauses of the JVM.";
        Apache "jvm.pause.warn-threshold.ms", Unused(JVM), "",
            "The watch over pauses of the JVM.";
        Apache "jvm.pause.sleep.time.ms", Unused(JVM), "",
            "The watch over pauses of the JVM.";
        Apache "audit.enable", TRUE_FALSE, "false" => audit: bool = Values::bool,
            "Whether every change that a client asks for is written to the audit log.";
        Apache "audit.impl.class", Unused("Pole writes the log itself, to a file"), "",
            "Apache's class that writes it.";
        Apache "admin.forceHttps", Only(&["false"], "the port takes both with admin.portUnification; keep it on loopback, or behind a proxy"), "false", "Whether the admin server refuses HTTP.";
        Apache "admin.needClientAuth", Only(&["false"], "callers from elsewhere show pole.admin.token"), "false", "Whether callers show certificates.";
        Apache "admin.httpVersion", Unused("HTTP 1.1 is spoken, which every client knows"), "", "The version of HTTP.";
        Apache "metricsProvider.numWorkerThreads", Unused(THREADS), "", "Threads of Apache's metrics.";
        Apache "metricsProvider.maxQueueSize", Unused(THREADS), "", "Memory of Apache's metrics.";
        Apache "metricsProvider.workerShutdownTimeoutMs", Unused(THREADS), "", "Threads of Apache's metrics.";
        Apache "jmx.log4j.disable", Unused(JVM), "", "Whether the log is shown in JMX.";
        Apache "jmx.log4j.mbean", Unused(JVM), "", "Its name there.";
        Pole "pole.audit.file", Text, ""
            => audit_file: PathBuf = |values, key| values.path(key).unwrap_or_else(|| values.path("dataDir").unwrap_or_default().join("zookeeper_audit.log")),
            "The file of the audit log; `zookeeper_audit.log` in `dataDir` if not set.";
        Pole "pole.audit.fileBytesMax", Number(4_096, 1 << 40), "10485760" => audit_file_bytes_max: u64 = Values::count,
            "Bytes after which the file is renamed, `.1` added to its name, and a new one begun.";
        Pole "pole.audit.filesMax", Number(1, 10_000), "10" => audit_files_max: u64 = Values::count,
            "Files of the audit log that are kept, the present one included.";
        Pole "pole.admin.token", Hidden, "" => token: Option<Secret> = Values::secret,
            "What a caller from elsewhere than loopback must show to change something.";
        Pole "pole.admin.actions", TRUE_FALSE, "false" => actions: bool = Values::bool,
            "Whether the dashboard may change something: switch the oracle, transfer leadership.";
        Pole "pole.admin.hosts", Text, "" => hosts: Option<String> = Values::owned,
            "Host names, with commas, by which a browser may open the dashboard. Addresses, `localhost`, `admin.serverAddress` and the hosts of `server.N` are known anyway.";
        /// `admin.serverAddress` and `admin.serverPort` (0 for any free one); `None` if `admin.enableServer` is false.
        + address: Option<Address> = None;
        /// `metricsProvider.httpHost` and `metricsProvider.httpPort`.
        + metrics: Option<Address> = None;
    }
    /// Pole's own settings: elections, measurements, resignation.
    "Pole's own": Pole {
        Pole "pole.oracle", Text, "history" => oracle: String = |values, key| values.owned(key).unwrap_or_default(),
            "Who would lead best: `history`, `request`, `consensus`, `latency`, `worst-case`, `rotating`, `preference`, `recovery`, `combined` or `custom`. The initial value; a change at run time goes before. In a table of `pole.toml`: `name`.";
        Pole "pole.oracle.preference", Text, "" => preference: Option<String> = Values::owned,
            "For `preference`: `3,1,2`, or weights `3:10,1:5` (higher first; 0: never).";
        Pole "pole.oracle.combined", Text, "" => combined: Option<String> = Values::owned,
            "For `combined`: oracles in order, with classes: `latency/10ms,recovery/50ms,history`.";
        Pole "pole.oracle.rateHalfLifeMs", MS, "10000" => rate_half_life_ms: u64 = Values::count,
            "Milliseconds after which an old request counts half in the request rate.";
        Pole "pole.heartbeatMs", Number(10, 3_600_000), "1000" => heartbeat_ms: u64 = Values::count,
            "Milliseconds between measurements.";
        Pole "pole.livenessMs", Number(1, 3_600_000), "50" => liveness_ms: u64 = Values::count,
            "Milliseconds between signs of life that leader and followers send each other.";
        Pole "pole.livenessTimeoutMs", Number(2, 3_600_000), "400" => liveness_timeout_ms: u64 = Values::count,
            "Silence, in milliseconds, after which a peer is given up; on a link whose round trip exceeds two fifths of it, half of it and five quarters of the round trip. A link may become slower by the difference to `pole.livenessMs` at once without that anybody is given up.";
        Pole "pole.electionTimeoutMs", Number(1, 3_600_000), "200" => election_timeout_ms: u64 = Values::count,
            "Milliseconds that an election waits for the silent.";
        Pole "pole.firstScoreWaitMs", Number(0, 3_600_000), "100" => first_score_wait_ms: u64 = Values::count,
            "Milliseconds that the first election waits for measurements.";
        Pole "pole.patienceMs", Number(0, 86_400_000), "10000" => patience_ms: u64 = Values::count,
            "Milliseconds that clients are kept without a leader.";
        Pole "pole.directAcks", Word(&["auto", "on", "off"]), "auto"
            => direct_acks: Option<Span> = |values, key| match values.word(key) {
                Some("on") => Some(Span::ZERO),
                Some("off") => None,
                _ => Some(DIRECT_ACKS_MARGIN),
            },
            "Whether a follower that forwarded a write is told by every server that has it on disk, so that it need not wait for the leader to announce the commit. `auto`: where the measured round trips say that its clients gain more than a millisecond; `on`: where they gain anything. The leader's setting counts, and the oracles score a server with its own.";
        Pole "pole.observerDelayMs", Number(0, 1_000), "10" => observer_delay_ms: u64 = Values::count,
            "Milliseconds that proposals and commits to an observer wait for others, unless its own clients write. An observer then costs the leader and its disk little at any rate of writes, and its clients see changes that much later. 0: they are sent at once.";
        Pole "pole.diffRetainMb", Number(1, 65_536), "32" => diff_retain_mb: u64 = Values::count,
            "Megabytes of log kept in memory to bring others level.";
        Pole "pole.awakeMs", Unused( "no thread keeps a processor busy between writes any more; this key is refused from the next release on", ), "",
            "Milliseconds that a processor waited awake for the next write.";
        Pole "pole.peer.secret", Text, "" => peer_secret: Option<PathBuf> = Values::path,
            "File with a secret of 16 to 4096 bytes, the same for all servers (`openssl rand -hex 32`): on the ports for other servers only who knows it is let in. Without it and without `sslQuorum` anybody who reaches these ports can pass for a server whose link is down.";
        Pole "pole.resign", Bool("on", "off"), "on" => resign: bool = Values::bool,
            "Whether a leader gives way to a better one. In a table of `pole.toml`: `enabled`.";
        Pole "pole.resign.marginPercent", Number(0, 10_000), "10" => resign_margin_percent: u64 = Values::count,
            "Percent by which the other must be better.";
        Pole "pole.resign.marginMs", Number(0, 3_600_000), "1" => resign_margin_ms: u64 = Values::count,
            "And milliseconds, where the oracle scores waiting.";
        Pole "pole.resign.holdMs", Number(0, 86_400_000), "10000" => resign_hold_ms: u64 = Values::count,
            "Milliseconds that it must stay better.";
        Pole "pole.resign.cooldownMs", Number(0, 86_400_000), "60000" => resign_cooldown_ms: u64 = Values::count,
            "Milliseconds between two resignations; grows.";
        Pole "pole.resign.maxPerHour", Number(0, 3_600), "6" => resign_max_per_hour: u64 = Values::count,
            "Resignations in an hour at most.";
        Pole "pole.trustBlank", TRUE_FALSE, "false" => trust_blank: bool = Values::bool,
            "Whether this server, if it has no history, votes as if it never had one. For an ensemble that lost a server for good before its first write. If its disk was wiped instead, acknowledged writes can be lost: warns at every start.";
        Pole "pole.topology", Text, "",
            "A topology file whose delays are put on the links to other servers. For tests: warns at the start.";
        Pole "pole.site", Text, "" => site: Option<String> = Values::owned,
            "The site of this server, for display and for the topology.";
        Pole "pole.log", Word(&["text", "json"]), "text"
            => log_json: bool = |values, key| values.word(key) == Some("json"),
            "The form of the log.";
        Pole "pole.logFilter", Text, "warn,pole=info"
            => log_filter: Filter = |values, key| values.text(key).and_then(|text| text.parse().ok()).unwrap_or_default(),
            "Which events are logged, as in `RUST_LOG`: levels (`off`, `error`, `warn`, `info`, `debug`, `trace`) for targets, with commas: `pole::client=debug,pole::peer=error`. Targets that are not named keep the default; a level alone replaces it for all. See docs/admin.md.";
        /// `pole.topology`.
        + emulation: Option<Emulation> = None;
    }
}
