//! Removes old files: snapshots beyond the retention count, and the log that none of the kept ones needs.
//!
//! Only complete snapshots count (ZOOKEEPER-3231). The log file that contains the position of the oldest kept snapshot
//! is kept, because Apache starts reading there.

use pole_types::Zxid;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::volume::Volume;
use crate::{FileError, names, snapshot};

/// Removes what is not needed to start from any of the newest `retain` snapshots, but no log above `pinned`. Returns
/// the number of files removed.
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
    let mut removed = 0;
    // Snapshots first: a snapshot without its log is useless for a start, while a log without its snapshot only takes
    // space.
    for (_, path) in old_snapshots.chain(old_logs) {
        match volume.remove(path) {
            // It was removed meanwhile, perhaps by an operator.
            Err(error) if error.source.kind() == ErrorKind::NotFound => {}
            other => other.map(|()| removed += 1)?,
        }
    }
    Ok(removed)
}

/// The oldest snapshot to keep; `None` if all are kept.
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
