//! What is wrong with a configuration, and what is only odd.
//!
//! In: findings of all the readers, each with its line. Out: one error with everything that must be mended, or the
//! configuration with its warnings.
//! Why: an operator wants to mend a file once, not once for each start.
//! Holds: the values of secrets are never repeated.

use std::fmt;

use super::keys;

/// A configuration that was refused, with all the reasons found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", join(.problems))]
pub struct ConfigError {
    /// Each to be mended; never empty.
    pub problems: Vec<Problem>,
}

/// One thing that must be mended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// Counted from 1; 0 for what concerns the file as a whole, or is missing from it.
    pub line: usize,
    /// The key, if one is to blame.
    pub key: String,
    /// Its value; of a secret, a placeholder.
    pub value: String,
    /// What is wrong, and what is allowed.
    pub why: String,
}

/// Something odd that does not stop the server. The caller logs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(pub Problem);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        match (self.key.is_empty(), self.value.is_empty()) {
            (true, _) => write!(f, ": {}", self.why),
            (false, true) => write!(f, ": {}: {}", self.key, self.why),
            (false, false) => write!(f, ": {}={}: {}", self.key, self.value, self.why),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Collects findings while a file is read.
#[derive(Debug)]
pub(super) struct Report {
    file: String,
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
}

impl Report {
    pub(super) fn new(file: &str) -> Self {
        Self { file: file.to_owned(), problems: Vec::new(), warnings: Vec::new() }
    }

    pub(super) fn problem(&mut self, line: usize, key: &str, value: &str, why: impl Into<String>) {
        let problem = self.finding(line, key, value, why.into());
        self.problems.push(problem);
    }

    pub(super) fn warning(&mut self, line: usize, key: &str, value: &str, why: impl Into<String>) {
        let warning = Warning(self.finding(line, key, value, why.into()));
        self.warnings.push(warning);
    }

    /// Findings until the next call are in this file.
    pub(super) fn switch_file(&mut self, file: &str) -> String {
        std::mem::replace(&mut self.file, file.to_owned())
    }

    /// The end: the value, if nothing spoke against it.
    pub(super) fn finish<T>(self, value: T) -> Result<(T, Vec<Warning>), ConfigError> {
        if self.problems.is_empty() { Ok((value, self.warnings)) } else { Err(ConfigError { problems: self.problems }) }
    }

    fn finding(&self, line: usize, key: &str, value: &str, why: String) -> Problem {
        let value = if keys::is_secret(key) { "(hidden)" } else { value };
        Problem { file: self.file.clone(), line, key: key.to_owned(), value: shorten(value), why }
    }
}

fn join(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// A value is quoted to be recognised; a megabyte of it would not help.
fn shorten(value: &str) -> String {
    match value.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

const QUOTED_CHARS_MAX: usize = 200;
