//! Agreement on one history of transactions: Zab with a discovery phase that lets an outdated server lead.
//!
#![doc = include_str!("../README.md")]
//!
//! ## The code
//!
//! [`Zab`] has a state that does not depend on the role (`state`), and a role (`following`, `leading`) whose handlers get
//! that state. Its inputs are [`Zab::receive`], [`Zab::written`], [`Zab::link_up`] and others, its outputs are listed in
//! [`Output`].
//!
//! Invariants:
//! - An acknowledgement is emitted only by the event that reports its write as durable.
//! - What a quorum has acknowledged survives every crash of fewer servers than a quorum.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;

mod checks;
mod direct;
mod disk;
mod entry;
mod following;
mod history;
mod incoming;
mod interface;
mod leading;
mod log;
mod members;
mod message;
mod plan;
mod requests;
mod role;
mod state;
mod transfer;
mod writes;
mod zab;

pub use disk::{DiskOp, Recovered, Ticket};
pub use entry::{Body, Entry, Image, Origin, Snapshot};
pub use history::Epochs;
pub use interface::{Error, Limits, NotReady, Output, Phase};
pub use log::Log;
pub use members::MembersOf;
pub use message::{Hello, Message, Promise, SnapshotPart};
pub use pole_election::{Proposal, Round, Standing};
pub use requests::{Applied, HeldRequest, OutOfOrder, Requests};
pub use transfer::TransferId;
pub use zab::Zab;
