//! Entries held against the table of keys.
//!
//! In: entries in the order of the file. Out: for each known key its value, given or by default, and what was found:
//! unknown keys, repeated ones, values that are not allowed.
//! Holds: after this, a number is a number in its range and a word is one of the list. A value that was not allowed has
//! been reported, and its default stands in so that reading can go on and find the rest.

use std::collections::BTreeMap;

use super::keys::{self, Key, Kind};
use super::properties::Entry;
use super::report::Report;

/// The settings of a file, checked one by one.
#[derive(Debug, Default)]
pub(super) struct Values {
    given: BTreeMap<&'static str, Given>,
    /// Keys with an ending of their own, such as `server.1`, in order.
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
            Kind::Unused(why) => return report.warning(*line, name, value, format!("accepted and not used: {why}")),
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
            report.warning(*line, name, value, format!("set in line {} already; this one counts", before.line));
        }
    }

    /// The line that set this key, or 0.
    pub(super) fn line(&self, key: &'static str) -> usize {
        self.given.get(key).map_or(0, |given| given.line)
    }

    /// The value as written, or the default; `None` if that is empty.
    pub(super) fn text(&self, key: &'static str) -> Option<&str> {
        let given = self.given.get(key).map(|given| given.value.as_str()).filter(|value| !value.is_empty());
        given.or_else(|| Some(entry(key).default).filter(|default| !default.is_empty()))
    }

    /// A number of a key whose kind is one.
    pub(super) fn number(&self, key: &'static str) -> i64 {
        self.text(key).and_then(|text| text.parse().ok()).expect("numbers and their defaults are checked")
    }

    /// As [`Values::number`], for keys that have no negative values.
    pub(super) fn count(&self, key: &'static str) -> u64 {
        u64::try_from(self.number(key)).expect("the range of a count starts at zero or above")
    }

    pub(super) fn bool(&self, key: &'static str) -> bool {
        self.text(key).and_then(parse_bool).expect("switches and their defaults are checked")
    }

    /// A word of the list of the key, as the list writes it.
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

/// Whether a value may stand there.
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
        return report.warning(*line, key, value, "unknown key, not used");
    }
    let hint = keys::nearest(key)
        .map_or_else(|| "docs/configuration.md has the list".to_owned(), |near| format!("did you mean {near}?"));
    report.problem(*line, key, value, format!("unknown key; {hint}"));
}

/// The words that Apache's keys use between them.
fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

fn entry(name: &'static str) -> &'static Key {
    keys::KEYS.iter().find(|key| key.name == name).expect("keys asked for by name stand in the table")
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
    fn numbers_switches_and_words_that_are_asked_for_have_defaults() {
        let silent = keys::KEYS.iter().filter(|key| key.default.is_empty());
        for key in silent {
            let optional = key.name.ends_with("Store.type");
            assert!(optional || !matches!(key.kind, Kind::Number(..) | Kind::Bool(..) | Kind::Word(_)), "{}", key.name);
        }
    }
}
