//! Agreement on one history of transactions: Zab with a discovery phase that lets an outdated server lead.
//!
//! [`Zab`] is a value. Its inputs are the leader chosen by `election`, messages of peers, completed writes and
//! validated transactions. Its outputs are messages, writes, and the position up to which the history is committed.
//! Call it in this order: feed events ([`Zab::receive`], [`Zab::written`], [`Zab::link_up`], …), propose, then call
//! [`Zab::flush`]. Carry out the [`Output`]s in the order given.
//!
//! In Pole the election ranks servers by score and not by history. A leader that is behind therefore pulls what it
//! lacks from its quorum instead of stepping down.
//!
//! Invariants:
//! - An acknowledgement is emitted only by the event that reports its write as durable.
//! - What a quorum has acknowledged survives every crash of fewer servers than a quorum.
//!
//! This crate does not choose the leader (`election`), keep time (`node`), know znodes (`tree`), or use files and
//! sockets (`server`). It follows Junqueira, Reed, Serafini, "Zab: High-performance broadcast for primary-backup
//! systems" (DSN 2011).
#![no_std]
#![warn(missing_docs)]

extern crate alloc;

mod disk;
mod entry;
mod following;
mod history;
mod incoming;
mod interface;
mod leading;
mod log;
mod message;
mod plan;
mod requests;
mod transfer;
mod zab;

pub use disk::{DiskOp, Recovered, Ticket};
pub use entry::{Body, Entry, Image, Origin, Snapshot};
pub use history::Epochs;
pub use interface::{Error, Limits, NotReady, Output, Phase};
pub use log::Log;
pub use message::{Hello, Message, Promise, SnapshotPart};
pub use pole_election::{Proposal, Round, Standing};
pub use requests::{Applied, HeldRequest, OutOfOrder, Requests};
pub use transfer::TransferId;
pub use zab::Zab;
