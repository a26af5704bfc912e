//! The two epoch files, `acceptedEpoch` and `currentEpoch`: one number each, in decimal digits.
//!
//! Invariant: each file changes atomically, and `currentEpoch` is not above `acceptedEpoch` after an operation.

use pole_types::{Epoch, Zxid};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::error::Fault;
use crate::volume::Volume;
use crate::{Damage, FileError, Repair, names};

pub(crate) const ACCEPTED: &str = "acceptedEpoch";
pub(crate) const CURRENT: &str = "currentEpoch";

/// Replaces one of the files durably.
pub(crate) fn write(volume: &Volume, dir: &Path, name: &str, epoch: Epoch) -> Result<(), FileError> {
    prepare(volume, dir, name, epoch)?;
    publish(volume, dir, name)?;
    volume.sync_dir(dir)
}

/// Raises both epochs to `to`, and leaves a higher one alone. An intent makes this atomic.
pub(crate) fn raise_both(volume: &Volume, dir: &Path, to: Epoch) -> Result<(), Fault> {
    let lower = |name| read(dir, name).map(|found| found.is_none_or(|epoch| epoch < to));
    let (accepted, current) = (lower(ACCEPTED)?, lower(CURRENT)?);
    let names = [(ACCEPTED, accepted), (CURRENT, current)];
    for (name, _) in names.iter().filter(|(_, lower)| *lower) {
        prepare(volume, dir, name, to)?;
    }
    for (name, _) in names.iter().filter(|(_, lower)| *lower) {
        publish(volume, dir, name)?;
    }
    Ok(volume.sync_dir(dir)?)
}

/// The epochs of a directory.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) accepted: Epoch,
    pub(crate) current: Epoch,
    /// Set if the files are absent and have to be written.
    pub(crate) missing: Option<Repair>,
}

/// The accepted and the current epoch of a directory whose history ends at `last`.
///
/// A standalone Apache server has no such files. Its epoch is that of its history. If only `acceptedEpoch` exists, a
/// server without history made the promise: whatever was sent to it since, it has adopted nothing.
pub(crate) fn find(dir: &Path, last: Zxid) -> Result<Found, Fault> {
    let found = |accepted, current| Found { accepted, current, missing: None };
    match (read(dir, ACCEPTED)?, read(dir, CURRENT)?) {
        (Some(accepted), Some(current)) if current > accepted => {
            let expected = format!("at most {accepted}, as in {ACCEPTED}");
            Err(Damage { path: dir.join(CURRENT), offset: 0, expected, got: current.to_string() }.into())
        }
        (Some(accepted), current) => Ok(found(accepted, current.unwrap_or_default())),
        (None, Some(current)) => Ok(found(current, current)),
        (None, None) => {
            let epoch = last.epoch();
            let repair = || Repair::new(&dir.join(CURRENT), format!("absent; {epoch} by the last transaction, {last}"));
            Ok(Found { missing: (epoch > Epoch(0)).then(repair), ..found(epoch, epoch) })
        }
    }
}

/// Like [`find`], but writes missing files at once, because the history may go beyond the current epoch later.
pub(crate) fn recover(
    volume: &Volume,
    dir: &Path,
    last: Zxid,
    repairs: &mut Vec<Repair>,
) -> Result<(Epoch, Epoch), Fault> {
    let Found { accepted, current, missing } = find(dir, last)?;
    if let Some(repair) = missing {
        write(volume, dir, CURRENT, current)?;
        write(volume, dir, ACCEPTED, accepted)?;
        repairs.push(repair);
    }
    Ok((accepted, current))
}

/// Resets the current epoch after the history was removed. A server that kept it would count as one that has adopted
/// the history of that epoch. Promises remain valid. Returns the current epoch, which is 0.
pub(crate) fn forget_current(
    volume: &Volume,
    dir: &Path,
    (accepted, current): (Epoch, Epoch),
    repairs: &mut Vec<Repair>,
) -> Result<Epoch, FileError> {
    if current > Epoch(0) {
        // The accepted epoch may have been derived from the other file.
        write(volume, dir, ACCEPTED, accepted)?;
        write(volume, dir, CURRENT, Epoch(0))?;
        repairs.push(Repair::new(&dir.join(CURRENT), format!("0 instead of {current}: the history of it was removed")));
    }
    Ok(Epoch(0))
}

fn prepare(volume: &Volume, dir: &Path, name: &str, epoch: Epoch) -> Result<(), FileError> {
    volume.prepare(&dir.join(names::temporary(name)), epoch.to_string().as_bytes())
}

fn publish(volume: &Volume, dir: &Path, name: &str) -> Result<(), FileError> {
    volume.rename(&dir.join(names::temporary(name)), &dir.join(name))
}

fn read(dir: &Path, name: &str) -> Result<Option<Epoch>, Fault> {
    let path = dir.join(name);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FileError::during("read", &path)(error).into()),
    };
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES_MAX)]);
    match text.trim().parse() {
        Ok(epoch) => Ok(Some(Epoch(epoch))),
        Err(_) => {
            Err(Damage { path, offset: 0, expected: "an epoch in decimal digits".into(), got: format!("{text:?}") }
                .into())
        }
    }
}

/// More digits than any epoch has, and enough of any other content to recognise it.
const SHOWN_BYTES_MAX: usize = 64;
