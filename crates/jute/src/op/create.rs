//! create, create2, createContainer and createTTL.

use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

use crate::numbered::numbered;
use crate::record::record;
use crate::{Acl, Stat};

record! {
    /// create, create2 and createContainer, which differ in their replies.
    pub struct CreateRequest {
        /// The node; of a sequential one, without the suffix.
        pub path: String,
        /// Its data.
        pub data: Option<Bytes>,
        /// Its ACL. Java clients may send null, which is no better than empty.
        pub acl: Vec<Acl>,
        /// A [`CreateMode`]. Kept as it came: a number that is none gets its own answer from the server.
        pub flags: i32,
    }
}

record! {
    /// The reply to create.
    pub struct CreateResponse {
        /// The path, with its suffix.
        pub path: String,
    }
}

record! {
    /// The reply to create2, createContainer and createTTL.
    pub struct Create2Response {
        /// The path, with its suffix.
        pub path: String,
        /// The stat of the new node.
        pub stat: Stat,
    }
}

record! {
    /// createTTL. The reply is a [`Create2Response`].
    pub struct CreateTtlRequest {
        /// The node; of a sequential one, without the suffix.
        pub path: String,
        /// Its data.
        pub data: Option<Bytes>,
        /// Its ACL.
        pub acl: Vec<Acl>,
        /// A [`CreateMode`], as it came.
        pub flags: i32,
        /// How long it lives unchanged and without children, in milliseconds.
        pub ttl: i64,
    }
}

numbered! {
    /// What kind of node.
    "a kind of node"
    pub enum CreateMode {
        /// Stays until deleted.
        Persistent = 0,
        /// Goes with its session.
        Ephemeral = 1,
        /// Stays, and its name gets a number.
        PersistentSequential = 2,
        /// Goes with its session, and its name gets a number.
        EphemeralSequential = 3,
        /// Goes when its last child has gone.
        Container = 4,
        /// Goes when its time is over.
        PersistentWithTtl = 5,
        /// Goes when its time is over, and its name gets a number.
        PersistentSequentialWithTtl = 6,
    }
}

impl CreateMode {
    /// Whether the node belongs to a session.
    #[must_use]
    pub const fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }

    /// Whether the name gets a number.
    #[must_use]
    pub const fn is_sequential(self) -> bool {
        matches!(self, Self::PersistentSequential | Self::EphemeralSequential | Self::PersistentSequentialWithTtl)
    }

    /// Whether the node has a time to live.
    #[must_use]
    pub const fn has_ttl(self) -> bool {
        matches!(self, Self::PersistentWithTtl | Self::PersistentSequentialWithTtl)
    }
}
