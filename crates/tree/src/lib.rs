//! The state machine of the service: znodes, sessions, watches, ACLs, quotas and multi.
//!
//! In: requests, which the leader makes into transactions; transactions, which every server applies. Out: replies, events
//! of watches, snapshots.
//! Why pure: the same transactions must give the same tree on every server, in the simulator and after a restart.
//! Holds: a transaction is validated once and applying it cannot fail; equal histories have equal digests.
//! Not here: clocks, files, sockets, locks, random numbers; and ensembles. Sessions, zxids and cxids are plain numbers.
//! Source: the behaviour of Apache ZooKeeper 3.8, and of 3.9 where its clients can tell.
//!
//! The way of a write: [`Ask`] carries it to the leader, [`Prepared`] validates it against the [`Tree`] and all that is in
//! flight, [`Tree::apply`] changes the tree and collects [`Changes`], [`Watches`] turns them into events. A [`read()`] takes
//! none of these steps. What an operation does at each step stands in one file of `op`.

#![no_std]

extern crate alloc;

mod access;
mod acls;
mod apply;
mod ask;
mod auth;
mod changes;
mod desk;
mod index;
mod node;
mod nodes;
mod op;
mod overlay;
mod owner;
mod path;
mod prepared;
mod quota;
mod read;
mod rules;
mod slab;
mod snapshot;
mod tree;
mod watches;

pub use ask::{Ask, Caller, What};
pub use auth::{AuthFailed, authenticate, digest_id};
pub use changes::{Change, Changes};
pub use op::is_write;
pub use prepared::{From, Position, Prepared, Refusals};
pub use read::read;
pub use rules::Rules;
pub use snapshot::{Frozen, RestoreError, Restorer};
pub use tree::{Applied, SessionChange, Tree};
pub use watches::{Watcher, Watches, WatchesSummary};
