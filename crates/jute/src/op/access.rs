//! getACL and setACL.

use alloc::string::String;
use alloc::vec::Vec;

use crate::record::record;
use crate::{Acl, Stat};

record! {
    /// A getACL request.
    pub struct GetAclRequest {
        /// The node.
        pub path: String,
    }
}

record! {
    /// The reply to getACL.
    pub struct GetAclResponse {
        /// The ACL.
        pub acl: Vec<Acl>,
        /// The stat of the node.
        pub stat: Stat,
    }
}

record! {
    /// A setACL request.
    pub struct SetAclRequest {
        /// The node.
        pub path: String,
        /// The new ACL.
        pub acl: Vec<Acl>,
        /// The expected version of the ACL; -1 matches any.
        pub version: i32,
    }
}

record! {
    /// The reply to setACL.
    #[derive(Copy)]
    pub struct SetAclResponse {
        /// The new stat.
        pub stat: Stat,
    }
}
