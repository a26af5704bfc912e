//! Everything that a server can answer, and the events it sends unasked.

use crate::closed::closed;
use crate::{
    Create2Response, CreateResponse, ErrorResponse, ExistsResponse, GetAclResponse, GetAllChildrenNumberResponse,
    GetChildren2Response, GetChildrenResponse, GetDataResponse, GetEphemeralsResponse, MultiReadResponse,
    MultiResponse, SaslResponse, SetAclResponse, SetDataResponse, SyncResponse, WatcherEvent, WhoAmIResponse,
};

closed! {
    /// The body of a reply to a request that went well. One that did not has a [`crate::ReplyHeader`] and no body.
    ///
    /// The answer to a [`crate::ConnectRequest`] is a [`crate::ConnectResponse`] and has no header.
    pub enum Reply {
        /// A watch event, after [`crate::ReplyHeader::notification`].
        Notification(event: WatcherEvent),
        /// The path, with its suffix if it is sequential.
        Create(reply: CreateResponse),
        /// Deleted.
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
        /// The names.
        GetChildren(reply: GetChildrenResponse),
        /// The path, as it came.
        Sync(reply: SyncResponse),
        /// Alive.
        Ping,
        /// Names and stat.
        GetChildren2(reply: GetChildren2Response),
        /// The stat.
        Check(reply: SetDataResponse),
        /// The results; also when it failed.
        Multi(reply: MultiResponse),
        /// Path and stat.
        Create2(reply: Create2Response),
        /// Data and stat of the configuration.
        Reconfig(reply: GetDataResponse),
        /// It is set.
        CheckWatches,
        /// They are gone.
        RemoveWatches,
        /// Path and stat.
        CreateContainer(reply: Create2Response),
        /// Deleted.
        DeleteContainer,
        /// Path and stat.
        CreateTtl(reply: Create2Response),
        /// The results.
        MultiRead(reply: MultiReadResponse),
        /// Accepted.
        Auth,
        /// Set; events that were missed follow or came before.
        SetWatches,
        /// The next token.
        Sasl(reply: SaslResponse),
        /// The paths.
        GetEphemerals(reply: GetEphemeralsResponse),
        /// The number.
        GetAllChildrenNumber(reply: GetAllChildrenNumberResponse),
        /// Set; events that were missed follow or came before.
        SetWatches2,
        /// An error code of 0.
        AddWatch(reply: ErrorResponse),
        /// The identities.
        WhoAmI(reply: WhoAmIResponse),
        /// Closed.
        CloseSession,
    }
    not { CreateSession | Error }
}
