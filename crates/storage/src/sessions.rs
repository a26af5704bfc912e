//! The file `sessions`: which session numbers this server has given away, as one number in decimal digits below which all
//! of them may be in use.
//!
//! Apache ZooKeeper takes the first session number of a run from the clock. If the clock was set back between two runs,
//! a number could be given a second time, and whoever still has it could take the new session over: an id and the
//! password derived from it are all that is needed. So each run first reserves its numbers here.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::error::Fault;
use crate::volume::Volume;
use crate::{Damage, FileError, names};

/// Reserves `count` numbers, from `wish` on or above all that were reserved before; the first of them.
pub(crate) fn reserve(volume: &Volume, dir: &Path, wish: u64, count: u64) -> Result<u64, Fault> {
    let first = read(dir)?.unwrap_or(0).max(wish);
    let temporary = dir.join(names::temporary(NAME));
    volume.prepare(&temporary, first.saturating_add(count).to_string().as_bytes())?;
    volume.rename(&temporary, &dir.join(NAME))?;
    volume.sync_dir(dir)?;
    Ok(first)
}

fn read(dir: &Path) -> Result<Option<u64>, Fault> {
    let path = dir.join(NAME);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FileError::during("read", &path)(error).into()),
    };
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES_MAX)]);
    let (expected, got) = ("a number in decimal digits".to_owned(), format!("{text:?}"));
    text.trim().parse().map(Some).map_err(|_| Damage { path, offset: 0, expected, got }.into())
}

/// More than any number has, and enough of anything else to recognise it.
const SHOWN_BYTES_MAX: usize = 64;

const NAME: &str = "sessions";
