//! exists, getData, setData, check and sync.

use alloc::string::String;
use bytes::Bytes;

use crate::Stat;
use crate::record::record;

record! {
    /// An exists request.
    pub struct ExistsRequest {
        /// The node.
        pub path: String,
        /// Whether to set a watch, which also works for a node that does not exist yet.
        pub watch: bool,
    }
}

record! {
    /// The reply to exists.
    #[derive(Copy)]
    pub struct ExistsResponse {
        /// The stat of the node.
        pub stat: Stat,
    }
}

record! {
    /// A getData request.
    pub struct GetDataRequest {
        /// The node.
        pub path: String,
        /// Whether to set a watch.
        pub watch: bool,
    }
}

record! {
    /// The reply to getData.
    pub struct GetDataResponse {
        /// The data; null if the node was created with null.
        pub data: Option<Bytes>,
        /// The stat of the node.
        pub stat: Stat,
    }
}

record! {
    /// A setData request.
    pub struct SetDataRequest {
        /// The node.
        pub path: String,
        /// The new data.
        pub data: Option<Bytes>,
        /// The expected version of the data; -1 matches any.
        pub version: i32,
    }
}

record! {
    /// The reply to setData.
    #[derive(Copy)]
    pub struct SetDataResponse {
        /// The new stat.
        pub stat: Stat,
    }
}

record! {
    /// A check request, as part of a multi.
    pub struct CheckVersionRequest {
        /// The node.
        pub path: String,
        /// The expected version of the data; -1 matches any.
        pub version: i32,
    }
}

record! {
    /// A sync request.
    pub struct SyncRequest {
        /// Ignored by the server, except that the reply repeats it.
        pub path: String,
    }
}

record! {
    /// The reply to sync.
    pub struct SyncResponse {
        /// The path of the request.
        pub path: String,
    }
}
