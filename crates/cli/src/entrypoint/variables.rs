//! The variables of the official ZooKeeper image, and some of Pole's own.
//!
//! ```text
//! ZOO_MY_ID                      the id of this server; 1 if not set
//! ZOO_SERVERS                    server.1=a:2888:3888;2181 server.2=…, with white space
//! ZOO_TICK_TIME, …               one setting each, with the defaults of the image
//! ZOO_4LW_COMMANDS_WHITELIST     4lw.commands.whitelist
//! ZOO_CFG_EXTRA                  more lines, with white space
//! JVMFLAGS, SERVER_JVMFLAGS      of these, what begins with -Dzookeeper. or -Djute.
//! ZOO_CONF_DIR, ZOO_DATA_DIR, ZOO_DATA_LOG_DIR
//! POLE_ORACLE, POLE_SITE, POLE_ADMIN_ADDRESS, POLE_ADMIN_TOKEN
//!                                one setting each
//! POLE_SITES                     the sites of servers 1, 2, …, with commas
//! POLE_ID_FROM_HOSTNAME=true     the id is one more than the number at the end of the host's name
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

pub(super) struct Variables(BTreeMap<String, String>);

impl Variables {
    pub(super) fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(text).collect())
    }

    /// A variable that is set and not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    pub(super) fn folder(&self, name: &str) -> PathBuf {
        let default = FOLDERS.iter().find(|(folder, _)| *folder == name).map_or("", |(_, default)| default);
        self.get(name).unwrap_or(default).into()
    }

    /// The id of this server.
    pub(super) fn id(&self) -> Result<u64, String> {
        if let Some(text) = self.get("ZOO_MY_ID") {
            return text.parse().map_err(|_| format!("ZOO_MY_ID={text}: expected a number"));
        }
        if self.get("POLE_ID_FROM_HOSTNAME") != Some("true") {
            return Ok(1);
        }
        let host = self.get("HOSTNAME").unwrap_or_default();
        let number = host.rsplit_once('-').and_then(|(_, number)| number.parse::<u64>().ok());
        let wrong = || format!("POLE_ID_FROM_HOSTNAME: {host} does not end in -NUMBER, as in a StatefulSet");
        number.map(|number| number + 1).ok_or_else(wrong)
    }

    /// The text of `zoo.cfg`.
    pub(super) fn configuration(&self, id: u64) -> Result<String, String> {
        let mut text = "# Written by `pole entrypoint` from the variables of the container.\n".to_owned();
        let mut line = |key: &str, value: &str| text.push_str(&format!("{key}={value}\n"));
        for (name, key, default) in SETTINGS {
            // A default gives way to the same setting in another variable.
            let default = Some(*default).filter(|default| !default.is_empty() && !self.is_set_elsewhere(key));
            if let Some(value) = self.get(name).or(default) {
                line(key, value);
            }
        }
        if let Some(site) = self.site(id) {
            line("pole.site", site);
        }
        for (number, server) in self.get("ZOO_SERVERS").unwrap_or(SERVER_DEFAULT).split_whitespace().enumerate() {
            match server.split_once('=') {
                Some((key, value)) if key.starts_with("server.") => line(key, value),
                // Without an id, servers are numbered.
                None => line(&format!("server.{}", number + 1), server),
                Some(_) => {
                    return Err(format!("ZOO_SERVERS: {server} is no server: expected server.N=host:2888:3888;2181"));
                }
            }
        }
        for extra in self.get("ZOO_CFG_EXTRA").unwrap_or_default().split_whitespace() {
            let (key, value) =
                extra.split_once('=').ok_or_else(|| format!("ZOO_CFG_EXTRA: {extra} is not KEY=VALUE"))?;
            line(key, value);
        }
        for (key, value) in self.properties() {
            line(key, value);
        }
        Ok(text)
    }

    /// Whether the extra settings, or the properties of the JVM, have this key.
    fn is_set_elsewhere(&self, key: &str) -> bool {
        let extra = self.get("ZOO_CFG_EXTRA").unwrap_or_default().split_whitespace();
        let keys = extra.filter_map(|line| line.split_once('=').map(|(key, _)| key));
        let keys = keys.chain(self.properties().map(|(key, _)| key));
        keys.into_iter().any(|found| found.strip_prefix("zookeeper.").unwrap_or(found) == key)
    }

    fn site(&self, id: u64) -> Option<&str> {
        let listed = || {
            let index = usize::try_from(id.checked_sub(1)?).ok()?;
            self.get("POLE_SITES")?.split(',').nth(index).map(str::trim)
        };
        self.get("POLE_SITE").or_else(listed).filter(|site| !site.is_empty())
    }

    /// Settings that were given to the JVM as properties.
    fn properties(&self) -> impl Iterator<Item = (&str, &str)> {
        let flags = ["JVMFLAGS", "SERVER_JVMFLAGS"].into_iter().filter_map(|name| self.get(name));
        let words = flags.flat_map(str::split_whitespace).filter_map(|flag| flag.strip_prefix("-D"));
        words
            .filter(|word| word.starts_with("zookeeper.") || word.starts_with("jute."))
            .filter_map(|w| w.split_once('='))
    }

    /// Variables that are set and that Pole has no use for.
    pub(super) fn without_effect(&self) -> impl Iterator<Item = String> {
        let set = UNUSED.iter().filter(|(name, _)| self.get(name).is_some());
        set.map(|(name, why)| format!("{name} has no effect: {why}"))
    }
}

