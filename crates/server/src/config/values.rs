//! Checks entries against the table of keys.
//!
//! Entries come in the order of the file. For each known key the result is its value, set or default; unknown keys,
//! repeated keys and invalid values are reported. Afterwards a number is in its range and a word is one of its list. An
//! invalid value is replaced by the default, so that parsing can continue and find further problems.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::keys::{self, Key, Kind};
use super::properties::Entry;
use super::report::{About, Report};
use super::types::Secret;

/// The settings of a file, each checked by itself.
#[derive(Debug, Default)]
pub(super) struct Values {
    given: BTreeMap<&'static str, Given>,
    /// Keys with a suffix, such as `server.1`, in order.
    pub(super) families: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Given {
    value: String,
    line: usize,
}

impl Values {
    pub(super) fn check(entries: Vec<Entry>, report: &mut Report) -> Self {
        let mut values = Self::default();
        for entry in entries {
            match keys::find(&entry.key) {
                Some(key) => values.take(key, entry, report),
                None => unknown(&entry, report),
            }
        }
        values
    }

    fn take(&mut self, key: &'static Key, entry: Entry, report: &mut Report) {
        let Entry { key: name, value, line } = &entry;
        match key.kind {
            Kind::Family => return self.families.push(entry),
            Kind::Unused(why) => {
                let why = format!("accepted and not used: {why}");
                return report.warning_about(About::NoEffect, (*line, name, value), why);
            }
            Kind::Only(_, why) if !allowed(key.kind, value) => {
                return report.problem(*line, name, value, format!("not supported: {why}; allowed is {}", key.kind));
            }
            Kind::Number(..) | Kind::Bool(..) | Kind::Word(_) if !allowed(key.kind, value) => {
                return report.problem(*line, name, value, format!("allowed is {}", key.kind));
            }
            Kind::Number(..) | Kind::Bool(..) | Kind::Word(_) | Kind::Only(..) | Kind::Text | Kind::Secret => {}
        }
        let given = Given { value: value.clone(), line: *line };
        if let Some(before) = self.given.insert(key.name, given) {
            let why = format!("set in line {} already; this one counts", before.line);
            report.warning_about(About::Repeated, (*line, name, value), why);
        }
    }

    /// The line that sets this key, or 0.
    pub(super) fn line(&self, key: &'static str) -> usize {
        self.given.get(key).map_or(0, |given| given.line)
    }

    /// The value as written, or the default; `None` if both are empty.
    pub(super) fn text(&self, key: &'static str) -> Option<&str> {
        let given = self.given.get(key).map(|given| given.value.as_str()).filter(|value| !value.is_empty());
        given.or_else(|| Some(entry(key).default).filter(|default| !default.is_empty()))
    }

    /// The value of a key of kind [`Kind::Number`].
    pub(super) fn number(&self, key: &'static str) -> i64 {
        self.text(key).and_then(|text| text.parse().ok()).expect("numbers and their defaults are checked")
    }

    /// Like [`Values::number`], for keys whose range has no negative values.
    pub(super) fn count(&self, key: &'static str) -> u64 {
        u64::try_from(self.number(key)).expect("the range of a count starts at zero or above")
    }

    /// A number of kilobytes in bytes, or none if it is not positive.
    pub(super) fn kilobytes_limit(&self, key: &'static str) -> Option<u64> {
        u64::try_from(self.number(key) << 10).ok().filter(|limit| *limit > 0)
    }

    pub(super) fn bool(&self, key: &'static str) -> bool {
        self.text(key).and_then(parse_bool).expect("switches and their defaults are checked")
    }

    /// Reads a key with the reader of its row in the table.
    pub(super) fn get<T>(&self, key: &'static str, read: impl Fn(&Self, &'static str) -> T) -> T {
        read(self, key)
    }

    pub(super) fn owned(&self, key: &'static str) -> Option<String> {
        self.text(key).map(str::to_owned)
    }

    pub(super) fn path(&self, key: &'static str) -> Option<PathBuf> {
        self.text(key).map(PathBuf::from)
    }

    pub(super) fn secret(&self, key: &'static str) -> Option<Secret> {
        self.owned(key).map(Secret)
    }

    /// A time in milliseconds. A negative one stands for `ticks` ticks.
    pub(super) fn ticks(&self, key: &'static str, ticks: u64) -> u64 {
        u64::try_from(self.number(key)).unwrap_or_else(|_| ticks * self.count("tickTime"))
    }

    /// The tokens that a session takes: 1 unless weights are enabled.
    pub(super) fn session_weight(&self, key: &'static str) -> u64 {
        if self.bool("connection_throttle_weight_enabled") { self.count(key) } else { 1 }
    }

