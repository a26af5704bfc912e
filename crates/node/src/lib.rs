//! One server as a pure state machine: events and the current time go in, effects come out.
//!
//! The driver passes [`Event`]s in the order in which they happen and carries out [`Effect`]s in the order given. The
//! module `event` states the driver's side of the contract in full.
//!
//! The same code runs under tokio and under the simulator, where time is a number and every fault can be injected.
//!
//! How a leader is chosen (`election`), what makes a good one (`oracle`), agreement (`zab`), threads and files are
//! elsewhere.
#![no_std]

extern crate alloc;

#[cfg(test)]
mod bad_peers;
mod checkpoints;
mod clients;
mod config;
mod connection;
mod contract;
mod disk_watch;
mod event;
mod handover;
mod inspect;
mod leadership_changes;
mod lease;
mod liveness;
mod machine;
mod node;
mod roles;
mod scoring;
mod serving;
mod sessions;
mod syncs;
mod transfers;
mod znodes;

pub use config::Config;
pub use connection::{
    AttachAnswer, CallContext, CloseReason, Connection, Counts, Latency, Limits, Next, RequestTotals, ServerContext,
    UNREAD_BYTES_MAX, password,
};
pub use contract::Contract;
pub use event::{Channel, ClientId, Effect, Event, Message, Note, Request, Timer};
pub use inspect::Queues;
pub use leadership_changes::{ChangeStatus, LeadershipChange, Milestone};
pub use lease::Lease;
pub use machine::{Machine, Outcome, ReadResult};
pub use node::Node;
pub use znodes::{ORACLE_PATH, TreeStore, Znodes};
