//! Tests of the state machine through its public API: requests go in; transactions, replies, events and snapshots
//! come out.

mod acls;
mod apache;
mod conversations;
mod create;
mod delete;
mod difference;
mod laws;
mod limits;
mod multi;
mod quotas;
mod reads;
mod reconfig;
mod replay;
mod server;
mod sessions;
mod settings;
mod snapshots;
mod speed;
mod watches;
