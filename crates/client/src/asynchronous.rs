//! The client under tokio, on one thread.
//!
//! [`Connection`] is one socket; [`Session`] survives broken connections, like the client of an application.

mod connection;
mod session;

pub use connection::Connection;
pub use session::{Answer, Event, Refusal, Session, Timing};
