//! Formats the configuration: as a file, as the answer to `conf`, and as the content of `/zookeeper/config`.
//!
//! The formats are those that Apache's tools know, and `pole.toml`. A file reads back equal, and Apache's server can read
//! a `zoo.cfg` too. Settings with their default value are left out, where Apache has a default.

use std::path::Path;

use super::{Address, Config, Ensemble, MemberRole, keys, properties, toml};

impl Config {
    /// Formats a `zoo.cfg` that reads back equal, given the same `myid` and topology. It contains the secrets.
    #[must_use]
    pub fn to_cfg(&self) -> String {
        let lines = self.written.0.iter().map(|(key, value)| format!("{key}={}\n", properties::escape(value)));
        lines.collect()
    }

    /// Formats a `pole.toml` that reads back equal, like [`Config::to_cfg`].
    #[must_use]
    pub fn to_toml(&self) -> String {
        self.written.0.iter().map(|(key, value)| toml::line(key, value)).collect()
    }

    /// The settings that differ from their defaults, without the secrets.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (&str, &str)> {
        let shown = self.written.0.iter().filter(|(key, _)| !keys::is_secret(key));
        shown.map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The content of `/zookeeper/config` as long as the servers were not changed at run time: the servers and the version
    /// of the list, in hexadecimal. Empty on a standalone server.
    #[must_use]
    pub fn membership(&self) -> String {
        let describe = |ensemble: &Ensemble| ensemble.members.description(ensemble.members_version);
        self.ensemble.as_ref().map(describe).unwrap_or_default()
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
        if let Some(me) = self.ensemble.as_ref().and_then(|ensemble| ensemble.members.servers.get(&ensemble.me)) {
            entries.extend([
                ("initLimit", self.timing.init_limit.to_string()),
                ("syncLimit", self.timing.sync_limit.to_string()),
                ("electionAlg", "3".to_owned()),
                ("electionPort", me.election_port.to_string()),
                ("quorumPort", me.quorum_port.to_string()),
                ("peerType", u8::from(me.role == MemberRole::Observer).to_string()),
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
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

/// Apache prints the absolute path of the directory that holds the files.
fn version_dir(dir: &Path) -> String {
    path(&std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()).join("version-2"))
}
