//! Failures of a command: a message for the operator and an exit code for scripts.

use std::fmt;
use std::process::ExitCode;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    kind: Kind,
    text: String,
}

/// The kind of failure; its number is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The operation was attempted and failed.
    Failed = 1,
    /// Arguments, a configuration or an input file that cannot be used.
    BadInput = 2,
    /// No server answers.
    Unreachable = 3,
    /// Servers answer, but no quorum was reached within the time limit.
    NoQuorum = 4,
    /// A data directory is damaged, or of another release.
    BadData = 5,
    /// Another process uses the port or the data directory.
    InUse = 6,
}

impl Failure {
    pub(crate) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::new(Kind::Failed, text)
    }

    pub(crate) fn bad_input(text: impl Into<String>) -> Self {
        Self::new(Kind::BadInput, text)
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.kind as u8)
    }
}

impl Kind {
    pub(crate) fn of_exit_code(code: i32) -> Option<Self> {
        let all = [Self::Failed, Self::BadInput, Self::Unreachable, Self::NoQuorum, Self::BadData, Self::InUse];
        all.into_iter().find(|kind| *kind as i32 == code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
