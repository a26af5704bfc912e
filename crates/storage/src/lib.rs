//! The disk of one server, in the file formats of Apache ZooKeeper 3.8.
//!
//! It carries out the disk operations of `zab` in order and reports when they are durable. At start it returns what it
//! found. A directory written by Apache opens here, and one written here opens in Apache, so operators can switch in
//! both directions and tools for the one read the other.
//!
//! Call [`open`], pass [`Recovered`] to the protocol, then use either [`Disk::perform`] on your own thread or
//! [`Disk::start`] for a separate one. The layout, byte by byte, is in `docs/storage.md`.
//!
//! Invariants:
//! - Operations become durable in order, and each except `Append` and `Truncate` completely or not at all.
//! - After a failed write nothing more is written or reported.
//! - Damage is refused with its location; only an end of the log that was never durable is cut off.
//!
//! The meaning of a transaction or a state (`tree`), the decision when to write one (`zab`, `node`) and elections are
//! elsewhere.

mod blocks;
mod checkpoint;
mod config;
mod disk;
mod epochs;
mod error;
mod event;
mod history;
mod intent;
mod locks;
mod log;
mod names;
mod pins;
mod progress;
mod purge;
mod reader;
mod records;
mod recovery;
mod snapshot;
mod state;
mod tail;
mod volume;
mod writer;

#[cfg(test)]
mod crash;

pub use config::Config;
pub use disk::Disk;
pub use error::{Damage, FileError, OpenError, Repair, WriteError};
pub use event::Event;
pub use pins::Pins;
pub use pole_zab::Recovered;
pub use reader::{LogReader, SnapshotReader};
pub use recovery::{open, open_into};
pub use state::State;
pub use volume::Counts;
pub use writer::Writer;
