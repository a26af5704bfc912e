//! Reading beside the writer: a log that grows, and a snapshot in place. For other threads than the disk's.

use bytes::Bytes;
use pole_zab::{Entry, Zxid};
use simd_adler32::Adler32;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::records::{Next, Records};
use crate::{FileError, names, snapshot};

/// Reads entries of the log in order, a few at a time.
///
/// What it is asked for must be durable, and kept ([`crate::Pins`]). It remembers where it was, so that reading on does
/// not start at the beginning of a file.
#[derive(Debug)]
pub struct LogReader {
    dir: PathBuf,
    /// The file that was read last, and the position of its last entry that was returned.
    open: Option<(Records, Zxid)>,
}

impl LogReader {
    /// Over the log in this `version-2` directory.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), open: None }
    }

    /// The entries above `after` and none above `through`: about `bytes_max`, and at least one. None if the entry after
    /// `after` is not there.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn read(&mut self, after: Zxid, through: Zxid, bytes_max: usize) -> Result<Vec<Entry>, FileError> {
        if let Some((records, last)) = self.open.take_if(|(_, last)| *last == after) {
            let entries = self.read_file(records, last, through, bytes_max)?;
            if !entries.is_empty() {
                return Ok(entries);
            }
        }
        // The file that `after` lies in, or the one after it.
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

/// Reads the state in a snapshot, piece by piece.
pub struct SnapshotReader {
    file: File,
    path: PathBuf,
    /// Bytes of the state that were not returned yet.
    left: u64,
    checksum: Adler32,
    expected: i64,
}

impl SnapshotReader {
    /// Over the snapshot at `zxid` in this `version-2` directory, which this server wrote.
    ///
    /// # Errors
    /// If the file system refuses, or the file is no snapshot of ours.
    pub fn open(dir: &Path, zxid: Zxid) -> Result<Self, FileError> {
        let path = dir.join(names::snapshot(zxid));
        let mut file = File::open(&path).map_err(FileError::during("open", &path))?;
        let (left, checksum, expected) = snapshot::begin(&mut file).map_err(FileError::during("read", &path))?;
        Ok(Self { file, path, left, checksum, expected })
    }

    /// The next piece; none at the end, which is checked.
    ///
    /// # Errors
    /// If the file system refuses, or the checksum is wrong.
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

/// Large enough that calls do not matter beside the bytes, small beside any state worth reading in pieces.
const PIECE_BYTES: u64 = 1 << 20;
