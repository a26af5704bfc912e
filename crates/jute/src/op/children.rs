//! getChildren, getChildren2, getAllChildrenNumber and getEphemerals.

use alloc::string::String;
use alloc::vec::Vec;

use crate::Stat;
use crate::record::record;

record! {
    /// A getChildren request.
    pub struct GetChildrenRequest {
        /// The parent.
        pub path: String,
        /// Whether to set a watch.
        pub watch: bool,
    }
}

record! {
    /// The reply to getChildren.
    pub struct GetChildrenResponse {
        /// Names without a path, in unspecified order.
        pub children: Vec<String>,
    }
}

record! {
    /// A getChildren2 request.
    pub struct GetChildren2Request {
        /// The parent.
        pub path: String,
        /// Whether to set a watch.
        pub watch: bool,
    }
}

record! {
    /// The reply to getChildren2.
    pub struct GetChildren2Response {
        /// Names without a path, in unspecified order.
        pub children: Vec<String>,
        /// The stat of the parent.
        pub stat: Stat,
    }
}

record! {
    /// A getAllChildrenNumber request.
    pub struct GetAllChildrenNumberRequest {
        /// The root of the subtree.
        pub path: String,
    }
}

record! {
    /// The reply to getAllChildrenNumber.
    #[derive(Copy)]
    pub struct GetAllChildrenNumberResponse {
        /// The number of nodes below it, at any depth.
        pub total_number: i32,
    }
}

record! {
    /// A getEphemerals request.
    pub struct GetEphemeralsRequest {
        /// Only paths with this prefix are returned; null, empty and `/` match all.
        pub prefix_path: Option<String>,
    }
}

record! {
    /// The reply to getEphemerals.
    pub struct GetEphemeralsResponse {
        /// Full paths.
        pub ephemerals: Vec<String>,
    }
}
