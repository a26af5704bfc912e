//! Reasons for closing a connection, and the answer to a request for a session.

use core::fmt;

use pole_jute::{Error, FrameError};

use super::SaslError;

/// Why a client's connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client closed it.
    ByClient,
    /// The socket failed.
    SocketFailed,
    /// A four-letter word was answered; nothing follows it.
    FourLetterWordAnswered,
    /// The session was closed or has expired.
    SessionEnded,
    /// The client asked to resume a session that no longer exists.
    SessionExpired,
    /// The session is now attached through another server.
    SessionMoved,
    /// The session is now attached through a newer connection to this server.
    SessionAttachedAgain,
    /// The state was replaced by a snapshot, which holds neither replies nor watch events.
    SnapshotInstalled,
    /// There was no leader for longer than `pole.patienceMs`.
    NoLeader,
    /// The client has seen a later state than this server has.
    ClientAhead,
    /// There is no quorum, and the client does not accept a read-only server.
    NoQuorum,
    /// A read-only session ends when there is a quorum again.
    QuorumRegained,
    /// The password does not belong to the session.
    WrongPassword,
    /// The scheme is unknown, or the credentials are wrong.
    AuthenticationFailed,
    /// The client did not authenticate by SASL.
    SaslFailed(SaslError),
    /// The client has no identity of a scheme that the operator requires.
    AuthenticationRequired,
    /// The client expects an ensemble of another name.
    OtherEnsemble,
    /// The identities of the connection exceed [`super::Limits::identity_bytes_max`].
    TooManyIdentities,
    /// The operation code is unknown to ZooKeeper.
    UnknownOperation,
    /// The protocol reserves the xid.
    ReservedXid,
    /// A frame is longer than `jute.maxbuffer`.
    BadFrame(FrameError),
    /// A record cannot be read.
    BadRecord(Error),
    /// The first request did not arrive in time.
    SlowGreeting,
    /// The client read no bytes for as long as its session timeout.
    ClientStalled,
    /// The leader serves no clients (`leaderServes`).
    LeaderDoesNotServe,
    /// More clients ask for sessions than `connectionMaxTokens` allows.
    ConnectionThrottled,
    /// The large requests that are outstanding exceed `largeRequestMaxBytes`.
    LargeRequest,
    /// The client requests more than it reads.
    OutputLimit,
    /// Too many connections have not sent their first request; the oldest is closed.
    GreetingLimit,
    /// The server answered requests out of order: a bug.
    OutOfOrder,
    /// The server is shutting down.
    Stopping,
}

impl CloseReason {
    /// Whether this is the normal end of a connection, which is not logged.
    #[must_use]
    pub fn is_ordinary(&self) -> bool {
        matches!(self, Self::ByClient | Self::FourLetterWordAnswered | Self::SessionEnded)
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByClient => "closed by the client",
            Self::SocketFailed => "the socket failed",
            Self::FourLetterWordAnswered => "a four-letter word was answered",
            Self::SessionEnded => "the session has ended",
            Self::SessionExpired => "the session is over",
            Self::SessionMoved => "the session moved",
            Self::SessionAttachedAgain => "the session was attached again",
            Self::SnapshotInstalled => "the state was replaced by a snapshot",
            Self::NoLeader => "no leader within the patience",
            Self::ClientAhead => "the client has seen more than this server has: it must try another",
            Self::NoQuorum => "there is no quorum, and the client does not accept a read-only server",
            Self::QuorumRegained => "there is a quorum again",
            Self::WrongPassword => "the password is not that of the session",
            Self::AuthenticationFailed => "authentication failed",
            Self::AuthenticationRequired => "the client has not authenticated, and enforce.auth.schemes requires it",
            Self::OtherEnsemble => "the client expects another ensemble (ensembleAuthName)",
            Self::TooManyIdentities => "too many identities (pole.client.identityBytesMax)",
            Self::UnknownOperation => "ZooKeeper has no such operation",
            Self::ReservedXid => "the xid of the request is reserved",
            Self::SlowGreeting => "no request within the time limit (pole.client.greetingTimeoutMs)",
            Self::ClientStalled => "the client took no bytes for the whole of its session timeout",
            Self::LeaderDoesNotServe => "this server leads and serves no clients (leaderServes)",
            Self::ConnectionThrottled => "too many clients ask for sessions (connectionMaxTokens)",
            Self::LargeRequest => "too many bytes of large requests (largeRequestMaxBytes)",
            Self::OutputLimit => "the client asks for more than it reads (pole.client.outputBytesMax)",
            Self::GreetingLimit => "too many connections without a session (pole.client.greetingsMax)",
            Self::OutOfOrder => "the server answered out of order: please report it",
            Self::Stopping => "the server stops",
            Self::SaslFailed(error) => return write!(f, "authentication by SASL failed: {error}"),
            Self::BadFrame(error) => return error.fmt(f),
            Self::BadRecord(error) => return error.fmt(f),
        })
    }
}

impl From<FrameError> for CloseReason {
    fn from(error: FrameError) -> Self {
        Self::BadFrame(error)
    }
}

impl From<Error> for CloseReason {
    fn from(error: Error) -> Self {
        Self::BadRecord(error)
    }
}

/// The answer to a request for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachAnswer {
    /// The connection has its session.
    Opened {
        /// The negotiated session timeout.
        timeout_ms: i32,
    },
    /// The session to be resumed does not exist.
    Expired,
}
