//! ZooKeeper clients: they behave as ZooKeeper's client libraries do, over connections like those of the real server.
//!
//! ```text
//! client       the library: sessions, pings, timeouts, watches that are set again
//! requests     draws requests
//! describe     descriptions for scripts
//! connections  the server's end of a connection: the machine of `node`, driven by the simulator's network
//! ```

mod client;
mod connections;
mod describe;
mod requests;

pub(crate) use client::{FromServer, SimClient};
pub(crate) use connections::{ServerEnd, ToServer};
