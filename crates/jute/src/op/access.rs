//! getACL and setACL.

use alloc::string::String;
use alloc::vec::Vec;

use crate::record::record;
use crate::{Acl, Stat};

record! {
    /// getACL.
    pub struct GetAclRequest {
        /// The node.
        pub path: String,
    }
}

record! {
    /// Its reply.
    pub struct GetAclResponse {
        /// The ACL.
        pub acl: Vec<Acl>,
        /// The stat of the node.
        pub stat: Stat,
    }
}

record! {
    /// setACL.
    pub struct SetAclRequest {
        /// The node.
        pub path: String,
        /// The new ACL.
        pub acl: Vec<Acl>,
        /// The version that the ACL must have; -1 for any.
        pub version: i32,
    }
}

record! {
    /// Its reply.
    #[derive(Copy)]
    pub struct SetAclResponse {
        /// The new stat.
        pub stat: Stat,
    }
}
