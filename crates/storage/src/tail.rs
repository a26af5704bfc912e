//! Distinguishes a torn write at the end of the log from damage to something durable.
//!
//! The end of a write that was never reported may be cut off silently. A record that was reported as durable may not:
//! the server would restart with less than it acknowledged.
//!
//! What start-up knows about the write that a crash interrupted:
//!
//! 1. It began at or after the durable end of `progress`, and nothing was written after it: a batch is durable before
//!    the next one is written.
//! 2. All its records begin within [`BATCH_BYTES_MAX`] of its start.
//! 3. It consists of sectors, each of which reached the disk completely or not at all, in any order. Its space was
//!    preallocated and reads as zeros. So an invalid record of it lacks a whole sector.
//!
//! A flaw that contradicts one of these is no torn write. One case remains undetected: whole sectors of durable records
//! that read as zeros, after the durable end of `progress` and within one batch of the end.

use bytes::Bytes;

use crate::FileError;
use crate::records::{Flaw, Records, valid_record};

/// The maximum number of bytes between two syncs, not counting the last entry of a batch.
pub(crate) const BATCH_BYTES_MAX: usize = 1 << 20;

/// Whether the bytes from the first flaw of a file to the end of its data can be the rest of a write that was not
/// durable. If `synced` is false, the log was not synced, and several writes can be lost at once.
pub(crate) fn is_torn(records: &Records, flaw: &Flaw, durable_end: u64, synced: bool) -> Result<bool, FileError> {
    let at = records.position();
    if at < durable_end {
        return Ok(false);
    }
    let rest = records.rest(REST_BYTES_MAX)?;
    if flaw.bytes > records.data_end() - at {
        return Ok(ends_in_missing_sector(records, flaw, &rest) && !is_followed(&rest, 1));
    }
    if records.data_end() - at > REST_BYTES_MAX as u64 {
        return Ok(false);
    }
    Ok(has_missing_sector(at, flaw, &rest) && !(synced && is_followed(&rest, BATCH_BYTES_MAX)))
}

/// Whether a valid record begins at least `distance` bytes after the flaw.
fn is_followed(rest: &Bytes, distance: usize) -> bool {
    (distance..rest.len()).any(|start| valid_record(&rest.slice(start..)).is_some())
}

/// Whether a record that extends beyond the last non-zero byte lacks its last sector. The last byte of a record is
/// never zero, so the sector with that byte is missing along with everything from the start of that sector, or the file
/// ends before it. If the bytes up to the end of the data have the record's checksum, only its length was damaged.
fn ends_in_missing_sector(records: &Records, flaw: &Flaw, rest: &Bytes) -> bool {
    let last = records.position() + flaw.bytes - 1;
    let missing = last >= records.file_len() || records.data_end() <= last / SECTOR_BYTES * SECTOR_BYTES;
    missing && !records.is_whole_but_for_length(rest)
}

/// Whether a sector of the invalid record contains only zeros as far as it belongs to this write.
fn has_missing_sector(at: u64, flaw: &Flaw, rest: &Bytes) -> bool {
    let end = at + flaw.bytes.min(rest.len() as u64);
    let first = at / SECTOR_BYTES * SECTOR_BYTES;
    (first..end).step_by(SECTOR_BYTES as usize).any(|sector| {
        let (from, to) = ((sector.max(at) - at) as usize, (sector + SECTOR_BYTES - at) as usize);
        to <= rest.len() && to - from >= EVIDENCE_BYTES_MIN && rest[from..to].iter().all(|byte| *byte == 0)
    })
}

/// The unit that every disk writes atomically; most have larger ones.
const SECTOR_BYTES: u64 = 512;

/// Fewer zeros than this at the end of a sector prove nothing: every record starts with four.
const EVIDENCE_BYTES_MIN: usize = 5;

/// How much is examined after a flaw. A batch is smaller, unless a single transaction is as large as this.
const REST_BYTES_MAX: usize = 64 << 20;
