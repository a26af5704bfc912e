//! Metadata of nodes.

use crate::record::record;

record! {
    /// The metadata of a node that clients see.
    #[derive(Copy, Default)]
    pub struct Stat {
        /// The transaction that created the node.
        pub czxid: i64,
        /// The last transaction that changed its data.
        pub mzxid: i64,
        /// When it was created, in milliseconds since 1970.
        pub ctime: i64,
        /// When its data was last changed, in milliseconds since 1970.
        pub mtime: i64,
        /// The number of changes of the data.
        pub version: i32,
        /// The number of children created and deleted.
        pub cversion: i32,
        /// The number of changes of the ACL.
        pub aversion: i32,
        /// The session that owns an ephemeral node, otherwise 0. Also 0 for containers and nodes with a time to live,
        /// whose owner on disk has another meaning; see [`StatPersisted::ephemeral_owner`].
        pub ephemeral_owner: i64,
        /// The length of the data, in bytes.
        pub data_length: i32,
        /// The number of children.
        pub num_children: i32,
        /// The last transaction that created or deleted a child.
        pub pzxid: i64,
    }
}

record! {
    /// The metadata in a snapshot, without what can be derived from the tree.
    #[derive(Copy, Default)]
    pub struct StatPersisted {
        /// The transaction that created the node.
        pub czxid: i64,
        /// The last transaction that changed its data.
        pub mzxid: i64,
        /// When it was created, in milliseconds since 1970.
        pub ctime: i64,
        /// When its data was last changed, in milliseconds since 1970.
        pub mtime: i64,
        /// The number of changes of the data.
        pub version: i32,
        /// The number of children created. The value that clients see adds those deleted.
        pub cversion: i32,
        /// The number of changes of the ACL.
        pub aversion: i32,
        /// A session or, with high bits that no session has, a marker for a container or a time to live. The bits are
        /// defined in `tree`.
        pub ephemeral_owner: i64,
        /// The last transaction that created or deleted a child.
        pub pzxid: i64,
    }
}
