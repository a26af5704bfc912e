//! The headers of requests and replies.

use crate::record::record;
use crate::{Cause, Error, ErrorCode, OpCode, Place};

record! {
    /// The header of every request except the first of a connection.
    #[derive(Copy)]
    pub struct RequestHeader {
        /// The client's number for the request, increasing; or one of the constants of [`Xid`].
        pub xid: i32,
        /// The number of the operation. Not decoded here, because an unknown number gets an error reply.
        pub op: i32,
    }
}

impl RequestHeader {
    /// The operation, or an error if it is unknown.
    pub fn operation(&self) -> Result<OpCode, Error> {
        let unknown = Cause::Unknown { expected: "the number of an operation", got: self.op };
        // The field is the second of the frame and ends at byte 8.
        OpCode::from_number(self.op).ok_or(Error { place: Place::new("RequestHeader", "op"), at: 8, cause: unknown })
    }
}

record! {
    /// The header of every reply except the first of a connection. A body follows only on success.
    #[derive(Copy)]
    pub struct ReplyHeader {
        /// The number of the request, or one of the constants of [`Xid`].
        pub xid: i32,
        /// The last transaction that the server has applied; in a watch event, the transaction that caused it.
        pub zxid: i64,
        /// The outcome.
        pub err: ErrorCode,
    }
}

impl ReplyHeader {
    /// The header of a watch event. Since 3.9 the zxid is that of the change; 3.8 sends -1, and its clients ignore it.
    #[must_use]
    pub const fn notification(zxid: i64) -> Self {
        Self { xid: Xid::NOTIFICATION, zxid, err: ErrorCode::Ok }
    }
}

/// Reserved request numbers.
#[derive(Clone, Copy, Debug)]
pub struct Xid;

impl Xid {
    /// A watch event.
    pub const NOTIFICATION: i32 = -1;
    /// A ping and its reply.
    pub const PING: i32 = -2;
    /// An auth packet and its reply.
    pub const AUTH: i32 = -4;
    /// setWatches, setWatches2 and their replies.
    pub const SET_WATCHES: i32 = -8;
}
