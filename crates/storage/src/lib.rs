//! Storage: the disk of one server, in the files of Apache ZooKeeper 3.8.
//!
//! In: the disk operations of `zab`, in order. Out: the word that they are durable; at start what was found.
//! Why these files: a directory that Apache wrote opens here, and one that we wrote opens there, so that nobody is
//! locked in and every tool for the one reads the other.
//! Holds: operations become durable in order, each but `Append` all or nothing; after a failed write nothing more is
//! written or reported; what is damaged is refused with its place, and only an end that was never durable is cut off.
//! Not here: what a transaction or a state means (`tree`), when to write one (`zab`, `node`), who leads.
//!
//! Calling order: [`open`]; give [`Recovered`] to the protocol; then either [`Disk::perform`] on your own thread or
//! [`Disk::start`] for a thread of its own. The layout, byte by byte, is in `docs/storage.md`.

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
