//! Watches: restoring, adding, checking and removing them, and watch events.

use alloc::string::String;
use alloc::vec::Vec;

use crate::ErrorCode;
use crate::numbered::numbered;
use crate::record::record;

record! {
    /// A setWatches request: restores the watches of a client that reconnects. The reply has no body.
    pub struct SetWatches {
        /// Changes after this zxid are events that the client has missed.
        pub relative_zxid: i64,
        /// Set by getData, and by exists on a node that existed.
        pub data_watches: Vec<String>,
        /// Set by exists on a node that did not exist.
        pub exist_watches: Vec<String>,
        /// Set by getChildren.
        pub child_watches: Vec<String>,
    }
}

record! {
    /// A setWatches2 request: like setWatches, with persistent watches. The reply has no body.
    pub struct SetWatches2 {
        /// Changes after this zxid are events that the client has missed.
        pub relative_zxid: i64,
        /// Set by getData, and by exists on a node that existed.
        pub data_watches: Vec<String>,
        /// Set by exists on a node that did not exist.
        pub exist_watches: Vec<String>,
        /// Set by getChildren.
        pub child_watches: Vec<String>,
        /// Set by addWatch.
        pub persistent_watches: Vec<String>,
        /// Set by addWatch for a whole subtree.
        pub persistent_recursive_watches: Vec<String>,
    }
}

record! {
    /// An addWatch request.
    pub struct AddWatchRequest {
        /// The path; the node need not exist.
        pub path: String,
        /// The scope of the watch.
        pub mode: AddWatchMode,
    }
}

record! {
    /// The reply to addWatch.
    #[derive(Copy)]
    pub struct ErrorResponse {
        /// Always `Ok`; a failure is in the header and has no body.
        pub err: ErrorCode,
    }
}

record! {
    /// A checkWatches request. The reply has no body; its code is `Ok` or `NoWatcher`.
    pub struct CheckWatchesRequest {
        /// The node.
        pub path: String,
        /// The kind of watches.
        pub kind: WatcherType,
    }
}

record! {
    /// A removeWatches request. The reply has no body; its code is `Ok` or `NoWatcher`.
    pub struct RemoveWatchesRequest {
        /// The node.
        pub path: String,
        /// The kind of watches.
        pub kind: WatcherType,
    }
}

record! {
    /// A watch event, after [`crate::ReplyHeader::notification`].
    pub struct WatcherEvent {
        /// What happened.
        pub kind: EventType,
        /// The state of the connection; always `SyncConnected` in events about nodes.
        pub state: KeeperState,
        /// The node.
        pub path: String,
    }
}

numbered! {
    /// The scope of a persistent watch.
    "a mode of watching"
    pub enum AddWatchMode {
        /// The node and the list of its children.
        Persistent = 0,
        /// The node and everything below it.
        PersistentRecursive = 1,
    }
}

numbered! {
    /// The kind of watches to check or remove.
    "a kind of watch"
    pub enum WatcherType {
        /// Watches on the list of children.
        Children = 1,
        /// Watches on the data.
        Data = 2,
        /// All watches.
        Any = 3,
        /// Persistent watches; newer than 3.9.
        Persistent = 4,
        /// Persistent watches on a subtree; newer than 3.9.
        PersistentRecursive = 5,
    }
}

numbered! {
    /// What happened to a node.
    "the type of an event"
    pub enum EventType {
        /// No change of a node; the state of the connection has changed.
        None = -1,
        /// The node was created.
        NodeCreated = 1,
        /// The node was deleted.
        NodeDeleted = 2,
        /// The data was set.
        NodeDataChanged = 3,
        /// A child was created or deleted.
        NodeChildrenChanged = 4,
        /// The data watch was removed.
        DataWatchRemoved = 5,
        /// The child watch was removed.
        ChildWatchRemoved = 6,
        /// The persistent watch was removed.
        PersistentWatchRemoved = 7,
    }
}

numbered! {
    /// The state of a client's connection.
    "the state of a connection"
    pub enum KeeperState {
        /// No longer used.
        Unknown = -1,
        /// Not connected.
        Disconnected = 0,
        /// No longer used.
        NoSyncConnected = 1,
        /// Connected to a server of a quorum.
        SyncConnected = 3,
        /// Authentication failed.
        AuthFailed = 4,
        /// Connected to a read-only server.
        ConnectedReadOnly = 5,
        /// Authenticated by SASL.
        SaslAuthenticated = 6,
        /// Closed by the client.
        Closed = 7,
        /// The session has expired.
        Expired = -112,
    }
}
