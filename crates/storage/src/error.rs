//! Errors at start and while writing, and the repairs that start-up makes by itself.

use pole_types::Zxid;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses it.
    #[error("{} is in use by another server; stop that server, or give this one a directory of its own", .path.display())]
    InUse { path: PathBuf },
    /// An error of the file system.
    #[error(transparent)]
    File(#[from] FileError),
    /// Unexpected or missing bytes.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// A version of the format that is not supported.
    #[error("{}: expected version {expected} of the format, got {got}; a server of another release wrote it, use that release", .path.display())]
    Version { path: PathBuf, expected: i32, got: i64 },
    /// A snapshot compressed by Apache.
    #[error("{}: compressed snapshots are not read here; start Apache ZooKeeper on this directory once without snapshot.compression.method, it then writes a plain one", .path.display())]
    Compressed { path: PathBuf },
    /// A log without the snapshot that it continues.
    #[error("{}: a log, but there is no snapshot in {}: the beginning of the history is missing; check that dataDir is the right one and its disk mounted, and put the snapshots back. If a quorum of the other servers is healthy, move the files of this server away and start: the history is sent by the leader. To start with what the log holds and without everything before it, set snapshot.trust.empty=true for one start", .path.display(), .data_dir.display())]
    NoSnapshot {
        /// The oldest log file.
        path: PathBuf,
        /// The directory in which snapshots are expected.
        data_dir: PathBuf,
    },
    /// Log files in the directory for snapshots or the other way round, though the directories differ.
    #[error("{}: expected only {expected} in this directory; check dataDir and dataLogDir, or move the file to the other one", .path.display())]
    Misplaced { path: PathBuf, expected: &'static str },
    /// A directory that follows another ensemble.
    #[error("{}: this directory follows an ensemble of Apache ZooKeeper and may lack its last transactions; a server starts here after `pole migrate take-over`", .path.display())]
    Following {
        /// The file that says so.
        path: PathBuf,
    },
}

/// Damage at a location in a file. Nothing was deleted or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} at byte {offset}: expected {expected}, got {got}; {ADVICE}", .path.display())]
pub struct Damage {
    pub path: PathBuf,
    /// The byte offset in the file.
    pub offset: u64,
    pub expected: String,
    pub got: String,
}

impl Damage {
    /// A snapshot with a correct checksum that is no valid state.
    pub(crate) fn of_state(path: &Path, got: String) -> Self {
        Self { path: path.into(), offset: 0, expected: "a state".into(), got }
    }
}

/// The advice for every damage. It starts with a copy, because each further step loses something.
const ADVICE: &str = "nothing was changed. Keep a copy of the directory; then, if a quorum of the other servers is \
                      healthy, empty version-2 here and start: the history is sent by the leader. If there is no \
                      other, restore a backup";

/// Why a write failed. Nothing is written after it.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// An error of the file system.
    #[error(transparent)]
    File(#[from] FileError),
    /// The log to be truncated is damaged.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// An entry that does not continue the log: a bug of the caller.
    #[error("the log ends at {last}, and {next} does not follow it")]
    OutOfOrder { last: Zxid, next: Zxid },
    /// An entry whose bytes do not match its zxid.
    #[error("entry {zxid} has {bytes} bytes that are not the transaction of that zxid")]
    Mislabelled {
        zxid: Zxid,
        /// The size of the entry.
        bytes: usize,
    },
    /// A truncation below the newest snapshot, which is committed.
    #[error("truncation to {to}, below the snapshot at {snapshot}")]
    CutsSnapshot {
        /// The requested end of the log.
        to: Zxid,
        /// The newest snapshot.
        snapshot: Zxid,
    },
    /// A part of a snapshot that does not continue what was received, or the end of one that was never started: a bug
    /// of the caller.
    #[error("of the snapshot at {zxid} nothing was received that ends at byte {offset}")]
    NotReceived {
        zxid: Zxid,
        /// The byte offset of the part.
        offset: usize,
    },
    /// An earlier write failed.
    #[error("nothing is written after a failure; it was: {reason}")]
    Earlier { reason: String },
}

/// An error of either reading or writing.
#[derive(Debug)]
pub(crate) enum Fault {
    File(FileError),
    Damaged(Damage),
}

impl From<FileError> for Fault {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl From<Damage> for Fault {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

impl From<Fault> for OpenError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::File(error) => Self::File(error),
            Fault::Damaged(damage) => Self::Damaged(damage),
        }
    }
}

impl From<Fault> for WriteError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::File(error) => Self::File(error),
            Fault::Damaged(damage) => Self::Damaged(damage),
        }
    }
}

/// An error of the file system.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {}: {source}; {}", .path.display(), hint(.source.kind()))]
pub struct FileError {
    /// The operation, as in "cannot {doing} {path}".
    pub doing: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

impl FileError {
    /// For `map_err`: adds the operation and the path.
    pub(crate) fn during(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { doing, path: path.to_owned(), source }
    }
}

/// Advice to the operator.
fn hint(kind: io::ErrorKind) -> &'static str {
    if matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge) {
        "make room on this file system, then start the server again"
    } else if kind == io::ErrorKind::PermissionDenied {
        "give the server's user the right to read and write there"
    } else if kind == io::ErrorKind::ReadOnlyFilesystem {
        "the file system is mounted read-only: look for errors of the disk, mount it again, then start the server"
    } else if kind == io::ErrorKind::NotFound {
        "a file or directory is missing: check dataDir and dataLogDir"
    } else {
        "look for errors of the disk in the system's log, then start the server again"
    }
}

/// A repair made by start-up. It lost nothing that had been reported as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    pub path: PathBuf,
    /// A description of the problem and of the repair.
    pub what: String,
}

impl Repair {
    pub(crate) fn new(path: &Path, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), what: what.into() }
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_operation_file_cause_and_remedy() {
        let error = FileError::during("write to", Path::new("/data/log.1"))(io::ErrorKind::StorageFull.into());
        assert_eq!(
            error.to_string(),
            "cannot write to /data/log.1: no storage space; make room on this file system, then start the server again"
        );
    }
}
