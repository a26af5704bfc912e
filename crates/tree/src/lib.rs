//! The state machine of the service: znodes, sessions, watches, ACLs, quotas and multi.
//!
//! The leader turns requests into transactions, and every server applies them. Replies, watch events and snapshots
//! come out.
//!
//! A write takes these steps: [`WriteRequest`] carries it to the leader, [`Prepared`] validates it against the
//! [`Tree`] and all transactions in flight, [`Tree::apply`] changes the tree and collects [`Changes`], and
//! [`Watches`] turns those into events. A [`read()`] takes none of these steps. Each operation has one file in `op`,
//! which covers all of its steps.
//!
//! Invariants: a transaction is validated once, and applying it cannot fail; equal histories have equal digests.
//!
//! The crate is pure, because the same transactions must give the same tree on every server, in the simulator and
//! after a restart. It has no clocks, files, sockets, locks or random numbers and knows nothing of ensembles.
//! Sessions, zxids and cxids are plain numbers.
//!
//! The behaviour is that of Apache ZooKeeper 3.8, and of 3.9 where its clients can observe a difference.

#![no_std]

extern crate alloc;

mod access;
mod acls;
mod apply;
mod auth;
mod changes;
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
mod validation;
mod watches;
mod write_request;

pub use auth::{AuthFailed, authenticate, digest_id};
pub use changes::{Change, Changes};
pub use op::is_write;
pub use prepared::{Position, Prepared, Refusals, RequestOrigin};
pub use read::read;
pub use rules::Rules;
pub use snapshot::{Frozen, RestoreError, Restorer};
pub use tree::{Applied, SessionChange, Tree};
pub use watches::{Watcher, Watches, WatchesSummary};
pub use write_request::{Caller, Operation, WriteRequest};
