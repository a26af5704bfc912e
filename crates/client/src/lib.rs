//! A ZooKeeper client: the protocol without sockets, and two drivers that run it on sockets.
//!
//! It serves our own tests, load generators and tools. They need what a client library hides: which connection a
//! request was sent on, whether it was sent at all, and the bytes themselves. It is also another implementation than
//! the clients that users run, which `compat` covers.
//!
//! The protocol is three values, none of which does I/O or reads a clock:
//!
//! - [`Frames`] holds the bytes of one connection. It encodes requests and splits what arrived into replies.
//! - [`SessionState`] survives connections. It numbers requests, matches replies with them, and knows what a server
//!   must be told on the next connection: the session, the last zxid seen, identities and watches.
//! - [`KeepAlive`] says when a ping is due and when a server has been silent for too long.
//!
//! [`blocking`] drives them on any stream, with one request after the other. `asynchronous` (feature `tokio`) has a
//! session in a task of its own that pings and reconnects, and connections for load generators, which use [`Frames`]
//! alone.
//!
//! Replies are matched with requests in the order sent, as the protocol guarantees; anything else is an error. The
//! outcome of a request whose connection broke is unknown: it may have taken effect.
//!
//! ```no_run
//! use std::time::Duration;
//! use pole_client::{blocking::Session, create, exists};
//! use pole_jute::CreateMode;
//!
//! let mut session = Session::connect("127.0.0.1:2181".parse()?, Duration::from_secs(10))?;
//! session.ask(create("/a", b"data", CreateMode::Ephemeral))?;
//! assert!(session.ask(exists("/a")).is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "tokio")]
pub mod asynchronous;
pub mod blocking;
mod error;
mod frames;
mod keep_alive;
mod request;
mod session;
mod watches;

pub use error::Error;
pub use frames::{Frames, connect_frame, decode_reply, decode_session, request_frame, template};
pub use keep_alive::{Due, KeepAlive};
pub use request::{
    add_auth, children, connect_request, create, delete, exists, get_data, open_acl, set_data, set_data_at, sync,
};
pub use session::{Completed, Received, SessionState};
