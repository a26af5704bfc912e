//! Which events are logged: a level for each target, from `pole.logFilter`.
//!
//! The form is that of `RUST_LOG`: levels and `target=level`, with commas. A directive for a target also covers the
//! targets below it.

use std::str::FromStr;

use tracing::{Level, level_filters::LevelFilter};
use tracing_subscriber::filter::Targets;

/// Selects events by target and level.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter(Targets);

// The directives are levels and names, which have no value that differs from itself.
impl Eq for Filter {}

/// A filter that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{directive:?} is neither a level ({LEVELS}) nor TARGET=LEVEL, as in pole::peer=debug")]
pub struct InvalidFilter {
    directive: String,
}

impl FromStr for Filter {
    type Err = InvalidFilter;

    /// Directives with a target are added to [`Filter::DEFAULT`]; a level without a target replaces it.
    fn from_str(text: &str) -> Result<Self, InvalidFilter> {
        let mut targets = default_targets();
        let directives: Vec<&str> = text.split(',').map(str::trim).collect();
        if let Some(level) = directives.iter().find_map(|directive| level(directive)) {
            targets = Targets::new().with_default(level);
        }
        for directive in directives {
            let invalid = || InvalidFilter { directive: directive.to_owned() };
            match directive.split_once('=') {
                Some((target, text)) if is_target(target) => {
                    targets = targets.with_target(target, level(text).ok_or_else(invalid)?);
                }
                None if level(directive).is_some() => {}
                Some(_) | None => return Err(invalid()),
            }
        }
        Ok(Self(targets))
    }
}

impl Filter {
    /// What is logged unless the operator says otherwise: what Pole reports, and warnings of libraries.
    pub const DEFAULT: &str = "warn,pole=info";

    pub(super) fn allows(&self, target: &str, level: Level) -> bool {
        self.0.would_enable(target, &level)
    }

    /// The most detailed level of any target.
    pub(super) fn max_level(&self) -> LevelFilter {
        let levels = self.0.iter().map(|(_, level)| level).chain(self.0.default_level());
        levels.max().unwrap_or(LevelFilter::OFF)
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self(default_targets())
    }
}

fn default_targets() -> Targets {
    Targets::new().with_default(LevelFilter::WARN).with_target("pole", LevelFilter::INFO)
}

/// The level of this name. `tracing` also takes numbers and nothing at all, but a reader would not know what they mean.
fn level(text: &str) -> Option<LevelFilter> {
    let is_word = !text.is_empty() && text.chars().all(char::is_alphabetic);
    text.parse().ok().filter(|_| is_word)
}

fn is_target(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
}

const LEVELS: &str = "off, error, warn, info, debug, trace";

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(filter: &str, target: &str, level: Level) -> bool {
        filter.parse::<Filter>().unwrap_or_else(|error| panic!("{error}")).allows(target, level)
    }

    #[test]
    fn the_default_is_what_its_text_says() {
        let default = Filter::default();
        assert_eq!(Filter::DEFAULT.parse(), Ok(default.clone()));
        assert!(default.allows("pole::peer", Level::INFO) && !default.allows("pole::peer", Level::DEBUG));
        assert!(default.allows("hyper", Level::WARN) && !default.allows("hyper", Level::INFO));
        assert_eq!(default.max_level(), LevelFilter::INFO);
    }

    #[test]
    fn a_target_is_added_and_a_level_alone_replaces_the_default() {
        assert!(allows("pole::peer=debug", "pole::peer", Level::DEBUG));
        assert!(!allows("pole::peer=debug", "pole::node", Level::DEBUG));
        assert!(allows("pole::peer=debug", "pole::node", Level::INFO));
        assert!(!allows("pole::client=off", "pole::client", Level::ERROR));
        assert!(allows("debug", "pole::node", Level::DEBUG) && !allows("error", "pole::node", Level::WARN));
        assert!(!allows("error, pole::disk=INFO", "pole::node", Level::INFO));
        assert!(allows("error, pole::disk=INFO", "pole::disk", Level::INFO));
    }

    #[test]
    fn what_is_neither_a_level_nor_a_target_with_one_is_refused() {
        for text in ["", "inof", "pole::peer", "pole::peer=", "=debug", "pole::peer=loud", "info,", "3", "a b=info"] {
            assert!(text.parse::<Filter>().is_err(), "{text:?}");
        }
        let error = "info,inof".parse::<Filter>().expect_err("a typo");
        assert!(error.to_string().starts_with("\"inof\" is neither a level (off, error,"), "{error}");
    }
}
