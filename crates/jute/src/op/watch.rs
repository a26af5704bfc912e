//! Watches: setting them again, adding, checking, removing, and the events they cause.

use alloc::string::String;
use alloc::vec::Vec;

use crate::ErrorCode;
use crate::numbered::numbered;
use crate::record::record;

record! {
    /// setWatches: a client that reconnects had these. The reply is a header.
    pub struct SetWatches {
        /// What changed after this zxid is an event that was missed.
        pub relative_zxid: i64,
        /// Set by getData, and by exists on a node that existed.
        pub data_watches: Vec<String>,
        /// Set by exists on a node that did not.
        pub exist_watches: Vec<String>,
        /// Set by getChildren.
        pub child_watches: Vec<String>,
    }
}

record! {
    /// setWatches2: the same with the persistent ones. The reply is a header.
    pub struct SetWatches2 {
        /// What changed after this zxid is an event that was missed.
        pub relative_zxid: i64,
        /// Set by getData, and by exists on a node that existed.
        pub data_watches: Vec<String>,
        /// Set by exists on a node that did not.
        pub exist_watches: Vec<String>,
        /// Set by getChildren.
        pub child_watches: Vec<String>,
        /// Set by addWatch.
        pub persistent_watches: Vec<String>,
        /// Set by addWatch, for a whole subtree.
        pub persistent_recursive_watches: Vec<String>,
    }
}

record! {
    /// addWatch.
    pub struct AddWatchRequest {
        /// The node, which need not exist.
        pub path: String,
        /// How far it reaches.
        pub mode: AddWatchMode,
    }
}

record! {
    /// Its reply.
    #[derive(Copy)]
    pub struct ErrorResponse {
        /// `Ok`; a failure stands in the header and has no body.
        pub err: ErrorCode,
    }
}

record! {
    /// checkWatches. The reply is a header: `Ok` or `NoWatcher`.
    pub struct CheckWatchesRequest {
        /// The node.
        pub path: String,
        /// Which watches.
        pub kind: WatcherType,
    }
}

record! {
    /// removeWatches. The reply is a header: `Ok` or `NoWatcher`.
    pub struct RemoveWatchesRequest {
        /// The node.
        pub path: String,
        /// Which watches.
        pub kind: WatcherType,
    }
}

record! {
    /// What a watch has seen, after [`crate::ReplyHeader::notification`].
    pub struct WatcherEvent {
        /// What happened.
        pub kind: EventType,
        /// The state of the connection; `SyncConnected` in all that a server sends about nodes.
        pub state: KeeperState,
        /// The node.
        pub path: String,
    }
}

numbered! {
    /// How far a persistent watch reaches.
    "a mode of watching"
    pub enum AddWatchMode {
        /// The node and the list of its children.
        Persistent = 0,
        /// The node and everything below it.
        PersistentRecursive = 1,
    }
}

numbered! {
    /// Which watches to check or remove.
    "a kind of watch"
    pub enum WatcherType {
        /// Those on the list of children.
        Children = 1,
        /// Those on the data.
        Data = 2,
        /// All of them.
        Any = 3,
        /// Persistent ones; newer than 3.9.
        Persistent = 4,
        /// Persistent ones on a subtree; newer than 3.9.
        PersistentRecursive = 5,
    }
}

numbered! {
    /// What happened to a node.
    "the type of an event"
    pub enum EventType {
        /// Nothing; the state of the connection changed.
        None = -1,
        /// It came to be.
        NodeCreated = 1,
        /// It was deleted.
        NodeDeleted = 2,
        /// Its data was set.
        NodeDataChanged = 3,
        /// A child came or went.
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
    /// How a client stands with its server.
    "the state of a connection"
    pub enum KeeperState {
        /// Not used any more.
        Unknown = -1,
        /// No server.
        Disconnected = 0,
        /// Not used any more.
        NoSyncConnected = 1,
        /// Connected to a server of a quorum.
        SyncConnected = 3,
        /// Authentication failed.
        AuthFailed = 4,
        /// Connected to a read-only server.
        ConnectedReadOnly = 5,
        /// Authenticated by SASL.
        SaslAuthenticated = 6,
        /// Closed by the client itself.
        Closed = 7,
        /// The session is over.
        Expired = -112,
    }
}
