//! What a server answers when it does not do what it was asked.

use core::fmt;

use crate::numbered::numbered;

numbered! {
    /// The outcome of a request, as in Apache's `KeeperException`. From -1 to -100 the system's failures, from -100 on
    /// the client's.
    "the number of an error"
    pub enum ErrorCode {
        /// Done.
        Ok = 0,
        /// A server is broken; also the mark that system failures begin here.
        SystemError = -1,
        /// In a failed multi: not tried, because an earlier operation failed.
        RuntimeInconsistency = -2,
        /// The data contradicts itself.
        DataInconsistency = -3,
        /// The connection was lost; made by clients.
        ConnectionLoss = -4,
        /// The request could not be read.
        MarshallingError = -5,
        /// No such operation here.
        Unimplemented = -6,
        /// No answer in time.
        OperationTimeout = -7,
        /// An argument makes no sense.
        BadArguments = -8,
        /// No such session; between servers.
        UnknownSession = -12,
        /// No quorum of the new configuration is connected.
        NewConfigNoQuorum = -13,
        /// Another reconfiguration is under way.
        ReconfigInProgress = -14,
        /// The mark that the client's failures begin here.
        ApiError = -100,
        /// The node does not exist.
        NoNode = -101,
        /// Not permitted.
        NoAuth = -102,
        /// The version is another.
        BadVersion = -103,
        /// An ephemeral node has no children.
        NoChildrenForEphemerals = -108,
        /// The node exists.
        NodeExists = -110,
        /// The node has children.
        NotEmpty = -111,
        /// The session is over.
        SessionExpired = -112,
        /// A callback of an unknown kind; made by clients.
        InvalidCallback = -113,
        /// The ACL makes no sense.
        InvalidAcl = -114,
        /// The identity was refused.
        AuthFailed = -115,
        /// The session is attached to another server.
        SessionMoved = -118,
        /// A write to a read-only server.
        NotReadOnly = -119,
        /// A local session has no ephemeral nodes.
        EphemeralOnLocalSession = -120,
        /// No such watch.
        NoWatcher = -121,
        /// No answer in time; made by clients.
        RequestTimeout = -122,
        /// Reconfiguration is switched off.
        ReconfigDisabled = -123,
        /// The server wants SASL.
        SessionClosedRequireSaslAuth = -124,
        /// Over the quota.
        QuotaExceeded = -125,
        /// Too many requests under way.
        ThrottledOp = -127,
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?} ({})", self.number())
    }
}
