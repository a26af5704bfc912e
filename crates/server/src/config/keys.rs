//! What the table of settings says about a key, and how keys are found and documented.
//!
//! The table itself is in `settings`. Tests check that every default is a valid value, and that the page in `docs` matches
//! the table.

use std::fmt;

use Kind::{Bool, Family, Number, Only, Secret, Text, Unused, Word};
use Origin::{Apache, Pole};

pub use super::settings::KEYS;

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
    /// The part of the documentation to which it belongs.
    pub section: &'static str,
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

/// Finds a key by name. Also accepts its name as a Java property (with the prefix `zookeeper.`), the name within a table of
/// `pole.toml` if a key is both a value and a table, and the property where Apache's documentation has another name.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    let name = name.strip_prefix("zookeeper.").unwrap_or(name);
    let name = OTHER_NAMES.iter().find(|(other, _)| *other == name).map_or(name, |(_, key)| key);
    let exact = KEYS.iter().find(|key| key.name == name && key.kind != Family);
    exact.or_else(|| KEYS.iter().find(|key| key.kind == Family && name.starts_with(prefix(key.name))))
}

/// Other names of keys, each with the name in the table.
pub(super) const OTHER_NAMES: &[(&str, &str)] = &[
    ("pole.oracle.name", "pole.oracle"),
    ("pole.resign.enabled", "pole.resign"),
    ("superUser.name", "superUser"),
    ("request_throttle_max_requests", "requestThrottleLimit"),
    ("request_throttle_stall_time", "requestThrottleStallTime"),
    ("request_throttle_drop_stale", "requestThrottleDropStale"),
    ("request_stale_connection_check", "requestStaleConnectionCheck"),
    ("request_stale_latency_check", "requestStaleLatencyCheck"),
    ("throttled_op_wait_time", "throttledOpWaitTime"),
    ("connection_throttle_tokens", "connectionMaxTokens"),
    ("connection_throttle_fill_time", "connectionTokenFillTime"),
    ("connection_throttle_fill_count", "connectionTokenFillCount"),
    ("connection_throttle_freeze_time", "connectionFreezeTime"),
    ("connection_throttle_drop_increase", "connectionDropIncrease"),
    ("connection_throttle_drop_decrease", "connectionDropDecrease"),
    ("connection_throttle_decrease_ratio", "connectionDecreaseRatio"),
    ("observer.syncEnabled", "syncEnabled"),
];

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

/// The tables of `docs/configuration.md`, one for each section.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::new();
    let mut title = "";
    for Key { name, kind, default, origin, meaning, section } in KEYS {
        if title != *section {
            title = section;
            let blank = if page.is_empty() { "" } else { "\n" };
            page.push_str(&format!("{blank}### {title}\n\n"));
            page.push_str("| key | whose | default | allowed | meaning |\n| --- | --- | --- | --- | --- |\n");
        }
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

/// The table of `docs/configuration.md` with what Pole does with each of these keys of Apache's.
///
/// # Panics
/// If one of them is not in [`KEYS`].
#[must_use]
pub fn apache_markdown(names: &[&str]) -> String {
    let mut page = String::from("| key | Pole |\n| --- | --- |\n");
    for name in names {
        let key = find(name).unwrap_or_else(|| panic!("{name} is not in the table of settings"));
        let what = match key.kind {
            Unused(why) => format!("ignored: {why}"),
            Only([], why) => format!("refused: {why}"),
            Only(words, why) => format!("`{}`; anything else is refused: {why}", words.join("`, `")),
            Number(..) | Bool(..) | Text | Secret | Word(_) | Family if key.name == *name => "supported".to_owned(),
            Number(..) | Bool(..) | Text | Secret | Word(_) | Family => format!("supported, as `{}`", key.name),
        };
        page.push_str(&format!("| `{name}` | {what} |\n"));
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
