//! The table of all keys: their values, defaults and meanings.
//!
//! Defaults, checks, messages, suggestions and `docs/configuration.md` all derive from this table, so they cannot
//! disagree. Tests check that every default is a valid value, and that the page in `docs` matches the table.
//!
//! Rules between keys are in `build`, the form of `server.N` in `servers`.

use std::fmt;

use Kind::{Bool, Family, Number, Only, Secret, Text, Unused, Word};
use Origin::{Apache, Pole};

/// A key of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The name in `zoo.cfg`.
    pub name: &'static str,
    /// The values that it may have.
    pub kind: Kind,
    /// The value if it is not set; empty if there is no default or it follows from other keys.
    pub default: &'static str,
    /// Whether the key is Apache's or Pole's own.
    pub origin: Origin,
    /// A sentence for the operator.
    pub meaning: &'static str,
}

/// The values that a key may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer between these two, both included.
    Number(i64, i64),
    /// A boolean, with the usual words of this key for true and false. All usual words are accepted.
    Bool(&'static str, &'static str),
    /// Any text.
    Text,
    /// Any text, which is never printed.
    Secret,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words. Anything else is refused for the given reason, because Pole does not support it and ignoring
    /// it would be misleading.
    Only(&'static [&'static str], &'static str),
    /// Accepted with a warning that says why it has no effect.
    Unused(&'static str),
    /// A prefix of keys with a suffix, which are parsed elsewhere.
    Family,
}

/// Where a key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Apache ZooKeeper, with Apache's default unless the meaning says otherwise.
    Apache,
    /// Pole.
    Pole,
}

impl fmt::Display for Kind {
    /// The allowed values, as printed in messages and in the documentation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number(min, max) => write!(f, "a whole number from {min} to {max}"),
            Bool(yes, no) => write!(f, "{yes} or {no}"),
            Text | Secret => f.write_str("any text"),
            Word(words) => f.write_str(&words.join(", ")),
            Only([], _) => f.write_str("nothing"),
            Only(words, _) => write!(f, "{} only", words.join(", ")),
            Unused(_) => f.write_str("anything; not used"),
            Family => f.write_str("see below"),
        }
    }
}

/// Finds a key by name. Also accepts its name as a Java property (with the prefix `zookeeper.`), and the name within a
/// table of `pole.toml` if a key is both a value and a table.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    let name = match name.strip_prefix("zookeeper.").unwrap_or(name) {
        "pole.oracle.name" => "pole.oracle",
        "pole.resign.enabled" => "pole.resign",
        other => other,
    };
    let exact = KEYS.iter().find(|key| key.name == name && key.kind != Family);
    exact.or_else(|| KEYS.iter().find(|key| key.kind == Family && name.starts_with(prefix(key.name))))
}

/// Whether the value of this key must not be printed.
pub(super) fn is_secret(name: &str) -> bool {
    find(name).is_some_and(|key| key.kind == Secret)
}

/// The most similar of Pole's own keys, if one is similar enough for a suggestion.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let ours = KEYS.iter().filter(|key| key.origin == Pole).map(|key| key.name);
    let (distance, nearest) = ours.map(|known| (edits(name, known), known)).min()?;
    (distance <= name.len().max(3) / 3).then_some(nearest)
}

/// The table of `docs/configuration.md`.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::from("| key | whose | default | allowed | meaning |\n| --- | --- | --- | --- | --- |\n");
    for Key { name, kind, default, origin, meaning } in KEYS {
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        let whose = match origin {
            Apache => "Apache",
            Pole => "Pole",
        };
        let why = match kind {
            Only(_, why) | Unused(why) => format!(" ({why})"),
            Number(..) | Bool(..) | Text | Secret | Word(_) | Family => String::new(),
        };
        page.push_str(&format!("| `{name}` | {whose} | {default} | {kind} | {meaning}{why} |\n"));
    }
    page
}

/// `server.` of `server.N`.
fn prefix(family: &str) -> &str {
    family.trim_end_matches('N')
}

/// The Levenshtein distance, ignoring case. Long names are truncated to bound the cost.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(!left.eq_ignore_ascii_case(right));
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

