//! What is known about a node beside its data.

use crate::record::record;

record! {
    /// As clients see it.
    #[derive(Copy, Default)]
    pub struct Stat {
        /// The transaction that created the node.
        pub czxid: i64,
        /// The last that changed its data.
        pub mzxid: i64,
        /// When it was created, in milliseconds since 1970.
        pub ctime: i64,
        /// When its data was last changed, likewise.
        pub mtime: i64,
        /// Counts changes of the data.
        pub version: i32,
        /// Counts children created and deleted.
        pub cversion: i32,
        /// Counts changes of the ACL.
        pub aversion: i32,
        /// The session that an ephemeral node belongs to, else 0. Also 0 for containers and nodes with a time to live,
        /// whose owner on disk says something else: see [`StatPersisted::ephemeral_owner`].
        pub ephemeral_owner: i64,
        /// The length of the data.
        pub data_length: i32,
        /// How many children it has.
        pub num_children: i32,
        /// The last transaction that created or deleted a child.
        pub pzxid: i64,
    }
}

record! {
    /// As it stands in snapshots: what cannot be counted again from the tree.
    #[derive(Copy, Default)]
    pub struct StatPersisted {
        /// The transaction that created the node.
        pub czxid: i64,
        /// The last that changed its data.
        pub mzxid: i64,
        /// When it was created, in milliseconds since 1970.
        pub ctime: i64,
        /// When its data was last changed, likewise.
        pub mtime: i64,
        /// Counts changes of the data.
        pub version: i32,
        /// Counts the children created. What a client sees adds those deleted.
        pub cversion: i32,
        /// Counts changes of the ACL.
        pub aversion: i32,
        /// A session; or, with high bits that no session has, the mark of a container or a time to live. What the bits
        /// mean is `tree`'s.
        pub ephemeral_owner: i64,
        /// The last transaction that created or deleted a child.
        pub pzxid: i64,
    }
}
