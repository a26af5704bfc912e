//! All operations that change files, each in one place.
//!
//! This makes it possible to count them, to name the path in every error, and in tests to record them, to simulate a
//! crash after any step, and to make any step fail.

use rustix::fs::{FallocateFlags, OFlags, fallocate, fcntl_setfl};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::FileError;

/// Statistics of the disk since start.
#[derive(Debug, Default)]
pub struct Counts {
    writes: AtomicU64,
    written_bytes: AtomicU64,
    syncs: AtomicU64,
}

impl Counts {
    /// The number of writes to logs, snapshots and epoch files.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// The number of bytes in these writes.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// The number of syncs of files and directories.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }
}

/// Access to the files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Volume {
    counts: Arc<Counts>,
    #[cfg(test)]
    trace: crate::crash::Trace,
    #[cfg(test)]
    faults: crate::crash::Faults,
}

/// A file operation, for the tests that make it fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Write,
    Allocate,
    SetLength,
    Sync,
    Rename,
    Remove,
    SyncDirectory,
}

impl Volume {
    #[cfg(test)]
    pub(crate) fn recorded_by(trace: &crate::crash::Trace) -> Self {
        Self { trace: trace.clone(), ..Self::default() }
    }

    #[cfg(test)]
    pub(crate) fn failing(faults: &crate::crash::Faults) -> Self {
        Self { faults: faults.clone(), ..Self::default() }
    }

    /// Fails if a test has injected a failure of this operation.
    #[cfg(test)]
    pub(crate) fn attempt(&self, operation: Operation, path: &Path) -> io::Result<()> {
        self.faults.attempt(operation, path)
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "the same call can fail in tests")]
    pub(crate) fn attempt(&self, _: Operation, _: &Path) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// Creates an empty file; an existing one is truncated.
    pub(crate) fn create(&self, path: &Path) -> Result<Output, FileError> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let open = || self.attempt(Operation::Create, path).and_then(|()| options.open(path));
        let file = open().map_err(FileError::during("create", path))?;
        self.record(|| Effect::Create(path.into()));
        Ok(Output { volume: self.clone(), file, path: path.into() })
    }

    /// Creates an empty file for direct I/O, if the file system supports it.
    pub(crate) fn create_direct(&self, path: &Path) -> Result<Output, FileError> {
        let mut output = self.create(path)?;
        let direct = OpenOptions::new().write(true).custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path);
        if let Ok(file) = direct {
            output.file = file;
        }
        Ok(output)
    }

    /// Opens a file to be read and overwritten, or creates an empty one.
    pub(crate) fn open_or_create(&self, path: &Path) -> Result<Output, FileError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let create =
            || self.attempt(Operation::Create, path).and_then(|()| options.clone().create_new(true).open(path));
        let file = match create() {
            Ok(file) => {
                self.record(|| Effect::Create(path.into()));
                Ok(file)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(path),
            Err(error) => Err(error),
        };
        let file = file.map_err(FileError::during("open", path))?;
        Ok(Output { volume: self.clone(), file, path: path.into() })
    }

    /// Opens an existing file to be changed.
    pub(crate) fn modify(&self, path: &Path) -> Result<Output, FileError> {
        let file = OpenOptions::new().write(true).open(path).map_err(FileError::during("open", path))?;
        Ok(Output { volume: self.clone(), file, path: path.into() })
    }

    /// Renames a file and replaces an existing one. Durable after the directory is synced.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> Result<(), FileError> {
        let rename = || self.attempt(Operation::Rename, from).and_then(|()| fs::rename(from, to));
        rename().map_err(FileError::during("rename", from))?;
        self.record(|| Effect::Rename(from.into(), to.into()));
        Ok(())
    }

    /// Removes a file. Durable after the directory is synced.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), FileError> {
        let remove = || self.attempt(Operation::Remove, path).and_then(|()| fs::remove_file(path));
        remove().map_err(FileError::during("remove", path))?;
        self.record(|| Effect::Remove(path.into()));
        Ok(())
    }

    /// Makes the names in a directory durable.
    pub(crate) fn sync_dir(&self, dir: &Path) -> Result<(), FileError> {
        let failed = || FileError::during("sync the directory", dir);
        self.attempt(Operation::SyncDirectory, dir).map_err(failed())?;
        File::open(dir).map_err(failed())?.sync_all().map_err(failed())?;
        self.counts.syncs.fetch_add(1, Ordering::Relaxed);
        self.record(|| Effect::SyncDir(dir.into()));
        Ok(())
    }

    /// Writes and syncs a small file under a temporary name, to be renamed later.
    pub(crate) fn prepare(&self, temporary: &Path, content: &[u8]) -> Result<(), FileError> {
        let output = self.create(temporary)?;
        output.write_at(content, 0)?;
        output.sync()
    }

    fn count(&self, bytes: usize) {
        self.counts.writes.fetch_add(1, Ordering::Relaxed);
        self.counts.written_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    #[cfg(test)]
    fn record(&self, effect: impl FnOnce() -> Effect) {
        self.trace.record(effect);
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "the same call records in tests")]
    fn record(&self, _: impl FnOnce() -> Effect) {}
}

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct Output {
    volume: Volume,
    file: File,
    path: PathBuf,
}

