//! Agreement: Zab with a real discovery, so that any server of a quorum may lead, even an outdated one.
//!
//! In: who leads (from `election`), messages of peers, the word that a write is durable, requests made into
//! transactions. Out: messages, writes, and how far the history is committed.
//! Why: scores outrank history, so a leader that is behind pulls what it lacks instead of giving up.
//! Holds: an acknowledgement is sent by the event that says its write is durable, never before; what a quorum
//! acknowledged survives every crash of fewer servers than a quorum.
//! Not here: who leads (`election`), time (`node`), znodes (`tree`), files and sockets (`server`).
//! Source: Junqueira, Reed, Serafini, "Zab: High-performance broadcast for primary-backup systems" (DSN 2011).
//!
//! Calling order: feed events ([`Zab::receive`], [`Zab::written`], [`Zab::link_up`], …), propose, then
//! [`Zab::flush`]; carry out the [`Output`]s in the order in which they come.
#![no_std]

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
pub use entry::{Body, Cxid, Entry, Image, Origin, SessionId, Snapshot};
pub use history::Epochs;
pub use interface::{Error, Limits, NotReady, Output, Phase};
pub use log::Log;
pub use message::{Hello, Message, Promise, SnapshotPart};
pub use pole_election::{Epoch, Proposal, Round, ServerId, Standing, Voters, Zxid};
pub use requests::{Applied, Held, OutOfOrder, Requests};
pub use transfer::TransferId;
pub use zab::Zab;
