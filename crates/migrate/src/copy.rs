//! Copies a complete history to the directory of another server.
//!
//! The copy is marked like a directory that follows until all of it is durable, so a copy that was interrupted cannot
//! be taken for a history.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use pole_storage::{FileError, is_following, mark_following, unmark_following};

/// Why a history was not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The file system failed.
    #[error("cannot copy {} to {}: {source}", .from.display(), .to.display())]
    File {
        /// What was read.
        from: PathBuf,
        /// What was written.
        to: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The mark cannot be written or removed.
    #[error(transparent)]
    Mark(#[from] FileError),
    /// There is a history already.
    #[error("{} exists already and was not made by `pole migrate`: move it away first", .0.display())]
    Occupied(PathBuf),
}

/// Copies snapshots, log and epochs of `(dataDir, dataLogDir)` to another such pair. Returns the number of bytes.
///
/// # Errors
/// If the target has a history of its own, or the file system fails.
pub fn copy_history(from: (&Path, &Path), to: (&Path, &Path)) -> Result<u64, CopyError> {
    let resumed = is_following(to.0)?;
    for dir in [to.0, to.1] {
        let dir = dir.join(VERSION);
        if dir.exists() && !resumed {
            return Err(CopyError::Occupied(dir));
        }
    }
    mark_following(to.0)?;
    for dir in [to.0, to.1] {
        let dir = dir.join(VERSION);
        // What an interrupted copy left; the mark shows that it is ours.
        if dir.exists() {
            fs::remove_dir_all(&dir).map_err(failed(&dir, &dir))?;
        }
        fs::create_dir_all(&dir).map_err(failed(&dir, &dir))?;
    }
    let mut bytes = 0;
    for (source, target) in [(from.0, to.0), (from.1, to.1)] {
        bytes += copy_files(&source.join(VERSION), &target.join(VERSION))?;
        if from.0 == from.1 && to.0 == to.1 {
            break;
        }
    }
    unmark_following(to.0)?;
    Ok(bytes)
}

fn copy_files(source: &Path, target: &Path) -> Result<u64, CopyError> {
    let mut bytes = 0;
    for entry in fs::read_dir(source).map_err(failed(source, target))? {
        let entry = entry.map_err(failed(source, target))?;
        let name = entry.file_name();
        let is_history = name.to_str().is_some_and(|name| {
            let numbered = name.starts_with("log.") || name.starts_with("snapshot.");
            (numbered && !name.ends_with(".tmp")) || name == "acceptedEpoch" || name == "currentEpoch"
        });
        // The lock file and what was never completed stay behind.
        if is_history {
            let (from, to) = (entry.path(), target.join(&name));
            bytes += copy_file(&from, &to).map_err(failed(&from, &to))?;
        }
    }
    File::open(target).and_then(|dir| dir.sync_all()).map_err(failed(source, target))?;
    Ok(bytes)
}

/// Copies a file, durably.
fn copy_file(from: &Path, to: &Path) -> io::Result<u64> {
    let bytes = fs::copy(from, to)?;
    File::open(to)?.sync_all()?;
    Ok(bytes)
}

fn failed(from: &Path, to: &Path) -> impl FnOnce(io::Error) -> CopyError {
    let (from, to) = (from.to_owned(), to.to_owned());
    move |source| CopyError::File { from, to, source }
}

/// The directory of the files, named after the version of their format.
const VERSION: &str = "version-2";