/// Variable, setting, and the default of the image.
const SETTINGS: &[(&str, &str, &str)] = &[
    ("ZOO_DATA_DIR", "dataDir", "/data"),
    ("ZOO_DATA_LOG_DIR", "dataLogDir", "/datalog"),
    ("ZOO_TICK_TIME", "tickTime", "2000"),
    ("ZOO_INIT_LIMIT", "initLimit", "5"),
    ("ZOO_SYNC_LIMIT", "syncLimit", "2"),
    ("ZOO_AUTOPURGE_SNAPRETAINCOUNT", "autopurge.snapRetainCount", "3"),
    ("ZOO_AUTOPURGE_PURGEINTERVAL", "autopurge.purgeInterval", "0"),
    ("ZOO_MAX_CLIENT_CNXNS", "maxClientCnxns", "60"),
    ("ZOO_STANDALONE_ENABLED", "standaloneEnabled", "true"),
    ("ZOO_ADMINSERVER_ENABLED", "admin.enableServer", "true"),
    ("ZOO_4LW_COMMANDS_WHITELIST", "4lw.commands.whitelist", ""),
    ("POLE_ADMIN_ADDRESS", "admin.serverAddress", ""),
    ("POLE_ADMIN_TOKEN", "pole.admin.token", ""),
    ("POLE_ORACLE", "pole.oracle", ""),
];

const FOLDERS: [(&str, &str); 3] =
    [("ZOO_CONF_DIR", "/conf"), ("ZOO_DATA_DIR", "/data"), ("ZOO_DATA_LOG_DIR", "/datalog")];

const SERVER_DEFAULT: &str = "server.1=localhost:2888:3888;2181";