    /// The settings that a file must contain to be read as these values, in the order of the table and without those
    /// that have their default, then the servers.
    pub(super) fn written(&self, members: &pole_tree::Members) -> Written {
        let keys = keys::KEYS.iter().filter(|key| key.name != "dynamicConfigFile");
        let pairs = keys.filter_map(|key| {
            let given = self.given.get(key.name).map(|given| normalized(key.kind, &given.value));
            let value = given.unwrap_or_else(|| key.default.to_owned());
            (value != key.default || WITHOUT_DEFAULT.contains(&key.name)).then_some((key.name.to_owned(), value))
        });
        Written(pairs.chain(members.entries()).collect())
    }

    /// The value of a key of kind [`Kind::Word`], spelled as in its list.
    pub(super) fn word(&self, key: &'static str) -> Option<&'static str> {
        let text = self.text(key)?;
        match entry(key).kind {
            Kind::Word(words) => words.iter().copied().find(|word| word.eq_ignore_ascii_case(text)),
            Kind::Number(..)
            | Kind::Bool(..)
            | Kind::Text
            | Kind::Secret
            | Kind::Only(..)
            | Kind::Unused(_)
            | Kind::Family => None,
        }
    }
}

/// Settings as they are written. Among them are secrets, so `Debug` shows none.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Written(pub(super) Vec<(String, String)>);

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Written(hidden)")
    }
}

/// Apache's server does not start without these, and it must be able to read the file.
const WITHOUT_DEFAULT: [&str; 2] = ["initLimit", "syncLimit"];

/// The spelling of a valid value that the documentation uses.
fn normalized(kind: Kind, value: &str) -> String {
    let spelled = match kind {
        Kind::Number(..) => value.parse::<i64>().ok().map(|number| number.to_string()),
        Kind::Bool(yes, no) => parse_bool(value).map(|on| if on { yes } else { no }.to_owned()),
        Kind::Word(words) | Kind::Only(words, _) => {
            words.iter().find(|word| word.eq_ignore_ascii_case(value)).map(|word| (*word).to_owned())
        }
        Kind::Text | Kind::Secret | Kind::Unused(_) | Kind::Family => None,
    };
    spelled.unwrap_or_else(|| value.to_owned())
}

/// Whether a key has a value that Apache's server accepts and ours refuses.
pub(super) fn is_unsupported(key: &str, value: &str) -> bool {
    keys::find(key).is_some_and(|key| matches!(key.kind, Kind::Only(..)) && !allowed(key.kind, value))
}

/// Whether a key of this kind may have this value.
pub(super) fn allowed(kind: Kind, value: &str) -> bool {
    match kind {
        Kind::Number(min, max) => value.parse().is_ok_and(|number: i64| (min..=max).contains(&number)),
        Kind::Bool(..) => parse_bool(value).is_some(),
        Kind::Word(words) => words.iter().any(|word| word.eq_ignore_ascii_case(value)),
        Kind::Only(words, _) => words.iter().any(|word| word.eq_ignore_ascii_case(value)),
        Kind::Text | Kind::Secret | Kind::Unused(_) | Kind::Family => true,
    }
}

fn unknown(entry: &Entry, report: &mut Report) {
    let Entry { key, value, line } = entry;
    if !key.starts_with("pole.") {
        return report.warning_about(About::Unknown, (*line, key, value), "unknown key, not used");
    }
    let hint = keys::nearest(key)
        .map_or_else(|| "docs/configuration.md has the list".to_owned(), |near| format!("did you mean {near}?"));
    let before = report.switch_to(About::Unknown);
    report.problem(*line, key, value, format!("unknown key; {hint}"));
    report.switch_to(before);
}

/// Parses the words that Apache's keys use for booleans.
fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

fn entry(name: &'static str) -> &'static Key {
    keys::KEYS.iter().find(|key| key.name == name).expect("keys used in the code are in the table")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_allowed() {
        for key in keys::KEYS.iter().filter(|key| !key.default.is_empty()) {
            assert!(allowed(key.kind, key.default), "{}={}", key.name, key.default);
        }
    }

    #[test]
    fn numbers_booleans_and_words_have_defaults() {
        let without_default = keys::KEYS.iter().filter(|key| key.default.is_empty());
        for key in without_default {
            let optional = key.name.ends_with("Store.type");
            assert!(optional || !matches!(key.kind, Kind::Number(..) | Kind::Bool(..) | Kind::Word(_)), "{}", key.name);
        }
    }
}
