//! Clients of the service: as a client library of ZooKeeper behaves, over connections as the real server has them.
//!
//! ```text
//! guest   the library: sessions, pings, beliefs, watches that are set again      asks  what it asks
//! tells   all of it in words, for scripts
//! desk    the server's end of a connection: who may be answered, reads beside the node
//! ```

mod asks;
mod desk;
mod guest;
mod tells;

pub(crate) use desk::{Desk, Frame};
pub(crate) use guest::{Guest, Word};
