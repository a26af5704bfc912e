//! Clients of the service: as a client library of ZooKeeper behaves, over connections as the real server has them.
//!
//! ```text
//! guest   the library: sessions, pings, beliefs, watches that are set again      asks  what it asks
//! tells   all of it in words, for scripts
//! connections  the server's end of a connection: the machine of `node`, driven with the simulator's network
//! ```

mod asks;
mod connections;
mod guest;
mod tells;

pub(crate) use connections::{ServerEnd, ToServer};
pub(crate) use guest::{FromServer, Guest};
