//! The operations of ZooKeeper and their numbers, which are also the types of transactions.

use crate::numbered::numbered;

numbered! {
    /// An operation.
    "the number of an operation"
    pub enum OpCode {
        /// A watch event; sent only by servers.
        Notification = 0,
        /// Creates a node.
        Create = 1,
        /// Deletes a node.
        Delete = 2,
        /// Returns the stat of a node that may not exist.
        Exists = 3,
        /// Returns the data of a node.
        GetData = 4,
        /// Replaces the data of a node.
        SetData = 5,
        /// Returns the ACL of a node.
        GetAcl = 6,
        /// Replaces the ACL of a node.
        SetAcl = 7,
        /// Returns the names of the children.
        GetChildren = 8,
        /// Waits until the client's server has caught up with the leader.
        Sync = 9,
        /// Keeps a session alive.
        Ping = 11,
        /// Returns the names of the children and the stat of the node.
        GetChildren2 = 12,
        /// Checks a version; part of a multi.
        Check = 13,
        /// Executes several writes atomically.
        Multi = 14,
        /// Creates a node and returns its stat as well.
        Create2 = 15,
        /// Changes the members of the ensemble.
        Reconfig = 16,
        /// Checks whether a watch is set.
        CheckWatches = 17,
        /// Removes watches.
        RemoveWatches = 18,
        /// Creates a container.
        CreateContainer = 19,
        /// Deletes an empty container or an expired node; issued by the leader itself.
        DeleteContainer = 20,
        /// Creates a node with a time to live.
        CreateTtl = 21,
        /// Executes several reads, each with its own result.
        MultiRead = 22,
        /// Adds an identity to the connection.
        Auth = 100,
        /// Restores the one-shot watches of a reconnecting client.
        SetWatches = 101,
        /// A step of a SASL exchange.
        Sasl = 102,
        /// Returns the ephemeral nodes of the session.
        GetEphemerals = 103,
        /// Returns the number of nodes below a node.
        GetAllChildrenNumber = 104,
        /// Restores all watches of a reconnecting client.
        SetWatches2 = 105,
        /// Sets a persistent watch.
        AddWatch = 106,
        /// Returns the identities of the connection.
        WhoAmI = 107,
        /// Opens a session; never in a request header, but a type of transaction.
        CreateSession = -10,
        /// Closes a session.
        CloseSession = -11,
        /// A failure: a type of transaction, and of a result in a multi.
        Error = -1,
    }
}
