//! Collects the problems and warnings of a configuration.
//!
//! All parsers report to it, each finding with its line. The result is one error that lists everything to fix, or the
//! configuration with its warnings, so that an operator can fix a file in one go. The values of secrets are never
//! included.

use std::fmt;

use super::keys;

/// A refused configuration, with all problems found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", join(.problems))]
pub struct ConfigError {
    /// What has to be fixed; never empty.
    pub problems: Vec<Problem>,
    /// What else was noticed.
    pub warnings: Vec<Warning>,
}

/// One thing that has to be fixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The name of the file.
    pub file: String,
    /// Counted from 1; 0 for a problem of the file as a whole, or with a missing key.
    pub line: usize,
    /// The key; empty if the problem is not about one.
    pub key: String,
    /// Its value; a placeholder for a secret.
    pub value: String,
    /// What is wrong and what is allowed.
    pub why: String,
    /// The kind of finding.
    pub about: About,
}

/// The kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The file cannot be read or parsed.
    Syntax,
    /// A key that Pole does not know.
    Unknown,
    /// A key that is accepted and has no effect.
    NoEffect,
    /// A key that occurs more than once.
    Repeated,
    /// A value that its key does not allow.
    Value,
    /// A rule between keys, or between the configuration and the files that it names.
    Rule,
}

impl About {
    /// Its name in the output of commands.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::Unknown => "unknown-key",
            Self::NoEffect => "no-effect",
            Self::Repeated => "repeated-key",
            Self::Value => "bad-value",
            Self::Rule => "rule",
        }
    }
}

/// A problem that does not prevent the server from starting. The caller logs it.
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
    about: About,
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
}

impl Report {
    pub(super) fn new(file: &str) -> Self {
        Self { file: file.to_owned(), about: About::Syntax, problems: Vec::new(), warnings: Vec::new() }
    }

    /// Sets the kind of the following findings, and returns the previous one.
    pub(super) fn switch_to(&mut self, about: About) -> About {
        std::mem::replace(&mut self.about, about)
    }

    /// A warning of another kind than the present one.
    pub(super) fn warning_about(
        &mut self,
        about: About,
        (line, key, value): (usize, &str, &str),
        why: impl Into<String>,
    ) {
        let before = self.switch_to(about);
        self.warning(line, key, value, why);
        self.switch_to(before);
    }

    pub(super) fn problem(&mut self, line: usize, key: &str, value: &str, why: impl Into<String>) {
        let problem = self.finding(line, key, value, why.into());
        self.problems.push(problem);
    }

    pub(super) fn warning(&mut self, line: usize, key: &str, value: &str, why: impl Into<String>) {
        let warning = Warning(self.finding(line, key, value, why.into()));
        self.warnings.push(warning);
    }

    /// Sets the file of the following findings, and returns the previous one.
    pub(super) fn switch_file(&mut self, file: &str) -> String {
        std::mem::replace(&mut self.file, file.to_owned())
    }

    /// Returns the value with the warnings, or the problems if there are any.
    pub(super) fn finish<T>(self, value: T) -> Result<(T, Vec<Warning>), ConfigError> {
        let Self { problems, warnings, .. } = self;
        if problems.is_empty() { Ok((value, warnings)) } else { Err(ConfigError { problems, warnings }) }
    }

    fn finding(&self, line: usize, key: &str, value: &str, why: String) -> Problem {
        let value = if keys::is_secret(key) { "(hidden)" } else { value };
        let about = self.about;
        Problem { file: self.file.clone(), line, key: key.to_owned(), value: shorten(value), why, about }
    }
}

fn join(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// Truncates a value, which is quoted only to be recognised.
fn shorten(value: &str) -> String {
    match value.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

const QUOTED_CHARS_MAX: usize = 200;