const fn key(name: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> Key {
    Key { name, kind, default, origin: Apache, meaning }
}

const fn ours(name: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> Key {
    Key { name, kind, default, origin: Pole, meaning }
}

const TRUE_FALSE: Kind = Bool("true", "false");
const YES_NO: Kind = Bool("yes", "no");
const PORT: Kind = Number(0, 65_535);
/// A count that Apache stores in a Java `int`.
const COUNT: Kind = Number(0, i32::MAX as i64);
/// Up to a day. More is a mistake, and with this limit sums of durations cannot overflow.
const MS: Kind = Number(1, 86_400_000);
const STORE_TYPES: Kind = Word(&["JKS", "PEM", "PKCS12"]);
const SASL: &str = "Pole does not speak SASL; use digest or x509";
const REVOCATION: &str = "revoked certificates are not looked up yet";
const THREADS: &str = "Pole has other threads than Apache's server";
const JVM: &str = "there is no JVM";

/// All keys, in the order of the documentation.
pub const KEYS: &[Key] = &[
    // The ensemble.
    key(
        "server.N",
        Family,
        "",
        "A server that votes: `host:quorumPort:electionPort[:participant][;[address:]clientPort]`.",
    ),
    key("dynamicConfigFile", Text, "", "A file that holds the `server.N` lines instead of this one."),
    key("standaloneEnabled", TRUE_FALSE, "true", "Whether a single `server.N` line means a server on its own."),
    key(
        "reconfigEnabled",
        Unused("the ensemble cannot be changed at run time yet, and whoever asks is told so"),
        "",
        "Changes of the ensemble at run time.",
    ),
    key(
        "electionAlg",
        Only(&["3"], "Apache removed the others too"),
        "3",
        "Apache's number of the election algorithm.",
    ),
    key("peerType", Only(&["participant"], "there are no observers yet"), "participant", "The role of this server."),
    key("group.N", Family, "", "Refused: hierarchical quorums are not supported."),
    key("weight.N", Family, "", "Refused: hierarchical quorums are not supported."),
    key("quorumListenOnAllIPs", TRUE_FALSE, "false", "Whether the quorum and election ports listen on all addresses."),
    key(
        "multiAddress.enabled",
        Only(&["false"], "a server has one address"),
        "false",
        "Several addresses for a server.",
    ),
    key(
        "oraclePath",
        Only(&[], "Pole breaks no ties of two servers by a file"),
        "",
        "Apache's tie-breaker for two servers.",
    ),
    // Time.
    key("tickTime", Number(1, 3_600_000), "3000", "Milliseconds of a tick, the unit of the limits below."),
    key(
        "initLimit",
        Number(1, 1_000_000),
        "10",
        "Ticks that a synchronisation may make no progress. Apache has no default.",
    ),
    key("syncLimit", Number(1, 1_000_000), "5", "Ticks that cap the liveness timeout. Apache has no default."),
    key(
        "connectToLearnerMasterLimit",
        Unused("a connection that fails is retried at once"),
        "",
        "Ticks to connect to the leader.",
    ),
    key(
        "minSessionTimeout",
        Number(-1, i32::MAX as i64),
        "-1",
        "Least session timeout in milliseconds; -1: two ticks.",
    ),
    key(
        "maxSessionTimeout",
        Number(-1, i32::MAX as i64),
        "-1",
        "Greatest session timeout in milliseconds; -1: twenty ticks.",
    ),
    key(
        "cnxTimeout",
        Unused("connections between servers are retried at once"),
        "",
        "Milliseconds to open an election connection.",
    ),
    // Clients.
    key("clientPort", PORT, "0", "The port for clients; 0: none."),
    key("clientPortAddress", Text, "", "The address of that port; all addresses if not set."),
    key("secureClientPort", PORT, "0", "The port for clients with TLS; 0: none."),
    key("secureClientPortAddress", Text, "", "The address of that port; all addresses if not set."),
    key("maxClientCnxns", COUNT, "60", "Connections from one address; 0: no limit."),
    key("maxCnxns", COUNT, "0", "Connections in all; 0: no limit."),
    key(
        "clientPortListenBacklog",
        Number(-1, 65_535),
        "-1",
        "Connections that may wait to be accepted; -1: the system's default.",
    ),
    key("globalOutstandingLimit", Number(1, 1_000_000), "1000", "Requests under way at most; further ones wait."),
    key(
        "jute.maxbuffer",
        Number(1_024, 1 << 30),
        "1048575",
        "Bytes of a request at most. Read from this file, unlike Apache's.",
    ),
    key("readonlymode.enabled", TRUE_FALSE, "false", "Whether a server without a quorum serves read-only clients."),
    key(
        "4lw.commands.whitelist",
        Text,
        "srvr",
        "Four-letter words that are answered, with commas; `*`: all but `rqld` and `ydld`, which have to be named.",
    ),
    key("leaderServes", Unused("the leader serves clients"), "", "Whether the leader serves clients."),
    key(
        "localSessionsEnabled",
        Unused("every session is known to the whole ensemble"),
        "",
        "Sessions that only one server knows.",
    ),
    key("localSessionsUpgradingEnabled", Unused("every session is known to the whole ensemble"), "", "Their upgrade."),
    key("tcpKeepAlive", Unused("peers watch each other by messages"), "", "Keep-alive of election connections."),
    key("serverCnxnFactory", Unused("both ports work without"), "", "The class that serves connections."),
    key("nio.numSelectorThreads", Unused(THREADS), "", "Threads of Apache's server."),
    key("nio.numWorkerThreads", Unused(THREADS), "", "Threads of Apache's server."),
    key("commitProcessor.numWorkerThreads", Unused(THREADS), "", "Threads of Apache's server."),
    key("quorum.cnxn.threads.size", Unused(THREADS), "", "Threads of Apache's server."),
    // Disk.
    key("dataDir", Text, "", "Where snapshots, `myid` and epochs are kept. Needed."),
    key("dataLogDir", Text, "", "Where the log is kept; `dataDir` if not set."),
    key("snapCount", Number(2, i32::MAX as i64), "100000", "Transactions between two snapshots."),
    key(
        "snapSizeLimitInKb",
        Number(-1, i64::MAX >> 10),
        "4194304",
        "Kilobytes of log between two snapshots, drawn anew between half of it and all of it; 0 or less: no limit.",
    ),
    key("preAllocSize", Number(64, 4_194_304), "65536", "Kilobytes by which a log file grows."),
    key("autopurge.snapRetainCount", COUNT, "3", "Snapshots that a purge leaves; at least 3."),
    key("autopurge.purgeInterval", Number(0, 100_000), "0", "Hours between purges; 0: never."),
    key("forceSync", YES_NO, "yes", "Whether a write is on the disk before it counts. `no` loses data in a power cut."),
    key("fsync.warningthresholdms", COUNT, "1000", "Milliseconds after which a slow disk is logged."),
    key("syncEnabled", Unused("there are no observers yet"), "", "Whether observers log."),
    key(
        "snapshot.trust.empty",
        TRUE_FALSE,
        "false",
        "Whether a log without any snapshot is read as the whole history, for one start. Otherwise it is refused.",
    ),
    key(
        "snapshot.compression.method",
        Unused("snapshots are written plain; plain ones are read"),
        "",
        "Compression of snapshots.",
    ),
    key("digest.enabled", Unused("Pole compares digests of its own"), "", "Apache's digest of the tree."),
    // Znodes and permissions.
    key("extendedTypesEnabled", TRUE_FALSE, "false", "Whether nodes with a time to live can be made."),
    key(
        "znode.container.checkIntervalMs",
        MS,
        "60000",
        "Milliseconds between looks for empty containers and old nodes.",
    ),
    key("znode.container.maxPerMinute", Number(1, i32::MAX as i64), "10000", "How many of them may go in a minute."),
    key("enforceQuota", TRUE_FALSE, "false", "Whether a quota refuses, or only logs."),
    key("skipACL", YES_NO, "no", "Whether permissions are not checked."),
    key("DigestAuthenticationProvider.superDigest", Secret, "", "`super:` and the digest of the superuser's password."),
    key("X509AuthenticationProvider.superUser", Text, "", "The subject of the certificate that is a superuser."),
    key(
        "authProvider.N",
        Family,
        "",
        "Apache's class of an authentication scheme. The x509 and digest ones are built in; SASL is refused.",
    ),
    key("sessionRequireClientSASLAuth", Only(&["false"], SASL), "false", "Whether clients must use SASL."),
    key("quorum.auth.enableSasl", Only(&["false"], SASL), "false", "Whether servers use SASL."),
    key(
        "enforce.auth.enabled",
        Only(&["false"], "clients without authentication cannot be refused yet"),
        "false",
        "Whether clients must authenticate.",
    ),
    key("enforce.auth.schemes", Unused("see enforce.auth.enabled"), "", "The schemes that count for it."),
    // TLS for clients.
    key("ssl.keyStore.location", Text, "", "Key and certificates of the server for clients."),
    key("ssl.keyStore.password", Secret, "", "Its password."),
    key("ssl.keyStore.passwordPath", Text, "", "A file with its password; goes before the password."),
    key("ssl.keyStore.type", STORE_TYPES, "", "Its format; by the ending of the file if not set."),
    key("ssl.trustStore.location", Text, "", "Certificates of those who sign clients."),
    key("ssl.trustStore.password", Secret, "", "Its password."),
    key("ssl.trustStore.passwordPath", Text, "", "A file with its password; goes before the password."),
    key("ssl.trustStore.type", STORE_TYPES, "", "Its format; by the ending of the file if not set."),
    key("ssl.clientAuth", Word(&["need", "want", "none"]), "need", "Whether clients show a certificate."),
    key(
        "ssl.hostnameVerification",
        TRUE_FALSE,
        "true",
        "Concerns clients that Apache's server opens; no effect on the ports of a server.",
    ),
    key("ssl.protocol", Text, "", "`TLSv1.2`, `TLSv1.3` or `TLS` for both; both if not set."),
    key("ssl.enabledProtocols", Text, "", "The same as a list; goes before `ssl.protocol`."),
    key("ssl.ciphersuites", Text, "", "Cipher suites in Java's names, with commas; all safe ones if not set."),
    key("ssl.authProvider", Only(&["x509"], "there is no other"), "x509", "The scheme that certificates authenticate."),
    key("ssl.crl", Only(&["false"], REVOCATION), "false", "Lists of revoked certificates."),
    key("ssl.ocsp", Only(&["false"], REVOCATION), "false", "Questions after revoked certificates."),
    key("ssl.handshakeDetectionTimeoutMillis", MS, "5000", "Milliseconds for the TLS handshake of a client."),
    key(
        "client.portUnification",
        Only(&["false"], "use clientPort and secureClientPort side by side"),
        "false",
        "TLS and plain text on one port.",
    ),
    // TLS between servers.
    key("sslQuorum", TRUE_FALSE, "false", "Whether servers talk to each other over TLS, both showing certificates."),
    key(
        "portUnification",
        Only(&["false"], "plain text beside TLS is not accepted between servers"),
        "false",
        "TLS and plain text between servers.",
    ),
    key(
        "sslQuorumReloadCertFiles",
        Unused("certificates are read at the start"),
        "",
        "Whether changed certificates are read again.",
    ),
    key("ssl.quorum.keyStore.location", Text, "", "Key and certificates of this server for the others."),
    key("ssl.quorum.keyStore.password", Secret, "", "Its password."),
    key("ssl.quorum.keyStore.passwordPath", Text, "", "A file with its password; goes before the password."),
    key("ssl.quorum.keyStore.type", STORE_TYPES, "", "Its format; by the ending of the file if not set."),
    key("ssl.quorum.trustStore.location", Text, "", "Certificates of those who sign servers."),
    key("ssl.quorum.trustStore.password", Secret, "", "Its password."),
    key("ssl.quorum.trustStore.passwordPath", Text, "", "A file with its password; goes before the password."),
    key("ssl.quorum.trustStore.type", STORE_TYPES, "", "Its format; by the ending of the file if not set."),
    key(
        "ssl.quorum.clientAuth",
        Only(&["need"], "servers always show certificates to each other"),
        "need",
        "Whether servers show certificates.",
    ),
    key("ssl.quorum.hostnameVerification", TRUE_FALSE, "true", "Whether a server's certificate must name its host."),
    key("ssl.quorum.protocol", Text, "", "As `ssl.protocol`."),
    key("ssl.quorum.enabledProtocols", Text, "", "As `ssl.enabledProtocols`."),
    key("ssl.quorum.ciphersuites", Text, "", "As `ssl.ciphersuites`."),
    key("ssl.quorum.crl", Only(&["false"], REVOCATION), "false", "Lists of revoked certificates."),
    key("ssl.quorum.ocsp", Only(&["false"], REVOCATION), "false", "Questions after revoked certificates."),
    // Admin and metrics.
    key("admin.enableServer", TRUE_FALSE, "true", "Whether there is an admin server."),
    key("admin.serverAddress", Text, "127.0.0.1", "Its address. Apache's default is all addresses."),
    key("admin.serverPort", PORT, "8080", "Its port; 0: any free one. If taken, the server warns and goes on."),
    key("admin.commandURL", Only(&["/commands"], "tools know it by this name"), "/commands", "Where the commands are."),
    key(
        "admin.idleTimeout",
        Unused("a connection is closed after its answer"),
        "",
        "Milliseconds before an idle connection is closed.",
    ),
    key(
        "admin.portUnification",
        Only(&["false"], "the admin server speaks plain HTTP"),
        "false",
        "TLS on the admin port.",
    ),
    key(
        "metricsProvider.className",
        Unused("metrics are always there for Prometheus"),
        "",
        "Apache's class of metrics.",
    ),
    key(
        "metricsProvider.httpHost",
        Text,
        "127.0.0.1",
        "The address of the port below. Apache's default is all addresses.",
    ),
    key("metricsProvider.httpPort", PORT, "0", "A port that serves `/metrics` too; 0: only the admin server does."),
    key("metricsProvider.exportJvmInfo", Unused(JVM), "", "Metrics of the JVM."),
    key("jvm.pause.monitor", Unused(JVM), "", "The watch over pauses of the JVM."),
    key("jvm.pause.info-threshold.ms", Unused(JVM), "", "The watch over pauses of the JVM."),
    key("jvm.pause.warn-threshold.ms", Unused(JVM), "", "The watch over pauses of the JVM."),
    key("jvm.pause.sleep.time.ms", Unused(JVM), "", "The watch over pauses of the JVM."),
    // Pole's own.
    ours(
        "pole.oracle",
        Text,
        "history",
        "Who would lead best: `history`, `request`, `consensus`, `latency`, `worst-case`, `rotating`, `preference`, `recovery`, `combined` or `custom`. The initial value; a change at run time goes before. In a table of `pole.toml`: `name`.",
    ),
    ours(
        "pole.oracle.preference",
        Text,
        "",
        "For `preference`: `3,1,2`, or weights `3:10,1:5` (higher first; 0: never).",
    ),
    ours(
        "pole.oracle.combined",
        Text,
        "",
        "For `combined`: oracles in order, with classes: `latency/10ms,recovery/50ms,history`.",
    ),
    ours(
        "pole.oracle.rateHalfLifeMs",
        MS,
        "10000",
        "Milliseconds after which an old request counts half in the request rate.",
    ),
    ours("pole.heartbeatMs", Number(10, 3_600_000), "1000", "Milliseconds between measurements."),
    ours(
        "pole.livenessMs",
        Number(1, 3_600_000),
        "50",
        "Milliseconds between signs of life that leader and followers send each other.",
    ),
    ours(
        "pole.livenessTimeoutMs",
        Number(2, 3_600_000),
        "400",
        "Silence, in milliseconds, after which a peer is given up; on a link whose round trip exceeds two fifths of it, half of it and five quarters of the round trip. A link may become slower by the difference to `pole.livenessMs` at once without that anybody is given up.",
    ),
    ours("pole.electionTimeoutMs", Number(1, 3_600_000), "200", "Milliseconds that an election waits for the silent."),
    ours(
        "pole.firstScoreWaitMs",
        Number(0, 3_600_000),
        "100",
        "Milliseconds that the first election waits for measurements.",
    ),
    ours(
        "pole.client.replyBytesMax",
        Number(65_536, 1 << 30),
        "16777216",
        "Bytes of a reply. A read that needs more is answered with MarshallingError (-5).",
    ),
    ours(
        "pole.client.outputBytesMax",
        Number(1 << 20, 1 << 40),
        "268435456",
        "Bytes that all clients of a server together may leave unread. Beyond that, connections with more than 1 MB unread are closed.",
    ),
    ours(
        "pole.client.identityBytesMax",
        Number(256, 1 << 20),
        "8192",
        "Bytes of the identities of one connection (addAuth, certificate). They travel with every write; beyond the limit authentication fails.",
    ),
    ours(
        "pole.client.greetingTimeoutMs",
        Number(100, 3_600_000),
        "10000",
        "Milliseconds from an accepted connection to its whole first request, TLS handshake included.",
    ),
    ours(
        "pole.client.greetingsMax",
        Number(1, 1_000_000),
        "1000",
        "Connections whose first request has not arrived. When there is one more, the oldest is closed.",
    ),
    ours(
        "pole.client.watchesMax",
        Number(1, 100_000_000),
        "500000",
        "Paths that one connection may watch; a further watch is refused with QuotaExceeded (-125). A watch takes about 200 bytes.",
    ),
    ours(
        "pole.tree.pathBytesMax",
        Number(256, 1 << 20),
        "16384",
        "Bytes of a path that may be created; longer ones are answered with BadArguments (-8). Existing nodes are served.",
    ),
    ours(
        "pole.tree.ephemeralsMax",
        Number(1, 10_000_000),
        "50000",
        "Ephemeral nodes of one session; a further one is answered with QuotaExceeded (-125). They are deleted together.",
    ),
    ours("pole.patienceMs", Number(0, 86_400_000), "10000", "Milliseconds that clients are kept without a leader."),
    ours("pole.diffRetainMb", Number(1, 65_536), "32", "Megabytes of log kept in memory to bring others level."),
    ours(
        "pole.awakeMs",
        Unused(
            "no thread keeps a processor busy between writes any more; this key is refused from the next release on",
        ),
        "",
        "Milliseconds that a processor waited awake for the next write.",
    ),
    ours(
        "pole.peer.secret",
        Text,
        "",
        "File with a secret of 16 to 4096 bytes, the same for all servers (`openssl rand -hex 32`): on the ports for other servers only who knows it is let in. Without it and without `sslQuorum` anybody who reaches these ports can pass for a server whose link is down.",
    ),
    ours(
        "pole.resign",
        Bool("on", "off"),
        "on",
        "Whether a leader gives way to a better one. In a table of `pole.toml`: `enabled`.",
    ),
    ours("pole.resign.marginPercent", Number(0, 10_000), "10", "Percent by which the other must be better."),
    ours("pole.resign.marginMs", Number(0, 3_600_000), "1", "And milliseconds, where the oracle scores waiting."),
    ours("pole.resign.holdMs", Number(0, 86_400_000), "10000", "Milliseconds that it must stay better."),
    ours("pole.resign.cooldownMs", Number(0, 86_400_000), "60000", "Milliseconds between two resignations; grows."),
    ours("pole.resign.maxPerHour", Number(0, 3_600), "6", "Resignations in an hour at most."),
    ours(
        "pole.topology",
        Text,
        "",
        "A topology file whose delays are put on the links to other servers. For tests: warns at the start.",
    ),
    ours("pole.site", Text, "", "The site of this server, for display and for the topology."),
    ours("pole.admin.token", Secret, "", "What a caller from elsewhere than loopback must show to change something."),
    ours("pole.log", Word(&["text", "json"]), "text", "The form of the log."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_stands_twice() {
        let mut names: Vec<_> = KEYS.iter().map(|key| key.name).collect();
        names.sort_unstable();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None);
    }

    #[test]
    fn a_key_is_found_under_its_other_names() {
        assert_eq!(find("zookeeper.extendedTypesEnabled").unwrap().name, "extendedTypesEnabled");
        assert_eq!(find("pole.oracle.name").unwrap().name, "pole.oracle");
        assert_eq!(find("server.12").unwrap().name, "server.N");
        assert!(find("servers").is_none());
    }

    #[test]
    fn a_slip_finds_the_key_that_was_meant() {
        assert_eq!(nearest("pole.hearbeatMs"), Some("pole.heartbeatMs"));
        assert_eq!(nearest("pole.resign.margin"), Some("pole.resign.marginMs"));
        assert_eq!(nearest("pole.zzzzzzzzzzzzzzzzzzzzzz"), None);
    }
}
