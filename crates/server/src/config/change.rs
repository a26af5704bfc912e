//! Compares two configurations: what differs, and what it takes until the difference has effect.
//!
//! A server reads its file once, at the start, so every change needs a restart. Some need more: servers that differ in a
//! setting of the links do not reach each other, and a directory that is renamed in the file does not move by itself.

use std::collections::BTreeMap;
use std::fmt;

use super::Config;
use super::keys::{self, KEYS};

/// A setting that differs between two configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key, as in `zoo.cfg`.
    pub key: String,
    /// The old value, or the default; `None` if there is neither. A placeholder for a secret.
    pub before: Option<String>,
    /// The new value, likewise.
    pub after: Option<String>,
    /// What the change needs.
    pub effect: Effect,
}

/// What a change needs to have effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A restart of the server whose file it is.
    Restart,
    /// The same change on all servers, and a restart of one after the other.
    RestartEach,
    /// The same change on all servers, which are all stopped before the first one starts again.
    RestartTogether,
    /// A restart, before which files have to be moved.
    MoveFiles,
    /// A restart, and clients or tools that use the new address.
    NewAddress,
    /// A restart only if nothing else was chosen at run time.
    InitialValue,
}

impl Effect {
    /// Its name in the output of commands.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::RestartEach => "restart-each",
            Self::RestartTogether => "restart-together",
            Self::MoveFiles => "move-files",
            Self::NewAddress => "new-address",
            Self::InitialValue => "initial-value",
        }
    }

    fn of(key: &str) -> Self {
        match key {
            "sslQuorum" | "pole.peer.secret" => Self::RestartTogether,
            key if key.starts_with("server.") => Self::RestartTogether,
            "dataDir" | "dataLogDir" => Self::MoveFiles,
            "clientPort"
            | "clientPortAddress"
            | "secureClientPort"
            | "secureClientPortAddress"
            | "admin.serverPort"
            | "admin.serverAddress"
            | "admin.enableServer"
            | "metricsProvider.httpPort"
            | "metricsProvider.httpHost" => Self::NewAddress,
            "pole.oracle" | "pole.oracle.preference" | "pole.oracle.combined" => Self::InitialValue,
            // The leader checks requests for all servers, and each server what it receives from the others.
            "jute.maxbuffer"
            | "extendedTypesEnabled"
            | "enforceQuota"
            | "skipACL"
            | "tickTime"
            | "DigestAuthenticationProvider.superDigest"
            | "X509AuthenticationProvider.superUser"
            | "superUser"
            | "SASLAuthenticationProvider.superPassword"
            | "allowSaslFailedClients"
            | "sessionRequireClientSASLAuth"
            | "enforce.auth.enabled"
            | "enforce.auth.schemes"
            | "sasl.serverconfig"
            | "pole.sasl.usersFile"
            | "pole.sasl.jaasFile"
            | "pole.tree.pathBytesMax"
            | "pole.tree.depthMax"
            | "pole.tree.ephemeralsMax"
            | "pole.oracle.rateHalfLifeMs"
            | "pole.topology" => Self::RestartEach,
            _ => Self::Restart,
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Restart => "restart this server",
            Self::RestartEach => "make the same change on all servers, and restart one after the other",
            Self::RestartTogether => {
                "servers with the old and with the new value do not work together: make the same change on all \
                 servers, stop them all, then start them"
            }
            Self::MoveFiles => {
                "stop this server, move its files to the new directory, then start it: in an empty directory it has no \
                 history"
            }
            Self::NewAddress => "restart this server, and update clients and servers that use the old address",
            Self::InitialValue => {
                "the value for an ensemble on which none was chosen at run time: change it on all servers and restart \
                 one after the other, or use `pole oracle set`, which needs no restart"
            }
        })
    }
}

impl Config {
    /// The settings in which `after` differs from this configuration, in the order of the table of keys.
    #[must_use]
    pub fn changes_to(&self, after: &Self) -> Vec<Change> {
        let values = |config: &Self| config.written.0.iter().cloned().collect::<BTreeMap<_, _>>();
        let (before, after) = (values(self), values(after));
        let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
        keys.sort_by_key(|key| (position(key), *key));
        keys.dedup();
        let differing = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
        differing
            .map(|key| Change {
                key: key.clone(),
                before: shown(key, before.get(key)),
                after: shown(key, after.get(key)),
                effect: Effect::of(key),
            })
            .collect()
    }
}

/// The row of a key in the table.
fn position(key: &str) -> usize {
    let row = keys::find(key).map(|found| found.name);
    KEYS.iter().position(|key| Some(key.name) == row).unwrap_or(KEYS.len())
}

fn shown(key: &str, value: Option<&String>) -> Option<String> {
    if keys::is_secret(key) {
        return value.map(|_| "(hidden)".to_owned());
    }
    let default = || keys::find(key).map(|key| key.default).filter(|default| !default.is_empty());
    value.cloned().or_else(|| default().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(more: &str) -> Config {
        let text = format!("dataDir=/data\nclientPort=2181\n{more}");
        let read = |_: &std::path::Path| Ok("1\n".to_owned());
        Config::parse_cfg("zoo.cfg", &text, &read).unwrap_or_else(|error| panic!("{error}")).0
    }

    fn described(before: &str, after: &str) -> Vec<(String, String, String, &'static str)> {
        let changes = config(before).changes_to(&config(after));
        let text = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
        changes.into_iter().map(|c| (c.key, text(c.before), text(c.after), c.effect.name())).collect()
    }

    fn row(key: &str, before: &str, after: &str, effect: &'static str) -> (String, String, String, &'static str) {
        (key.to_owned(), before.to_owned(), after.to_owned(), effect)
    }

    #[test]
    fn a_value_that_is_left_out_is_its_default() {
        assert_eq!(described("", "tickTime=2000\n"), [row("tickTime", "3000", "2000", "restart-each")]);
        assert_eq!(described("", "tickTime=3000\n"), []);
        assert_eq!(described("snapCount=5\n", ""), [row("snapCount", "5", "100000", "restart")]);
    }

    #[test]
    fn a_change_of_the_ensemble_needs_all_servers() {
        let (three, four) = ("server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n", "server.4=d:1:2\n");
        let expected = [row("server.4", "none", "d:1:2:participant", "restart-together")];
        assert_eq!(described(three, &format!("{three}{four}")), expected);
    }

    #[test]
    fn a_secret_is_not_shown() {
        let expected = [row("pole.admin.token", "none", "(hidden)", "restart")];
        assert_eq!(described("", "pole.admin.token=abc\n"), expected);
        let expected = [row("pole.admin.token", "(hidden)", "(hidden)", "restart")];
        assert_eq!(described("pole.admin.token=abd\n", "pole.admin.token=abc\n"), expected);
    }

    #[test]
    fn every_key_with_an_effect_of_its_own_is_in_the_table() {
        for key in KEYS.iter().map(|key| key.name) {
            assert_eq!(position(key), KEYS.iter().position(|row| row.name == key).unwrap(), "{key}");
        }
        // A key that is renamed in the table would silently need nothing but a restart.
        let special = KEYS.iter().filter(|key| Effect::of(key.name) != Effect::Restart).count();
        assert_eq!(special, 38);
    }
}
