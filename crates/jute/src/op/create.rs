//! create, create2, createContainer and createTTL.

use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

use crate::numbered::numbered;
use crate::record::record;
use crate::{Acl, Stat};

record! {
    /// A create, create2 or createContainer request, which differ only in their replies.
    pub struct CreateRequest {
        /// The path; for a sequential node, without the suffix.
        pub path: String,
        /// Its data.
        pub data: Option<Bytes>,
        /// Its ACL. Java clients may send null, which is read as empty.
        pub acl: Vec<Acl>,
        /// The number of a [`CreateMode`]. Not decoded here, because an unknown number gets its own error reply.
        pub flags: i32,
    }
}

record! {
    /// The reply to create.
    pub struct CreateResponse {
        /// The path, including the suffix of a sequential node.
        pub path: String,
    }
}

record! {
    /// The reply to create2, createContainer and createTTL.
    pub struct Create2Response {
        /// The path, including the suffix of a sequential node.
        pub path: String,
        /// The stat of the new node.
        pub stat: Stat,
    }
}

record! {
    /// A createTTL request. The reply is a [`Create2Response`].
    pub struct CreateTtlRequest {
        /// The path; for a sequential node, without the suffix.
        pub path: String,
        /// Its data.
        pub data: Option<Bytes>,
        /// Its ACL.
        pub acl: Vec<Acl>,
        /// The number of a [`CreateMode`], not decoded.
        pub flags: i32,
        /// How long the node lives without changes and without children, in milliseconds.
        pub ttl: i64,
    }
}

numbered! {
    /// The kind of a node.
    "a kind of node"
    pub enum CreateMode {
        /// Remains until it is deleted.
        Persistent = 0,
        /// Is deleted when its session ends.
        Ephemeral = 1,
        /// Remains until it is deleted; its name gets a number.
        PersistentSequential = 2,
        /// Is deleted when its session ends; its name gets a number.
        EphemeralSequential = 3,
        /// Is deleted after its last child was deleted.
        Container = 4,
        /// Is deleted when its time to live is over.
        PersistentWithTtl = 5,
        /// Is deleted when its time to live is over; its name gets a number.
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
