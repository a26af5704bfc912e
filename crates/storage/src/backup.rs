//! Puts a backup into the data directory of a server that does not run.
//!
//! The directory must not have a history, or the present one is moved aside as a whole: a log that does not continue the
//! backup would be damage, or worse, would seem to continue it. What the server promised stays valid: the accepted epoch
//! is not lowered, so the next leader opens an epoch above all that clients have seen from this server.

use pole_types::{Epoch, Zxid};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::locks::Locks;
use crate::volume::Volume;
use crate::{Config, FileError, OpenError, epochs, names, recovery};

/// The result of [`install_backup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The snapshot from which the next start restores the state.
    pub snapshot: PathBuf,
    pub accepted_epoch: Epoch,
    /// Where the files are that were there before.
    pub moved_to: Vec<PathBuf>,
}

/// Why a backup was not put into a directory.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is a history, and it was not to be replaced.
    #[error("{} is part of a history that is there already; nothing was changed", .path.display())]
    Occupied { path: PathBuf },
}

impl From<FileError> for InstallError {
    fn from(error: FileError) -> Self {
        Self::Open(error.into())
    }
}

/// Makes `backup`, a whole snapshot that ends at `zxid`, the history of a data directory. With `replace`, a history that
/// is there is moved aside.
///
/// # Errors
/// If a server uses the directory, it has a history and `replace` is false, or the file system fails.
pub fn install_backup(config: &Config, backup: &Path, zxid: Zxid, replace: bool) -> Result<Installed, InstallError> {
    let volume = Volume::default();
    let mut parents = vec![&config.data_dir];
    if config.data_log_dir != config.data_dir {
        parents.push(&config.data_log_dir);
    }
    let accepted_before = promised(&volume, &parents)?;
    let mut moved_to = Vec::new();
    for parent in &parents {
        let dir = parent.join(names::DIRECTORY);
        if let Some(path) = first_of_history(&dir)? {
            if !replace {
                return Err(InstallError::Occupied { path });
            }
            let aside = free_name(parent)?;
            volume.rename(&dir, &aside)?;
            volume.sync_dir(parent)?;
            moved_to.push(aside);
        }
    }
    let dir = recovery::directory(&volume, &config.data_dir)?;
    recovery::directory(&volume, &config.data_log_dir)?;
    let _locks = Locks::take(&volume, &dir, None)?;
    copy(&volume, backup, &dir.join(names::temporary(&names::snapshot(zxid))))?;
    let accepted_epoch = accepted_before.max(zxid.epoch());
    epochs::write(&volume, &dir, epochs::ACCEPTED, accepted_epoch)?;
    epochs::write(&volume, &dir, epochs::CURRENT, zxid.epoch())?;
    crate::snapshot::publish(&volume, &dir, zxid)?;
    Ok(Installed { snapshot: dir.join(names::snapshot(zxid)), accepted_epoch, moved_to })
}

/// The accepted epoch of the directory, after checking that no server uses it.
fn promised(volume: &Volume, parents: &[&PathBuf]) -> Result<Epoch, InstallError> {
    let mut accepted = Epoch(0);
    for parent in parents {
        let dir = parent.join(names::DIRECTORY);
        if fs::exists(&dir).map_err(FileError::during("look for", &dir))? {
            let _locks = Locks::take(volume, &dir, None)?;
            // A standalone server of Apache has no epoch files, only a history.
            let snapshots = names::snapshots(&dir)?.into_iter();
            let newest = names::logs(&dir)?.into_iter().chain(snapshots).map(|(zxid, _)| zxid).max();
            let found = epochs::find(&dir, newest.unwrap_or(Zxid::ZERO)).map_err(OpenError::from)?;
            accepted = accepted.max(found.accepted);
        }
    }
    Ok(accepted)
}

/// A log or a snapshot, if there is one.
fn first_of_history(dir: &Path) -> Result<Option<PathBuf>, FileError> {
    if !fs::exists(dir).map_err(FileError::during("look for", dir))? {
        return Ok(None);
    }
    let snapshots = names::snapshots(dir)?.into_iter();
    Ok(names::logs(dir)?.into_iter().chain(snapshots).next().map(|(_, path)| path))
}

/// A name beside `version-2` that is not taken.
fn free_name(parent: &Path) -> Result<PathBuf, FileError> {
    let mut names = (1..).map(|number| parent.join(format!("{}.replaced-{number}", names::DIRECTORY)));
    loop {
        let name = names.next().expect("numbers do not end");
        if !fs::exists(&name).map_err(FileError::during("look for", &name))? {
            return Ok(name);
        }
    }
}

fn copy(volume: &Volume, from: &Path, to: &Path) -> Result<(), FileError> {
    let mut source = File::open(from).map_err(FileError::during("open", from))?;
    let output = volume.create(to)?;
    let (mut buffer, mut at) = (vec![0; BUFFER_BYTES], 0);
    loop {
        let count = source.read(&mut buffer).map_err(FileError::during("read", from))?;
        if count == 0 {
            return output.sync();
        }
        output.write_at(&buffer[..count], at)?;
        at += count as u64;
    }
}

/// Large enough to make the cost of system calls negligible.
const BUFFER_BYTES: usize = 256 << 10;