const UNUSED: &[(&str, &str)] = &[
    ("ZOO_LOG4J_PROP", "the log goes to standard error; see pole.logFilter"),
    ("ZK_SERVER_HEAP", "there is no JVM"),
    ("ZK_CLIENT_HEAP", "there is no JVM"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        Variables(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn without_variables_it_is_the_server_of_the_image() {
        let expected = "\
# Written by `pole entrypoint` from the variables of the container.
dataDir=/data
dataLogDir=/datalog
tickTime=2000
initLimit=5
syncLimit=2
autopurge.snapRetainCount=3
autopurge.purgeInterval=0
maxClientCnxns=60
standaloneEnabled=true
admin.enableServer=true
server.1=localhost:2888:3888;2181
";
        assert_eq!(variables(&[]).configuration(1).unwrap(), expected);
        assert_eq!(variables(&[("ZOO_MY_ID", "")]).id(), Ok(1));
    }

    #[test]
    fn a_default_gives_way_to_the_same_setting_elsewhere() {
        let given = variables(&[
            ("ZOO_CFG_EXTRA", "autopurge.purgeInterval=24"),
            ("JVMFLAGS", "-Dzookeeper.maxClientCnxns=0"),
            ("ZOO_TICK_TIME", "1500"),
        ]);
        let text = given.configuration(1).unwrap();
        let values = |key: &str| text.lines().filter(|line| line.contains(key)).collect::<Vec<_>>();
        assert_eq!(values("autopurge.purgeInterval="), ["autopurge.purgeInterval=24"]);
        assert_eq!(values("maxClientCnxns="), ["zookeeper.maxClientCnxns=0"]);
        assert_eq!(values("tickTime="), ["tickTime=1500"]);
    }

    #[test]
    fn every_variable_becomes_its_setting() {
        let given = variables(&[
            ("ZOO_TICK_TIME", "1500"),
            ("ZOO_SERVERS", "server.1=a:2888:3888;2181  server.2=b:2888:3888;2181\nserver.3=c:2888:3888;2181"),
            ("ZOO_4LW_COMMANDS_WHITELIST", "srvr, mntr"),
            ("ZOO_CFG_EXTRA", "metricsProvider.httpPort=7000 pole.resign=off"),
            ("JVMFLAGS", "-Xmx1g -Dzookeeper.snapCount=5 -Djute.maxbuffer=4096 -Dother=1"),
            ("POLE_ORACLE", "latency"),
            ("POLE_SITES", "north, south,"),
        ]);
        let text = given.configuration(2).unwrap();
        for line in [
            "tickTime=1500",
            "server.3=c:2888:3888;2181",
            "4lw.commands.whitelist=srvr, mntr",
            "metricsProvider.httpPort=7000",
            "pole.resign=off",
            "zookeeper.snapCount=5",
            "jute.maxbuffer=4096",
            "pole.oracle=latency",
            "pole.site=south",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in:\n{text}");
        }
        assert!(!text.contains("other"), "{text}");
        assert!(!given.configuration(3).unwrap().contains("pole.site"));
    }

    #[test]
    fn servers_without_an_id_are_numbered() {
        let text = variables(&[("ZOO_SERVERS", "a:2888:3888 b:2888:3888")]).configuration(1).unwrap();
        assert!(text.contains("\nserver.1=a:2888:3888\nserver.2=b:2888:3888\n"), "{text}");
    }

    #[test]
    fn the_id_of_a_stateful_set_is_one_more_than_its_ordinal() {
        let id = |pairs: &[(&str, &str)]| variables(pairs).id();
        assert_eq!(id(&[("POLE_ID_FROM_HOSTNAME", "true"), ("HOSTNAME", "pole-2")]), Ok(3));
        assert_eq!(id(&[("POLE_ID_FROM_HOSTNAME", "true"), ("HOSTNAME", "pole-2"), ("ZOO_MY_ID", "7")]), Ok(7));
        assert!(
            id(&[("POLE_ID_FROM_HOSTNAME", "true"), ("HOSTNAME", "pole")]).unwrap_err().contains("pole does not end")
        );
        assert!(id(&[("ZOO_MY_ID", "one")]).unwrap_err().contains("ZOO_MY_ID=one"));
    }

    #[test]
    fn what_cannot_be_understood_is_named() {
        let wrong = |name: &str, value: &str| variables(&[(name, value)]).configuration(1).unwrap_err();
        assert!(wrong("ZOO_SERVERS", "serv.1=a").contains("serv.1=a"));
        assert!(wrong("ZOO_CFG_EXTRA", "tickTime").contains("tickTime"));
        let unused: Vec<String> = variables(&[("ZK_SERVER_HEAP", "1000")]).without_effect().collect();
        assert_eq!(unused, ["ZK_SERVER_HEAP has no effect: there is no JVM"]);
    }
}
