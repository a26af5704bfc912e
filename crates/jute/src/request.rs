//! All requests of a client.

use crate::op_enum::op_enum;
use crate::{
    AddWatchRequest, AuthPacket, CheckVersionRequest, CheckWatchesRequest, CreateRequest, CreateTtlRequest,
    DeleteContainerRequest, DeleteRequest, ExistsRequest, GetAclRequest, GetAllChildrenNumberRequest,
    GetChildren2Request, GetChildrenRequest, GetDataRequest, GetEphemeralsRequest, MultiReadRequest, MultiRequest,
    ReconfigRequest, RemoveWatchesRequest, SaslRequest, SetAclRequest, SetDataRequest, SetWatches, SetWatches2,
    SyncRequest,
};

op_enum! {
    /// The body of a request, after its header. The first request of a connection is a [`crate::ConnectRequest`],
    /// which has no header.
    ///
    /// Bytes that follow in the frame are left in the reader. Apache ignores them too.
    pub enum Request {
        /// Creates a node.
        Create(request: CreateRequest),
        /// Deletes a node.
        Delete(request: DeleteRequest),
        /// Returns the stat of a node that may not exist.
        Exists(request: ExistsRequest),
        /// Returns the data of a node.
        GetData(request: GetDataRequest),
        /// Replaces the data of a node.
        SetData(request: SetDataRequest),
        /// Returns the ACL of a node.
        GetAcl(request: GetAclRequest),
        /// Replaces the ACL of a node.
        SetAcl(request: SetAclRequest),
        /// Returns the names of the children.
        GetChildren(request: GetChildrenRequest),
        /// Waits until the client's server has caught up with the leader.
        Sync(request: SyncRequest),
        /// Keeps the session alive.
        Ping,
        /// Returns the names of the children and the stat of the node.
        GetChildren2(request: GetChildren2Request),
        /// Checks a version. Apache accepts it only in a multi.
        Check(request: CheckVersionRequest),
        /// Executes several writes atomically.
        Multi(request: MultiRequest),
        /// Creates a node and returns its stat as well.
        Create2(request: CreateRequest),
        /// Changes the members of the ensemble.
        Reconfig(request: ReconfigRequest),
        /// Checks whether a watch is set.
        CheckWatches(request: CheckWatchesRequest),
        /// Removes watches.
        RemoveWatches(request: RemoveWatchesRequest),
        /// Creates a container.
        CreateContainer(request: CreateRequest),
        /// Deletes an empty container or an expired node; issued by the leader itself.
        DeleteContainer(request: DeleteContainerRequest),
        /// Creates a node with a time to live.
        CreateTtl(request: CreateTtlRequest),
        /// Executes several reads, each with its own result.
        MultiRead(request: MultiReadRequest),
        /// Adds an identity to the connection.
        Auth(request: AuthPacket),
        /// Restores the one-shot watches of a reconnecting client.
        SetWatches(request: SetWatches),
        /// A step of a SASL exchange.
        Sasl(request: SaslRequest),
        /// Returns the ephemeral nodes of the session.
        GetEphemerals(request: GetEphemeralsRequest),
        /// Returns the number of nodes below a node.
        GetAllChildrenNumber(request: GetAllChildrenNumberRequest),
        /// Restores all watches of a reconnecting client.
        SetWatches2(request: SetWatches2),
        /// Sets a persistent watch.
        AddWatch(request: AddWatchRequest),
        /// Returns the identities of the connection.
        WhoAmI,
        /// Closes the session.
        CloseSession,
    }
    not { Notification | CreateSession | Error }
}
