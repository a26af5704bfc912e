//! Concurrent readers of a growing log and of an installed snapshot, for threads other than the disk's.

use bytes::Bytes;
use pole_types::Zxid;
use pole_zab::Entry;
use simd_adler32::Adler32;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::records::{Next, Records};
use crate::{FileError, names, snapshot};

/// Reads entries of the log in order, a few at a time.
///
/// The requested entries must be durable and kept ([`crate::Pins`]). The reader remembers its position, so that
/// continuing does not start at the beginning of a file.
#[derive(Debug)]
pub struct LogReader {
    dir: PathBuf,
    /// The file that was read last, and its last entry that was returned.
    open: Option<(Records, Zxid)>,
}

impl LogReader {
    /// Reads the log in this `version-2` directory.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), open: None }
    }

    /// Returns entries above `after` and up to `through`: about `bytes_max` bytes, and at least one entry. Returns none
    /// if the entry after `after` does not exist.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn read(&mut self, after: Zxid, through: Zxid, bytes_max: usize) -> Result<Vec<Entry>, FileError> {
        if let Some((records, last)) = self.open.take_if(|(_, last)| *last == after) {
            let entries = self.read_file(records, last, through, bytes_max)?;
            if !entries.is_empty() {
                return Ok(entries);
            }
        }
        // The file that contains `after`, or the one after it.
        let files = names::logs(&self.dir)?;
        let first = files.iter().rposition(|(first, _)| *first <= after).unwrap_or(0);
        for (_, path) in &files[first..] {
            let entries = self.read_file(Records::open(path)?, after, through, bytes_max)?;
            if !entries.is_empty() {
                return Ok(entries);
            }
        }
        Ok(Vec::new())
    }

    fn read_file(
        &mut self,
        mut records: Records,
        after: Zxid,
        through: Zxid,
        bytes_max: usize,
    ) -> Result<Vec<Entry>, FileError> {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        while bytes < bytes_max
            && entries.last().is_none_or(|last: &Entry| last.zxid < through)
            && let Next::Entry(entry) = records.next()?
        {
            if entry.zxid > through {
                break;
            }
            if entry.zxid > after {
                bytes += entry.cost_bytes();
                entries.push(entry);
            }
        }
        self.open = entries.last().map(|last| (records, last.zxid));
        Ok(entries)
    }
}

/// Reads the state of a snapshot in pieces.
pub struct SnapshotReader {
    file: File,
    path: PathBuf,
    /// The number of bytes of the state that were not returned yet.
    left: u64,
    checksum: Adler32,
    expected: i64,
}

impl SnapshotReader {
    /// Opens the snapshot at `zxid` in this `version-2` directory, which this server wrote.
    ///
    /// # Errors
    /// If the file system fails, or the file is no snapshot of ours.
    pub fn open(dir: &Path, zxid: Zxid) -> Result<Self, FileError> {
        let path = dir.join(names::snapshot(zxid));
        let mut file = File::open(&path).map_err(FileError::during("open", &path))?;
        let (left, checksum, expected) = snapshot::begin(&mut file).map_err(FileError::during("read", &path))?;
        Ok(Self { file, path, left, checksum, expected })
    }

    /// Returns the next piece, or `None` at the end, after the checksum was verified.
    ///
    /// # Errors
    /// If the file system fails, or the checksum is wrong.
    pub fn next_piece(&mut self) -> Result<Option<Bytes>, FileError> {
        let failed = || FileError::during("read", &self.path);
        if self.left == 0 {
            let got = i64::from(self.checksum.finish());
            if got != self.expected {
                let what = format!("the checksum is {got:#x}, expected {:#x}", self.expected);
                return Err(failed()(std::io::Error::other(what)));
            }
            return Ok(None);
        }
        let mut piece = vec![0; self.left.min(PIECE_BYTES) as usize];
        self.file.read_exact(&mut piece).map_err(failed())?;
        self.checksum.write(&piece);
        self.left -= piece.len() as u64;
        Ok(Some(piece.into()))
    }
}

impl fmt::Debug for SnapshotReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotReader").field("path", &self.path).field("left", &self.left).finish_non_exhaustive()
    }
}

/// Large enough to make the cost of system calls negligible, and small compared to any state worth reading in pieces.
const PIECE_BYTES: u64 = 1 << 20;
