//! The reasons why a connection fails, or a request.

use std::time::Duration;

/// The reason why a connection or a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A read or a write failed.
    #[error("the connection broke: {0}")]
    Io(#[from] std::io::Error),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// Nothing arrived for this long.
    #[error("the server said nothing for {0:?}")]
    Silent(Duration),
    /// The server no longer has the session.
    #[error("the session has expired")]
    Expired,
    /// The stream is not a valid sequence of frames.
    #[error(transparent)]
    Frame(#[from] pole_jute::FrameError),
    /// The frame is not a valid reply.
    #[error(transparent)]
    Decode(#[from] pole_jute::Error),
    /// The frame is too short or too long for a reply.
    #[error("expected a reply of {least} to {most} bytes, got a length of {declared}")]
    Length {
        /// The length prefix of the frame.
        declared: i32,
        /// The length of a reply header.
        least: usize,
        /// The limit of this client.
        most: usize,
    },
    /// The reply is not for the oldest outstanding request.
    #[error("expected the reply to request {expected}, got that to {got}")]
    Order {
        /// The xid of the oldest request without a reply; 0 if there is none.
        expected: i32,
        /// The xid in the reply.
        got: i32,
    },
    /// An error reply.
    #[error("the server refused: {0}")]
    Refused(pole_jute::ErrorCode),
}

impl Error {
    /// Whether the servers were merely unavailable, so that a retry may succeed. All other errors are wrong answers.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Io(_) | Self::Closed | Self::Silent(_) | Self::Expired => true,
            Self::Frame(_) | Self::Decode(_) | Self::Length { .. } | Self::Order { .. } | Self::Refused(_) => false,
        }
    }
}
