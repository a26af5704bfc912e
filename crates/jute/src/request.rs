//! Everything that a client can ask.

use crate::closed::closed;
use crate::{
    AddWatchRequest, AuthPacket, CheckVersionRequest, CheckWatchesRequest, CreateRequest, CreateTtlRequest,
    DeleteContainerRequest, DeleteRequest, ExistsRequest, GetAclRequest, GetAllChildrenNumberRequest,
    GetChildren2Request, GetChildrenRequest, GetDataRequest, GetEphemeralsRequest, MultiReadRequest, MultiRequest,
    ReconfigRequest, RemoveWatchesRequest, SaslRequest, SetAclRequest, SetDataRequest, SetWatches, SetWatches2,
    SyncRequest,
};

closed! {
    /// A request, after its header. The first of a connection is a [`crate::ConnectRequest`] and has none.
    ///
    /// Bytes that follow it in the frame are left in the reader, and no harm: Apache ignores them too.
    pub enum Request {
        /// Creates a node.
        Create(request: CreateRequest),
        /// Deletes a node.
        Delete(request: DeleteRequest),
        /// The stat of a node that may not exist.
        Exists(request: ExistsRequest),
        /// The data of a node.
        GetData(request: GetDataRequest),
        /// Replaces the data of a node.
        SetData(request: SetDataRequest),
        /// The ACL of a node.
        GetAcl(request: GetAclRequest),
        /// Replaces the ACL of a node.
        SetAcl(request: SetAclRequest),
        /// The names of the children.
        GetChildren(request: GetChildrenRequest),
        /// Brings the client's server level with the leader.
        Sync(request: SyncRequest),
        /// Keeps the session alive.
        Ping,
        /// The names of the children, and the stat of the node.
        GetChildren2(request: GetChildren2Request),
        /// Compares a version. Apache takes it in a multi only.
        Check(request: CheckVersionRequest),
        /// Several writes, all or none.
        Multi(request: MultiRequest),
        /// Creates a node and answers its stat too.
        Create2(request: CreateRequest),
        /// Changes the members of the ensemble.
        Reconfig(request: ReconfigRequest),
        /// Asks whether a watch is set.
        CheckWatches(request: CheckWatchesRequest),
        /// Takes watches away.
        RemoveWatches(request: RemoveWatchesRequest),
        /// Creates a container.
        CreateContainer(request: CreateRequest),
        /// Deletes an empty container or an expired node; the leader asks itself.
        DeleteContainer(request: DeleteContainerRequest),
        /// Creates a node with a time to live.
        CreateTtl(request: CreateTtlRequest),
        /// Several reads, each with its own result.
        MultiRead(request: MultiReadRequest),
        /// Adds an identity to the connection.
        Auth(request: AuthPacket),
        /// Sets the one-shot watches of a reconnecting client again.
        SetWatches(request: SetWatches),
        /// A step of a SASL exchange.
        Sasl(request: SaslRequest),
        /// The session's own ephemeral nodes.
        GetEphemerals(request: GetEphemeralsRequest),
        /// How many nodes are below a node.
        GetAllChildrenNumber(request: GetAllChildrenNumberRequest),
        /// Sets all watches of a reconnecting client again.
        SetWatches2(request: SetWatches2),
        /// Sets a persistent watch.
        AddWatch(request: AddWatchRequest),
        /// The identities of the connection.
        WhoAmI,
        /// Ends the session.
        CloseSession,
    }
    not { Notification | CreateSession | Error }
}
