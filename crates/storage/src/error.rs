//! What can go wrong on a disk: at start, while writing; and what start-up mended by itself.

use pole_zab::Zxid;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("{} is in use by another server; stop that server, or give this one a directory of its own", .path.display())]
    InUse {
        /// The lock file.
        path: PathBuf,
    },
    /// The file system refuses.
    #[error(transparent)]
    File(#[from] FileError),
    /// Bytes that should not be there, or are missing.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// A format that is not ours.
    #[error("{}: expected version {expected} of the format, got {got}; a server of another release wrote it, use that release", .path.display())]
    Version {
        /// The file or directory.
        path: PathBuf,
        /// What we read and write.
        expected: i32,
        /// What is there.
        got: i64,
    },
    /// A snapshot that Apache compressed.
    #[error("{}: compressed snapshots are not read here; start Apache ZooKeeper on this directory once without snapshot.compression.method, it then writes a plain one", .path.display())]
    Compressed {
        /// The file.
        path: PathBuf,
    },
    /// A log without the snapshot that it continues.
    #[error("{}: a log, but there is no snapshot in {}: the beginning of the history is missing; check that dataDir is the right one and its disk mounted, and put the snapshots back. If a quorum of the other servers is healthy, move the files of this server away and start: the history is sent by the leader. To start with what the log holds and without everything before it, set snapshot.trust.empty=true for one start", .path.display(), .data_dir.display())]
    NoSnapshot {
        /// The oldest log file.
        path: PathBuf,
        /// Where snapshots are looked for.
        data_dir: PathBuf,
    },
    /// Files of the log among the snapshots or the other way round, though the directories differ.
    #[error("{}: expected only {expected} in this directory; check dataDir and dataLogDir, or move the file to the other one", .path.display())]
    Misplaced {
        /// The file.
        path: PathBuf,
        /// What belongs there.
        expected: &'static str,
    },
}

/// A place in a file that is not what it must be. Nothing was deleted or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} at byte {offset}: expected {expected}, got {got}; {ADVICE}", .path.display())]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where in it.
    pub offset: u64,
    /// What had to be there.
    pub expected: String,
    /// What is there.
    pub got: String,
}

impl Damage {
    /// A snapshot whose checksum is right, but which is no state.
    pub(crate) fn of_state(path: &Path, got: String) -> Self {
        Self { path: path.into(), offset: 0, expected: "a state".into(), got }
    }
}

/// The same for every damage: a copy first, because each further step loses something.
const ADVICE: &str = "nothing was changed. Keep a copy of the directory; then, if a quorum of the other servers is \
                      healthy, empty version-2 here and start: the history is sent by the leader. If there is no \
                      other, restore a backup";

/// Why a write failed. Nothing is written after it.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file system refuses.
    #[error(transparent)]
    File(#[from] FileError),
    /// What has to be cut is not what was written.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// An entry that does not continue the log: a mistake of whoever asked for it.
    #[error("the log ends at {last}, and {next} does not follow it")]
    OutOfOrder {
        /// The last entry.
        last: Zxid,
        /// The one after it.
        next: Zxid,
    },
    /// An entry whose bytes say something else than it does.
    #[error("entry {zxid} has {bytes} bytes that are not the transaction of that zxid")]
    Mislabelled {
        /// The entry.
        zxid: Zxid,
        /// Their number.
        bytes: usize,
    },
    /// A truncation into what is known to be committed.
    #[error("truncation to {to}, below the snapshot at {snapshot}")]
    CutsSnapshot {
        /// The last entry that was to stay.
        to: Zxid,
        /// The newest snapshot.
        snapshot: Zxid,
    },
    /// A part of a snapshot that does not continue what was received, or the end of one that never began: a mistake of
    /// whoever asked for it.
    #[error("of the snapshot at {zxid} nothing was received that ends at byte {offset}")]
    NotReceived {
        /// The snapshot.
        zxid: Zxid,
        /// Where the part begins.
        offset: usize,
    },
    /// An earlier write failed.
    #[error("nothing is written after a failure; it was: {reason}")]
    Earlier {
        /// The first failure.
        reason: String,
    },
}

/// What both reading and writing can meet.
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

/// The file system refuses.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {}: {source}; {}", .path.display(), hint(.source.kind()))]
pub struct FileError {
    /// What was tried.
    pub doing: &'static str,
    /// On which file or directory.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl FileError {
    /// For `map_err`: what was tried on which path.
    pub(crate) fn during(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { doing, path: path.to_owned(), source }
    }
}

/// What the operator can do.
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

/// Something that start-up mended. It lost nothing that had been reported as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The file.
    pub path: PathBuf,
    /// What was wrong and what was done about it.
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
    fn an_error_says_what_where_why_and_what_to_do() {
        let error = FileError::during("write to", Path::new("/data/log.1"))(io::ErrorKind::StorageFull.into());
        assert_eq!(
            error.to_string(),
            "cannot write to /data/log.1: no storage space; make room on this file system, then start the server again"
        );
    }
}
