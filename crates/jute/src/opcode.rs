//! The operations of ZooKeeper and their numbers, which are also the types of transactions.

use crate::numbered::numbered;

numbered! {
    /// An operation.
    "the number of an operation"
    pub enum OpCode {
        /// A watch event; only ever sent by a server.
        Notification = 0,
        /// Creates a node.
        Create = 1,
        /// Deletes a node.
        Delete = 2,
        /// The stat of a node that may not exist.
        Exists = 3,
        /// The data of a node.
        GetData = 4,
        /// Replaces the data of a node.
        SetData = 5,
        /// The ACL of a node.
        GetAcl = 6,
        /// Replaces the ACL of a node.
        SetAcl = 7,
        /// The names of the children.
        GetChildren = 8,
        /// Brings the client's server level with the leader.
        Sync = 9,
        /// Keeps a session alive.
        Ping = 11,
        /// The names of the children, and the stat of the node.
        GetChildren2 = 12,
        /// Compares a version; part of a multi.
        Check = 13,
        /// Several writes, all or none.
        Multi = 14,
        /// Creates a node and answers its stat too.
        Create2 = 15,
        /// Changes the members of the ensemble.
        Reconfig = 16,
        /// Asks whether a watch is set.
        CheckWatches = 17,
        /// Takes watches away.
        RemoveWatches = 18,
        /// Creates a container.
        CreateContainer = 19,
        /// Deletes an empty container or an expired node; the leader's own.
        DeleteContainer = 20,
        /// Creates a node with a time to live.
        CreateTtl = 21,
        /// Several reads, each with its own result.
        MultiRead = 22,
        /// Adds an identity to the connection.
        Auth = 100,
        /// Sets the one-shot watches of a reconnecting client again.
        SetWatches = 101,
        /// A step of a SASL exchange.
        Sasl = 102,
        /// The session's own ephemeral nodes.
        GetEphemerals = 103,
        /// How many nodes are below a node.
        GetAllChildrenNumber = 104,
        /// Sets all watches of a reconnecting client again.
        SetWatches2 = 105,
        /// Sets a persistent watch.
        AddWatch = 106,
        /// The identities of the connection.
        WhoAmI = 107,
        /// Opens a session; never in a request header, but a type of transaction.
        CreateSession = -10,
        /// Closes a session.
        CloseSession = -11,
        /// A failure: a type of transaction, and of a result in a multi.
        Error = -1,
    }
}