impl Output {
    pub(crate) fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), FileError> {
        self.write_all(bytes, offset).map_err(FileError::during("write to", &self.path))?;
        self.volume.count(bytes.len());
        self.volume.record(|| Effect::Write(self.path.clone(), offset, bytes.into()));
        Ok(())
    }

    /// Writes whole blocks, durably: with a single system call if that is supported.
    pub(crate) fn write_through(&self, blocks: &[u8], offset: u64) -> Result<(), FileError> {
        self.attempt(Operation::Write).map_err(FileError::during("write to", &self.path))?;
        self.attempt(Operation::Sync).map_err(FileError::during("sync", &self.path))?;
        match pwritev2(&self.file, &[IoSlice::new(blocks)], offset, ReadWriteFlags::DSYNC) {
            Ok(written) if written == blocks.len() => {
                self.volume.count(blocks.len());
                self.volume.counts.syncs.fetch_add(1, Ordering::Relaxed);
                self.volume.record(|| Effect::Write(self.path.clone(), offset, blocks.into()));
                self.volume.record(|| Effect::Sync(self.path.clone()));
                Ok(())
            }
            // A short write, or the call is not supported, or blocks are larger here.
            Ok(_) | Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                self.write_at(blocks, offset)?;
                self.sync()
            }
            Err(errno) => Err(FileError::during("write to", &self.path)(errno.into())),
        }
    }

    /// Writes zeros where the file reads as zeros already. The content does not change, so nothing is recorded.
    pub(crate) fn write_zeros(&self, from: u64, to: u64) -> Result<(), FileError> {
        let mut at = from;
        while at < to {
            let piece = &ZEROS.0[..ZEROS.0.len().min((to - at) as usize)];
            self.write_all(piece, at).map_err(FileError::during("write to", &self.path))?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Overwrites a few bytes that no operation waits for. Not counted.
    pub(crate) fn overwrite(&self, bytes: &[u8], offset: u64) -> Result<(), FileError> {
        self.write_all(bytes, offset).map_err(FileError::during("write to", &self.path))?;
        self.volume.record(|| Effect::Write(self.path.clone(), offset, bytes.into()));
        Ok(())
    }

    /// Reads at an offset. Returns the number of bytes read, which is less than requested only at the end of the file.
    pub(crate) fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, FileError> {
        let mut found = 0;
        while found < bytes.len() {
            match self.file.read_at(&mut bytes[found..], offset + found as u64) {
                Ok(0) => break,
                Ok(count) => found += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(FileError::during("read", &self.path)(error)),
            }
        }
        Ok(found)
    }

    /// Locks the file against other processes until it is dropped.
    pub(crate) fn try_lock(&self) -> Result<(), fs::TryLockError> {
        self.file.try_lock()
    }

    fn attempt(&self, operation: Operation) -> io::Result<()> {
        self.volume.attempt(operation, &self.path)
    }

    /// Writes all bytes. If direct I/O is not possible, the file is written through the page cache from now on.
    fn write_all(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.attempt(Operation::Write)?;
        match self.file.write_all_at(bytes, offset) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                fcntl_setfl(&self.file, OFlags::empty())?;
                self.file.write_all_at(bytes, offset)
            }
            other => other,
        }
    }

    /// Allocates space up to `to`, which reads as zeros. The file has that length afterwards.
    pub(crate) fn allocate(&self, from: u64, to: u64) -> Result<(), FileError> {
        let failed = || FileError::during("make room in", &self.path);
        self.attempt(Operation::Allocate).map_err(failed())?;
        match fallocate(&self.file, FallocateFlags::empty(), from, to - from) {
            Ok(()) => self.volume.record(|| Effect::SetLen(self.path.clone(), to)),
            // A file system that cannot reserve space still provides zeros, but a later write may fail because it is
            // full.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.set_len(to)?,
            Err(errno) => return Err(failed()(errno.into())),
        }
        Ok(())
    }

    pub(crate) fn set_len(&self, len: u64) -> Result<(), FileError> {
        let set_len = || self.attempt(Operation::SetLength).and_then(|()| self.file.set_len(len));
        set_len().map_err(FileError::during("set the length of", &self.path))?;
        self.volume.record(|| Effect::SetLen(self.path.clone(), len));
        Ok(())
    }

    /// Makes the content durable, and the length as far as it is needed to read it.
    pub(crate) fn sync(&self) -> Result<(), FileError> {
        let sync = || self.attempt(Operation::Sync).and_then(|()| self.file.sync_data());
        sync().map_err(FileError::during("sync", &self.path))?;
        self.volume.counts.syncs.fetch_add(1, Ordering::Relaxed);
        self.volume.record(|| Effect::Sync(self.path.clone()));
        Ok(())
    }
}

/// Aligned to a block, for direct I/O.
#[repr(align(4096))]
struct Zeros([u8; 64 << 10]);

static ZEROS: Zeros = Zeros([0; 64 << 10]);

/// A change of the disk, for the crash tests.
#[derive(Clone, Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "only tests look at what is recorded"))]
pub(crate) enum Effect {
    Create(PathBuf),
    Write(PathBuf, u64, Box<[u8]>),
    SetLen(PathBuf, u64),
    Sync(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    SyncDir(PathBuf),
}
