//! exists, getData, setData, check and sync: one node and what it holds.

use alloc::string::String;
use bytes::Bytes;

use crate::Stat;
use crate::record::record;

record! {
    /// exists.
    pub struct ExistsRequest {
        /// The node.
        pub path: String,
        /// Whether to set a watch, also on a node that is yet to come.
        pub watch: bool,
    }
}

record! {
    /// Its reply.
    #[derive(Copy)]
    pub struct ExistsResponse {
        /// The stat of the node.
        pub stat: Stat,
    }
}

record! {
    /// getData.
    pub struct GetDataRequest {
        /// The node.
        pub path: String,
        /// Whether to set a watch.
        pub watch: bool,
    }
}

record! {
    /// Its reply.
    pub struct GetDataResponse {
        /// The data; null if it was created with null.
        pub data: Option<Bytes>,
        /// The stat of the node.
        pub stat: Stat,
    }
}

record! {
    /// setData.
    pub struct SetDataRequest {
        /// The node.
        pub path: String,
        /// The new data.
        pub data: Option<Bytes>,
        /// The version that the data must have; -1 for any.
        pub version: i32,
    }
}

record! {
    /// Its reply.
    #[derive(Copy)]
    pub struct SetDataResponse {
        /// The new stat.
        pub stat: Stat,
    }
}

record! {
    /// check, as part of a multi.
    pub struct CheckVersionRequest {
        /// The node.
        pub path: String,
        /// The version that the data must have; -1 for any.
        pub version: i32,
    }
}

record! {
    /// sync.
    pub struct SyncRequest {
        /// Means nothing to the server.
        pub path: String,
    }
}

record! {
    /// Its reply.
    pub struct SyncResponse {
        /// The path, as it came.
        pub path: String,
    }
}
