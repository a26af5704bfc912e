//! The mark of a data directory that follows another ensemble.
//!
//! Such a directory is a copy that may lack the last transactions of its source, so no server may start on it. The mark
//! is a file in `dataDir`. It is there before the first file of the history, and goes when the copy is known to be whole.

use std::fs;
use std::path::{Path, PathBuf};

use crate::volume::Volume;
use crate::{Config, FileError, OpenError};

/// Marks the directory, which is created if necessary. Durable on return.
///
/// # Errors
/// If the file system fails.
pub fn mark_following(data_dir: &Path) -> Result<(), FileError> {
    let volume = Volume::default();
    fs::create_dir_all(data_dir).map_err(FileError::during("create", data_dir))?;
    let mark = path(data_dir);
    if !is_following(data_dir)? {
        volume.prepare(&mark, TEXT.as_bytes())?;
    }
    volume.sync_dir(data_dir)
}

/// Removes the mark: the history is whole, and a server may start. Durable on return.
///
/// # Errors
/// If the file system fails.
pub fn unmark_following(data_dir: &Path) -> Result<(), FileError> {
    let volume = Volume::default();
    if is_following(data_dir)? {
        volume.remove(&path(data_dir))?;
    }
    volume.sync_dir(data_dir)
}

/// Whether the directory is marked.
///
/// # Errors
/// If the file system fails.
pub fn is_following(data_dir: &Path) -> Result<bool, FileError> {
    let mark = path(data_dir);
    fs::exists(&mark).map_err(FileError::during("look for", &mark))
}

/// Refuses a marked directory, unless it may be one.
pub(crate) fn check(config: &Config) -> Result<(), OpenError> {
    if !config.following && is_following(&config.data_dir)? {
        return Err(OpenError::Following { path: path(&config.data_dir) });
    }
    Ok(())
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("following")
}

const TEXT: &str = "This directory follows an ensemble of Apache ZooKeeper and may lack its last transactions.\n\
                    `pole migrate take-over` completes it and removes this file.\n";
