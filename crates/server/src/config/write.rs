//! Formats the configuration: as a file, as the answer to `conf`, and as the content of `/zookeeper/config`.
//!
//! The formats are those that Apache's tools know. The file reads back equal, and Apache's server can read it too.
//! Settings with their default value are left out, where Apache has a default.

use std::fmt::Write;
use std::path::Path;

use super::keys::{KEYS, Kind};
use super::settings::{Password, Secret, Store, TlsSettings};
use super::{Address, Config, properties};

impl Config {
    /// Formats a `zoo.cfg` that reads back equal, given the same `myid` and topology. It contains the secrets.
    #[must_use]
    pub fn to_cfg(&self) -> String {
        let mut text = String::new();
        let pairs = self.pairs();
        for key in KEYS {
            let value = pairs.iter().find(|(name, _)| *name == key.name).map(|(_, value)| value.as_str());
            if let Some(value) = value.filter(|value| *value != key.default || WITHOUT_DEFAULT.contains(&key.name)) {
                let _ = writeln!(text, "{}={}", key.name, properties::escape(value));
            }
        }
        text + &self.server_lines()
    }

    /// The content of `/zookeeper/config`: the servers and the version of the list, in hexadecimal. Empty on a
    /// standalone server.
    #[must_use]
    pub fn membership(&self) -> String {
        // The list never changes at run time, so it has the first version.
        if self.ensemble.is_some() { format!("{}version=0", self.server_lines()) } else { String::new() }
    }

    /// The names and values that the four-letter word `conf` prints, in order. Sizes are in bytes.
    #[must_use]
    pub fn entries(&self, data_dir_size: u64, log_dir_size: u64) -> Vec<(&'static str, String)> {
        let port = |address: &Option<Address>| address.as_ref().map_or(-1, |address| i32::from(address.port));
        let id = self.ensemble.as_ref().map_or(0, |ensemble| ensemble.me.0);
        let mut entries = vec![
            ("clientPort", port(&self.clients.plain).to_string()),
            ("secureClientPort", port(&self.clients.secure).to_string()),
            ("dataDir", version_dir(&self.storage.data_dir)),
            ("dataDirSize", data_dir_size.to_string()),
            ("dataLogDir", version_dir(&self.storage.log_dir)),
            ("dataLogSize", log_dir_size.to_string()),
            ("tickTime", self.timing.tick_ms.to_string()),
            ("maxClientCnxns", self.clients.max_per_host.to_string()),
            ("minSessionTimeout", self.timing.min_session_timeout_ms.to_string()),
            ("maxSessionTimeout", self.timing.max_session_timeout_ms.to_string()),
            ("clientPortListenBacklog", self.clients.backlog.map_or(-1, i64::from).to_string()),
            ("serverId", id.to_string()),
        ];
        if let Some(me) = self.ensemble.as_ref().and_then(|ensemble| ensemble.servers.get(&ensemble.me)) {
            entries.extend([
                ("initLimit", self.timing.init_limit.to_string()),
                ("syncLimit", self.timing.sync_limit.to_string()),
                ("electionAlg", "3".to_owned()),
                ("electionPort", me.election_port.to_string()),
                ("quorumPort", me.quorum_port.to_string()),
                ("peerType", "0".to_owned()),
            ]);
        }
        entries
    }

    /// The complete answer to `conf`.
    #[must_use]
    pub fn conf(&self, data_dir_size: u64, log_dir_size: u64) -> String {
        let entries = self.entries(data_dir_size, log_dir_size);
        let mut text: String = entries.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
        if self.ensemble.is_some() {
            text.push_str("membership: \n");
            text.push_str(&self.membership());
        }
        text
    }

    fn server_lines(&self) -> String {
        let servers = self.ensemble.iter().flat_map(|ensemble| &ensemble.servers);
        servers.map(|(id, server)| format!("server.{id}={server}\n")).collect()
    }

