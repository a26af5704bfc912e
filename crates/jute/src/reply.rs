//! All replies of a server, and watch events.

use crate::op_enum::op_enum;
use crate::{
    Create2Response, CreateResponse, ErrorResponse, ExistsResponse, GetAclResponse, GetAllChildrenNumberResponse,
    GetChildren2Response, GetChildrenResponse, GetDataResponse, GetEphemeralsResponse, MultiReadResponse,
    MultiResponse, SaslResponse, SetAclResponse, SetDataResponse, SyncResponse, WatcherEvent, WhoAmIResponse,
};

op_enum! {
    /// The body of a reply to a successful request. After a failure there is only a [`crate::ReplyHeader`].
    ///
    /// The reply to a [`crate::ConnectRequest`] is a [`crate::ConnectResponse`], which has no header.
    pub enum Reply {
        /// A watch event, after [`crate::ReplyHeader::notification`].
        Notification(event: WatcherEvent),
        /// The path, with its suffix if it is sequential.
        Create(reply: CreateResponse),
        /// No body: the node was deleted.
        Delete,
        /// The stat; a node that does not exist is an error.
        Exists(reply: ExistsResponse),
        /// Data and stat.
        GetData(reply: GetDataResponse),
        /// The new stat.
        SetData(reply: SetDataResponse),
        /// ACL and stat.
        GetAcl(reply: GetAclResponse),
        /// The new stat.
        SetAcl(reply: SetAclResponse),
        /// The names of the children.
        GetChildren(reply: GetChildrenResponse),
        /// The path of the request.
        Sync(reply: SyncResponse),
        /// No body.
        Ping,
        /// Names and stat.
        GetChildren2(reply: GetChildren2Response),
        /// The stat.
        Check(reply: SetDataResponse),
        /// The results, also after a failure.
        Multi(reply: MultiResponse),
        /// Path and stat.
        Create2(reply: Create2Response),
        /// Data and stat of the configuration.
        Reconfig(reply: GetDataResponse),
        /// No body: the watch is set.
        CheckWatches,
        /// No body: the watches were removed.
        RemoveWatches,
        /// Path and stat.
        CreateContainer(reply: Create2Response),
        /// No body: the node was deleted.
        DeleteContainer,
        /// Path and stat.
        CreateTtl(reply: Create2Response),
        /// The results.
        MultiRead(reply: MultiReadResponse),
        /// No body: the identity was accepted.
        Auth,
        /// No body: the watches are set. Missed events are sent before or after it.
        SetWatches,
        /// The next token.
        Sasl(reply: SaslResponse),
        /// The paths.
        GetEphemerals(reply: GetEphemeralsResponse),
        /// The number of nodes.
        GetAllChildrenNumber(reply: GetAllChildrenNumberResponse),
        /// No body: the watches are set. Missed events are sent before or after it.
        SetWatches2,
        /// An error code of 0.
        AddWatch(reply: ErrorResponse),
        /// The identities.
        WhoAmI(reply: WhoAmIResponse),
        /// No body: the session is closed.
        CloseSession,
    }
    not { CreateSession | Error }
}
