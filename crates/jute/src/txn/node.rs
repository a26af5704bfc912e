//! Transactions on nodes.

use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

use crate::Acl;
use crate::record::record;

record! {
    /// A node was created.
    pub struct CreateTxn {
        /// The path, including the suffix of a sequential node.
        pub path: String,
        /// Its data.
        pub data: Option<Bytes>,
        /// Its ACL.
        pub acl: Vec<Acl>,
        /// Whether it belongs to the session in the header.
        pub ephemeral: bool,
        /// The new cversion of the parent; -1 in old logs, which means an increment by one.
        pub parent_cversion: i32,
    }
}

record! {
    /// [`CreateTxn`] in the form of logs before 3.4.
    pub struct CreateTxnV0 {
        /// The path, including the suffix of a sequential node.
        pub path: String,
        /// Its data.
        pub data: Option<Bytes>,
        /// Its ACL.
        pub acl: Vec<Acl>,
        /// Whether it belongs to the session in the header.
        pub ephemeral: bool,
    }
}

impl From<CreateTxnV0> for CreateTxn {
    fn from(old: CreateTxnV0) -> Self {
        let CreateTxnV0 { path, data, acl, ephemeral } = old;
        Self { path, data, acl, ephemeral, parent_cversion: -1 }
    }
}

record! {
    /// A container was created.
    pub struct CreateContainerTxn {
        /// The node.
        pub path: String,
        /// Its data.
        pub data: Option<Bytes>,
        /// Its ACL.
        pub acl: Vec<Acl>,
        /// The new cversion of the parent.
        pub parent_cversion: i32,
    }
}

record! {
    /// A node with a time to live was created.
    pub struct CreateTtlTxn {
        /// The path, including the suffix of a sequential node.
        pub path: String,
        /// Its data.
        pub data: Option<Bytes>,
        /// Its ACL.
        pub acl: Vec<Acl>,
        /// The new cversion of the parent.
        pub parent_cversion: i32,
        /// The time to live in milliseconds.
        pub ttl: i64,
    }
}

record! {
    /// A node was deleted.
    pub struct DeleteTxn {
        /// The node.
        pub path: String,
    }
}

record! {
    /// Data was replaced.
    pub struct SetDataTxn {
        /// The node.
        pub path: String,
        /// The new data.
        pub data: Option<Bytes>,
        /// The new version.
        pub version: i32,
    }
}

record! {
    /// A version was checked.
    pub struct CheckVersionTxn {
        /// The node.
        pub path: String,
        /// The version.
        pub version: i32,
    }
}

record! {
    /// An ACL was replaced.
    pub struct SetAclTxn {
        /// The node.
        pub path: String,
        /// The new ACL.
        pub acl: Vec<Acl>,
        /// The new version of the ACL.
        pub version: i32,
    }
}

record! {
    /// A limit on the number of children. Apache defines the record, but no operation writes it.
    pub struct SetMaxChildrenTxn {
        /// The node.
        pub path: String,
        /// The maximum number of children.
        pub max: i32,
    }
}
