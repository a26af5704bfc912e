//! getChildren, getChildren2, getAllChildrenNumber and getEphemerals: lists of names.

use alloc::string::String;
use alloc::vec::Vec;

use crate::Stat;
use crate::record::record;

record! {
    /// getChildren.
    pub struct GetChildrenRequest {
        /// The parent.
        pub path: String,
        /// Whether to set a watch.
        pub watch: bool,
    }
}

record! {
    /// Its reply.
    pub struct GetChildrenResponse {
        /// Names without a path, in no order that anyone may rely on.
        pub children: Vec<String>,
    }
}

record! {
    /// getChildren2.
    pub struct GetChildren2Request {
        /// The parent.
        pub path: String,
        /// Whether to set a watch.
        pub watch: bool,
    }
}

record! {
    /// Its reply.
    pub struct GetChildren2Response {
        /// Names without a path, in no order that anyone may rely on.
        pub children: Vec<String>,
        /// The stat of the parent.
        pub stat: Stat,
    }
}

record! {
    /// getAllChildrenNumber.
    pub struct GetAllChildrenNumberRequest {
        /// The top.
        pub path: String,
    }
}

record! {
    /// Its reply.
    #[derive(Copy)]
    pub struct GetAllChildrenNumberResponse {
        /// How many nodes are below the top, at any depth.
        pub total_number: i32,
    }
}

record! {
    /// getEphemerals.
    pub struct GetEphemeralsRequest {
        /// Only paths that begin so; null, empty and `/` are all.
        pub prefix_path: Option<String>,
    }
}

record! {
    /// Its reply.
    pub struct GetEphemeralsResponse {
        /// Whole paths.
        pub ephemerals: Vec<String>,
    }
}
