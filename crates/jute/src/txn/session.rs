//! What happens to sessions, and requests that came to nothing.

use alloc::string::String;
use alloc::vec::Vec;

use crate::ErrorCode;
use crate::record::record;

record! {
    /// A session was opened; its id stands in the header.
    #[derive(Copy)]
    pub struct CreateSessionTxn {
        /// In milliseconds.
        pub timeout: i32,
    }
}

record! {
    /// A session was closed; its id stands in the header.
    pub struct CloseSessionTxn {
        /// Its ephemeral nodes, which go with it.
        pub paths_to_delete: Vec<String>,
    }
}

record! {
    /// A request failed.
    #[derive(Copy)]
    pub struct ErrorTxn {
        /// Kept as it stands on disk: a code that a later version may have added must not make a log unreadable.
        pub err: i32,
    }
}

impl ErrorTxn {
    /// The code, if we know it.
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
