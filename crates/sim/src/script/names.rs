//! Names of keys, values and sessions, which the key-value machine knows by number.

use pole_types::SessionId;
use pole_zab::Entry;

use crate::kv::{Key, Refusal, Txn, Value};

/// The names that a script has used, numbered in the order of their first use.
#[derive(Debug, Default)]
pub(crate) struct Names {
    keys: Vec<String>,
    values: Vec<String>,
    sessions: Vec<String>,
    sim_clients: Vec<String>,
}

impl Names {
    pub(crate) fn key(&mut self, name: &str) -> Key {
        number(&mut self.keys, name) as Key
    }

    pub(crate) fn value(&mut self, name: &str) -> u64 {
        number(&mut self.values, name) as u64
    }

    /// The client of the session of this name, and whether it is new.
    pub(crate) fn client(&mut self, name: &str) -> (usize, bool) {
        let known = self.sessions.len();
        let client = number(&mut self.sessions, name);
        (client, client == known)
    }

    /// The ZooKeeper client of this name, and whether it is new.
    pub(crate) fn sim_client(&mut self, name: &str) -> (usize, bool) {
        let known = self.sim_clients.len();
        let client = number(&mut self.sim_clients, name);
        (client, client == known)
    }

    pub(crate) fn name_of_sim_client(&self, client: usize) -> &str {
        self.sim_clients.get(client).map_or("?", String::as_str)
    }

    pub(crate) fn name_of_client(&self, client: usize) -> &str {
        self.sessions.get(client).map_or("?", String::as_str)
    }

    pub(crate) fn name_of_key(&self, key: Key) -> &str {
        self.keys.get(key as usize).map_or("?", String::as_str)
    }

    pub(crate) fn name_of_value(&self, value: Option<Value>) -> &str {
        let name = |value: Value| self.values.get(usize::try_from(value.data).ok()?);
        value.map_or("nothing", |value| name(value).map_or("?", String::as_str))
    }

    /// A one-line description of a log entry.
    pub(crate) fn entry(&self, entry: &Entry) -> String {
        let what = match Txn::decode(&entry.body) {
            Some(Txn::Attached(_)) => format!("session {} attaches", self.session(entry.origin.session)),
            Some(Txn::Closed(_)) => format!("session {} ends", self.session(entry.origin.session)),
            Some(Txn::Set(_, key, value)) => format!("{}={}", self.name_of_key(key), self.name_of_value(value)),
            Some(Txn::Refused(_, why)) => format!("refused: {}", refusal(why)),
            Some(Txn::Nothing) => "nothing".to_owned(),
            None => "no transaction".to_owned(),
        };
        format!("{} {what}", entry.zxid)
    }

    /// The upper half of a session id is the number of its client.
    fn session(&self, session: SessionId) -> &str {
        self.name_of_client((session.0 >> 32).unsigned_abs() as usize - 1)
    }
}

/// A description of a refusal.
pub(crate) fn refusal(why: Refusal) -> &'static str {
    match why {
        Refusal::NoSession => "no such session",
        Refusal::BadVersion => "another version",
        Refusal::Exists => "exists",
        Refusal::Absent => "does not exist",
        Refusal::Malformed => "makes no sense",
        Refusal::NotNow => "not possible now",
    }
}

fn number(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}