    /// Every setting with its key.
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = Vec::new();
        self.client_pairs(&mut pairs);
        self.storage_pairs(&mut pairs);
        self.service_pairs(&mut pairs);
        self.tls_pairs(&mut pairs);
        self.pole_pairs(&mut pairs);
        pairs
    }

    fn client_pairs(&self, pairs: &mut Pairs) {
        let clients = &self.clients;
        if let Some(ensemble) = &self.ensemble {
            pairs.push(("standaloneEnabled", switch("standaloneEnabled", ensemble.servers.len() > 1)));
            pairs.push(("quorumListenOnAllIPs", switch("quorumListenOnAllIPs", ensemble.listen_on_all)));
        }
        let own = self.ensemble.as_ref().and_then(|ensemble| ensemble.servers.get(&ensemble.me));
        if own.is_none_or(|server| server.client.is_none()) {
            listener(pairs, &clients.plain, "clientPort", "clientPortAddress");
        }
        listener(pairs, &clients.secure, "secureClientPort", "secureClientPortAddress");
        let list = clients
            .four_letter_words
            .named
            .iter()
            .map(String::as_str)
            .chain(clients.four_letter_words.all.then_some("*"));
        pairs.extend([
            ("tickTime", self.timing.tick_ms.to_string()),
            ("initLimit", self.timing.init_limit.to_string()),
            ("syncLimit", self.timing.sync_limit.to_string()),
            ("minSessionTimeout", self.timing.min_session_timeout_ms.to_string()),
            ("maxSessionTimeout", self.timing.max_session_timeout_ms.to_string()),
            ("maxClientCnxns", clients.max_per_host.to_string()),
            ("maxCnxns", clients.max_total.to_string()),
            ("clientPortListenBacklog", clients.backlog.map_or(-1, i64::from).to_string()),
            ("globalOutstandingLimit", clients.outstanding_max.to_string()),
            ("jute.maxbuffer", clients.request_bytes_max.to_string()),
            ("pole.client.replyBytesMax", clients.reply_bytes_max.to_string()),
            ("pole.client.outputBytesMax", clients.output_bytes_max.to_string()),
            ("pole.client.watchesMax", clients.watches_max.to_string()),
            ("pole.client.identityBytesMax", clients.identity_bytes_max.to_string()),
            ("pole.client.greetingTimeoutMs", clients.greeting_timeout_ms.to_string()),
            ("pole.client.greetingsMax", clients.greetings_max.to_string()),
            ("readonlymode.enabled", switch("readonlymode.enabled", clients.read_only_mode)),
            ("4lw.commands.whitelist", list.collect::<Vec<_>>().join(",")),
        ]);
    }

    fn storage_pairs(&self, pairs: &mut Pairs) {
        let storage = &self.storage;
        if storage.log_dir != storage.data_dir {
            pairs.push(("dataLogDir", path(&storage.log_dir)));
        }
        pairs.extend([
            ("dataDir", path(&storage.data_dir)),
            ("snapCount", storage.snap_count.to_string()),
            ("snapSizeLimitInKb", storage.snap_size_limit_bytes.map_or(0, |bytes| bytes >> 10).to_string()),
            ("snapshot.trust.empty", switch("snapshot.trust.empty", storage.trust_empty_snapshot)),
            ("preAllocSize", (storage.prealloc_bytes >> 10).to_string()),
            ("autopurge.snapRetainCount", storage.snap_retain_count.to_string()),
            ("autopurge.purgeInterval", storage.purge_interval_hours.unwrap_or(0).to_string()),
            ("forceSync", switch("forceSync", storage.force_sync)),
            ("fsync.warningthresholdms", storage.fsync_warning_ms.to_string()),
        ]);
    }

    fn service_pairs(&self, pairs: &mut Pairs) {
        let (service, admin) = (&self.service, &self.admin);
        secret(pairs, "DigestAuthenticationProvider.superDigest", service.super_digest.as_ref());
        pairs.push(("pole.tree.pathBytesMax", service.path_bytes_max.to_string()));
        pairs.push(("pole.tree.ephemeralsMax", service.ephemerals_max.to_string()));
        secret(pairs, "pole.admin.token", admin.token.as_ref());
        optional(pairs, "X509AuthenticationProvider.superUser", service.x509_super_user.as_ref());
        listener(pairs, &admin.address, "admin.serverPort", "admin.serverAddress");
        listener(pairs, &admin.metrics, "metricsProvider.httpPort", "metricsProvider.httpHost");
        pairs.extend([
            ("extendedTypesEnabled", switch("extendedTypesEnabled", service.extended_types)),
            ("znode.container.checkIntervalMs", service.container_check_ms.to_string()),
            ("znode.container.maxPerMinute", service.container_max_per_minute.to_string()),
            ("enforceQuota", switch("enforceQuota", service.enforce_quota)),
            ("skipACL", switch("skipACL", service.skip_acl)),
            ("admin.enableServer", switch("admin.enableServer", admin.address.is_some())),
        ]);
    }

    fn tls_pairs(&self, pairs: &mut Pairs) {
        let clients =
            ["ssl.keyStore.location", "ssl.keyStore.type", "ssl.keyStore.password", "ssl.keyStore.passwordPath"];
        store(pairs, self.tls.clients.key_store.as_ref(), clients);
        let clients = [
            "ssl.trustStore.location",
            "ssl.trustStore.type",
            "ssl.trustStore.password",
            "ssl.trustStore.passwordPath",
        ];
        store(pairs, self.tls.clients.trust_store.as_ref(), clients);
        let peers = [
            "ssl.quorum.keyStore.location",
            "ssl.quorum.keyStore.type",
            "ssl.quorum.keyStore.password",
            "ssl.quorum.keyStore.passwordPath",
        ];
        store(pairs, self.tls.peers.key_store.as_ref(), peers);
        let peers = [
            "ssl.quorum.trustStore.location",
            "ssl.quorum.trustStore.type",
            "ssl.quorum.trustStore.password",
            "ssl.quorum.trustStore.passwordPath",
        ];
        store(pairs, self.tls.peers.trust_store.as_ref(), peers);
        let suites = |settings: &TlsSettings| settings.cipher_suites.join(",");
        let (clients, peers) = (&self.tls.clients, &self.tls.peers);
        pairs.extend([
            ("ssl.clientAuth", clients.client_auth.name().to_owned()),
            ("ssl.hostnameVerification", switch("ssl.hostnameVerification", clients.verify_host)),
            ("ssl.enabledProtocols", protocols(clients)),
            ("ssl.ciphersuites", suites(clients)),
            ("sslQuorum", switch("sslQuorum", self.tls.between_servers)),
            ("ssl.quorum.hostnameVerification", switch("ssl.quorum.hostnameVerification", peers.verify_host)),
            ("ssl.quorum.enabledProtocols", protocols(peers)),
            ("ssl.quorum.ciphersuites", suites(peers)),
            ("ssl.handshakeDetectionTimeoutMillis", self.tls.handshake_timeout_ms.to_string()),
        ]);
    }

    fn pole_pairs(&self, pairs: &mut Pairs) {
        let pole = &self.pole;
        optional(pairs, "pole.oracle.preference", pole.preference.as_ref());
        optional(pairs, "pole.oracle.combined", pole.combined.as_ref());
        optional(pairs, "pole.site", pole.site.as_ref());
        optional(pairs, "pole.topology", pole.emulation.as_ref().map(|emulation| path(&emulation.file)).as_ref());
        pairs.extend([
            ("pole.oracle", pole.oracle.clone()),
            ("pole.oracle.rateHalfLifeMs", pole.rate_half_life_ms.to_string()),
            ("pole.heartbeatMs", pole.heartbeat_ms.to_string()),
            ("pole.livenessMs", pole.liveness_ms.to_string()),
            ("pole.livenessTimeoutMs", pole.liveness_timeout_ms.to_string()),
            ("pole.electionTimeoutMs", pole.election_timeout_ms.to_string()),
            ("pole.firstScoreWaitMs", pole.first_score_wait_ms.to_string()),
            ("pole.patienceMs", pole.patience_ms.to_string()),
            ("pole.diffRetainMb", pole.diff_retain_mb.to_string()),
            ("pole.resign", switch("pole.resign", pole.resign)),
            ("pole.resign.marginPercent", pole.resign_margin_percent.to_string()),
            ("pole.resign.marginMs", pole.resign_margin_ms.to_string()),
            ("pole.resign.holdMs", pole.resign_hold_ms.to_string()),
            ("pole.resign.cooldownMs", pole.resign_cooldown_ms.to_string()),
            ("pole.resign.maxPerHour", pole.resign_max_per_hour.to_string()),
            ("pole.log", if pole.log_json { "json" } else { "text" }.to_owned()),
        ]);
        if let Some(secret) = &pole.peer_secret {
            pairs.push(("pole.peer.secret", path(secret)));
        }
    }
}

