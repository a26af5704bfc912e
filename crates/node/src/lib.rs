//! One server as a pure machine: events and `now` go in, effects come out.
//!
//! In: [`Event`]s, in the order in which they happen. Out: [`Effect`]s, to be carried out in the order given.
//! Why: the same code runs under tokio and under the simulator, where time is a number and every fault can be had.
//! Holds: what the module `event` says of the driver's side of the contract is all that it needs.
//! Not here: how a leader is chosen (`election`), what a good one is (`oracle`), agreement (`zab`), tokio, files.
#![no_std]

extern crate alloc;

mod accounts;
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
mod lease;
mod liveness;
mod looking;
mod machine;
mod node;
mod roles;
mod scoring;
mod serving;
mod sessions;
mod syncs;
mod transfers;
mod znodes;

pub use accounts::{Account, Ended, Milestone};
pub use config::Config;
pub use connection::{
    AttachAnswer, CloseReason, Connection, Counts, Latency, Limits, Moment, Next, Settled, Surroundings,
    UNREAD_BYTES_MAX, password,
};
pub use contract::Contract;
pub use event::{Channel, ClientId, Effect, Event, Message, Note, Request, Timer};
pub use lease::Lease;
pub use looking::Queues;
pub use machine::{Machine, Outcome, Told};
pub use node::Node;
pub use znodes::{ORACLE_PATH, Shelf, Znodes};
