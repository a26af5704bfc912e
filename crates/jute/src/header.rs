//! What stands before every request and every reply.

use crate::record::record;
use crate::{Cause, Error, ErrorCode, OpCode, Place};

record! {
    /// Before every request but the first.
    #[derive(Copy)]
    pub struct RequestHeader {
        /// The client's number for the request, counting up; or one of [`Xid`].
        pub xid: i32,
        /// The number of the operation. Kept as it came: a number that nobody knows gets an answer, not an error here.
        pub op: i32,
    }
}

impl RequestHeader {
    /// The operation, if we know it.
    pub fn operation(&self) -> Result<OpCode, Error> {
        let unknown = Cause::Unknown { expected: "the number of an operation", got: self.op };
        // The field is the second of the frame.
        OpCode::from_number(self.op).ok_or(Error { place: Place::new("RequestHeader", "op"), at: 8, cause: unknown })
    }
}

record! {
    /// Before every reply but the first. A body follows only if all went well.
    #[derive(Copy)]
    pub struct ReplyHeader {
        /// The number of the request; or one of [`Xid`].
        pub xid: i32,
        /// The last transaction that the server has applied; in a watch event, the transaction that caused it.
        pub zxid: i64,
        /// How it went.
        pub err: ErrorCode,
    }
}

impl ReplyHeader {
    /// Before a watch event. Since 3.9 the zxid is that of the change; 3.8 sends -1, and its clients ignore it.
    #[must_use]
    pub const fn notification(zxid: i64) -> Self {
        Self { xid: Xid::NOTIFICATION, zxid, err: ErrorCode::Ok }
    }
}

/// Numbers that stand in the place of a client's own.
#[derive(Clone, Copy, Debug)]
pub struct Xid;

impl Xid {
    /// Of a watch event.
    pub const NOTIFICATION: i32 = -1;
    /// Of a ping and its reply.
    pub const PING: i32 = -2;
    /// Of an auth packet and its reply.
    pub const AUTH: i32 = -4;
    /// Of setWatches, setWatches2 and their replies.
    pub const SET_WATCHES: i32 = -8;
}