/// Apache's server does not start without these, and it must be able to read the file.
const WITHOUT_DEFAULT: [&str; 2] = ["initLimit", "syncLimit"];

type Pairs = Vec<(&'static str, String)>;

fn listener(pairs: &mut Pairs, address: &Option<Address>, port: &'static str, host: &'static str) {
    let Some(address) = address else { return };
    pairs.push((port, address.port.to_string()));
    pairs.push((host, address.host.clone()));
}

fn secret(pairs: &mut Pairs, key: &'static str, secret: Option<&Secret>) {
    optional(pairs, key, secret.map(|secret| &secret.0));
}

fn optional(pairs: &mut Pairs, key: &'static str, value: Option<&String>) {
    pairs.extend(value.map(|value| (key, value.clone())));
}

fn store(pairs: &mut Pairs, store: Option<&Store>, keys: [&'static str; 4]) {
    let Some(store) = store else { return };
    let [location, format, password, password_path] = keys;
    pairs.push((location, path(&store.location)));
    pairs.push((format, store.format.name().to_owned()));
    match &store.password {
        Password::None => {}
        Password::Given(given) => pairs.push((password, given.0.clone())),
        Password::InFile(file) => pairs.push((password_path, path(file))),
    }
}

/// Returns the default, which is empty, if both versions are enabled.
fn protocols(settings: &TlsSettings) -> String {
    match (settings.tls12, settings.tls13) {
        (true, false) => "TLSv1.2".to_owned(),
        (false, true) => "TLSv1.3".to_owned(),
        (true, true) | (false, false) => String::new(),
    }
}

/// Formats a boolean with the words of this key.
fn switch(name: &'static str, on: bool) -> String {
    let words = KEYS.iter().find(|key| key.name == name).and_then(|key| match key.kind {
        Kind::Bool(yes, no) => Some(if on { yes } else { no }),
        Kind::Number(..)
        | Kind::Text
        | Kind::Secret
        | Kind::Word(_)
        | Kind::Only(..)
        | Kind::Unused(_)
        | Kind::Family => None,
    });
    words.expect("only switches are written as switches").to_owned()
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

/// Apache prints the absolute path of the directory that holds the files.
fn version_dir(dir: &Path) -> String {
    path(&std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()).join("version-2"))
}
