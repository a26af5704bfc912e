//! The disk of one server, in the file formats of Apache ZooKeeper 3.8.
//!
//! It carries out the disk operations of `zab` in order and reports when they are durable. At start it returns what it
//! found. A directory written by Apache opens here, and one written here opens in Apache, so operators can switch in
//! both directions and tools for the one read the other.
//!
//! Call [`open`], pass [`Recovered`] to the protocol, then use either [`Disk::perform`] on your own thread or
//! [`Disk::start`] for a separate one. The layout, byte by byte, is in `docs/storage.md`.
//!
//! ```
//! use pole_jute::{CreateSessionTxn, OpCode, Record, Txn, TxnEntry, TxnHeader};
//! use pole_storage::{Config, open};
//! use pole_types::{Cxid, Epoch, SessionId, Zxid};
//! use pole_zab::{DiskOp, Entry, Origin, Ticket};
//!
//! let dir = std::env::temp_dir().join(format!("pole-storage-example-{}", std::process::id()));
//! # let _ = std::fs::remove_dir_all(&dir);
//! let (mut disk, recovered, _) = open(Config::in_dir(&dir))?;
//! assert_eq!(recovered.standing().last_zxid, Zxid::ZERO);
//!
//! // The body of an entry is a transaction in Apache's format, whose header repeats the zxid.
//! let zxid = Zxid::new(Epoch(1), 1);
//! let op = OpCode::CreateSession.number();
//! let header = TxnHeader { client_id: 7, cxid: 0, zxid: zxid.0.cast_signed(), time: 1_700_000_000_000, op };
//! let txn = TxnEntry { header, txn: Txn::CreateSession(CreateSessionTxn { timeout: 4_000 }), digest: None };
//! let origin = Origin { session: SessionId(7), cxid: Cxid(0) };
//! let entry = Entry { zxid, origin, body: txn.encode() };
//!
//! // A server promises an epoch, adopts it, and appends its first transaction.
//! let ops = [DiskOp::AcceptedEpoch(Epoch(1)), DiskOp::CurrentEpoch(Epoch(1)), DiskOp::Append(vec![entry.clone()])];
//! let mut ops: Vec<_> = (1..).map(Ticket).zip(ops).collect();
//! assert_eq!(disk.perform(&mut ops)?, Some(Ticket(3)), "all three are durable");
//!
//! // After a restart everything is there.
//! drop(disk);
//! let (_disk, recovered, repairs) = open(Config::in_dir(&dir))?;
//! assert_eq!((recovered.current_epoch, recovered.entries), (Epoch(1), vec![entry]));
//! assert!(repairs.is_empty());
//! # std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants:
//! - Operations become durable in order, and each except `Append` and `Truncate` completely or not at all.
//! - After a failed write nothing more is written or reported.
//! - Damage is refused with its location; only an end of the log that was never durable is cut off.
//!
//! The meaning of a transaction or a state (`tree`), the decision when to write one (`zab`, `node`) and elections are
//! elsewhere.

mod backup;
mod blocks;
mod checkpoint;
mod config;
mod disk;
mod epochs;
mod error;
mod event;
mod following;
mod history;
mod inspect;
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
mod stream;
mod tail;
mod volume;
mod writer;

#[cfg(test)]
mod crash;

pub use backup::{InstallError, Installed, install_backup};
pub use config::Config;
pub use disk::Disk;
pub use error::{Damage, FileError, OpenError, Repair, WriteError};
pub use event::{Event, Flush};
pub use following::{is_following, mark_following, unmark_following};
pub use inspect::{Inspection, LogFile, SnapshotFile, Standing, Startup, inspect};
pub use pins::Pins;
pub use pole_zab::Recovered;
pub use reader::{LogReader, SnapshotReader};
pub use recovery::{open, open_into};
pub use state::State;
pub use stream::{NoSnapshot, SnapshotImport, export_snapshot};
pub use volume::Counts;
pub use writer::Writer;
