//! The driver of `node`: client, quorum and election ports, the disk thread, admin HTTP and metrics.

pub mod config;
pub mod peer;
pub mod tls;
