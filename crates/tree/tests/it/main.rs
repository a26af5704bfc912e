//! The state machine by its doors: requests in, transactions, replies, events and snapshots out.

mod acls;
mod apache;
mod conversations;
mod create;
mod delete;
mod laws;
mod limits;
mod multi;
mod quotas;
mod reads;
mod replay;
mod server;
mod sessions;
mod settings;
mod snapshots;
mod speed;
mod watches;
