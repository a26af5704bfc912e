//! Failures of the command: a message for the operator and an exit code for scripts, as in `pole`.

use std::fmt;
use std::process::ExitCode;

use pole_elect::admin::AdminError;
use pole_elect::store;
use pole_elect::stores::OpenError;

#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    /// The operation was attempted and failed.
    pub(crate) fn failed(text: impl fmt::Display) -> Self {
        Self { code: 1, text: text.to_string() }
    }

    /// Arguments that cannot be used.
    pub(crate) fn bad_input(text: impl fmt::Display) -> Self {
        Self { code: 2, text: text.to_string() }
    }

    pub(crate) fn open(error: OpenError) -> Self {
        match error {
            OpenError::Url(error) => Self::bad_input(error),
            OpenError::Store(error) => Self::store(error),
        }
    }

    pub(crate) fn store(error: store::Error) -> Self {
        match error {
            store::Error::Unavailable(why) => Self { code: 3, text: format!("the store does not answer: {why}") },
            store::Error::Refused(_) | store::Error::Damaged(_) | store::Error::TooLarge(_) => Self::failed(error),
        }
    }

    pub(crate) fn admin(error: AdminError) -> Self {
        match error {
            AdminError::Store(error) => Self::store(error),
            AdminError::TimedOut { .. } => Self { code: 4, text: error.to_string() },
            AdminError::NoLeader | AdminError::NoCandidate { .. } | AdminError::Contended => Self::failed(error),
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
