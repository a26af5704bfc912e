//! Transactions on sessions, and failed requests.

use alloc::string::String;
use alloc::vec::Vec;

use crate::ErrorCode;
use crate::record::record;

record! {
    /// A session was opened; its id is in the header.
    #[derive(Copy)]
    pub struct CreateSessionTxn {
        /// The timeout in milliseconds.
        pub timeout: i32,
    }
}

record! {
    /// A session was closed; its id is in the header.
    pub struct CloseSessionTxn {
        /// Its ephemeral nodes, which are deleted with it.
        pub paths_to_delete: Vec<String>,
    }
}

record! {
    /// A request failed.
    #[derive(Copy)]
    pub struct ErrorTxn {
        /// Not decoded, because a code added in a later version must not make a log unreadable.
        pub err: i32,
    }
}

impl ErrorTxn {
    /// The code, if it is known.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        ErrorCode::from_number(self.err)
    }
}

impl From<ErrorCode> for ErrorTxn {
    fn from(code: ErrorCode) -> Self {
        Self { err: code.number() }
    }
}
