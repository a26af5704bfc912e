//! Old files go: snapshots beyond those to keep, and the log that none of the kept ones needs.
//!
//! Holds: only snapshots that are whole count (ZOOKEEPER-3231); the log file that the oldest kept snapshot lies in
//! stays, because Apache starts reading there.

use pole_zab::Zxid;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::volume::Volume;
use crate::{FileError, names, snapshot};

/// Removes what is not needed to start from any of the newest `retain` snapshots, and no log above `pinned`. How many
/// files went.
pub(crate) fn purge(
    volume: &Volume,
    dir: &Path,
    log_dir: &Path,
    retain: usize,
    pinned: Option<Zxid>,
) -> Result<usize, FileError> {
    let snapshots = names::snapshots(dir)?;
    let Some(oldest) = oldest_kept(&snapshots, retain.max(1))? else { return Ok(0) };
    let logs = names::logs(log_dir)?;
    let oldest_log = pinned.map_or(oldest, |pinned| pinned.min(oldest));
    let needed_from = logs.iter().rev().map(|(first, _)| *first).find(|first| *first <= oldest_log);
    let old_snapshots = snapshots.iter().filter(|(zxid, _)| *zxid < oldest);
    let old_logs = logs.iter().filter(|(first, _)| needed_from.is_some_and(|needed| *first < needed));
    let mut gone = 0;
    // Snapshots first: one without its log cannot be started from, a log without its snapshot is only room.
    for (_, path) in old_snapshots.chain(old_logs) {
        match volume.remove(path) {
            // Somebody else purges too, an operator perhaps.
            Err(error) if error.source.kind() == ErrorKind::NotFound => {}
            other => other.map(|()| gone += 1)?,
        }
    }
    Ok(gone)
}

/// The oldest snapshot that stays; none if all do.
fn oldest_kept(snapshots: &[(Zxid, PathBuf)], retain: usize) -> Result<Option<Zxid>, FileError> {
    let mut whole = 0;
    for (zxid, path) in snapshots.iter().rev() {
        if snapshot::looks_whole(path)? {
            whole += 1;
        }
        if whole == retain {
            return Ok(Some(*zxid));
        }
    }
    Ok(None)
}
