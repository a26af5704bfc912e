//! One server at a time: a lock file in each directory, held while the disk is open.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::volume::{Operation, Volume};
use crate::{FileError, OpenError};

/// Held until dropped, or until the process ends however it ends.
#[derive(Debug)]
pub(crate) struct Locks {
    _files: Vec<File>,
}

impl Locks {
    pub(crate) fn take(volume: &Volume, dirs: &[&Path]) -> Result<Self, OpenError> {
        dirs.iter()
            .map(|dir| lock(volume, &dir.join(NAME)))
            .collect::<Result<_, _>>()
            .map(|files| Self { _files: files })
    }
}

fn lock(volume: &Volume, path: &Path) -> Result<File, OpenError> {
    let mut options = File::options();
    volume.attempt(Operation::Lock, path).map_err(FileError::during("lock", path))?;
    let file = options.write(true).create(true).truncate(false).open(path).map_err(FileError::during("open", path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.into() }),
        Err(TryLockError::Error(error)) => Err(FileError::during("lock", path)(error).into()),
    }
}

/// Empty; only the lock on it matters.
const NAME: &str = "lock";
