//! The end of the log after a crash: was it never durable, or was something durable damaged?
//!
//! In: the first place that is no record, and everything after it. Out: torn, or not.
//! Why it matters: the end of a write that was never reported may be cut off without a word to anybody. A record that
//! was reported may not; the server would come back with less than it acknowledged.
//! The rule: nothing valid follows, or a whole block that never reached the disk is in the way. The room for a batch
//! was made in advance and reads as zeros, blocks reach the disk in any order, and a batch is synced before the next
//! is written; so that can only be in the last batch. Any other damage with valid records after it is real.

use bytes::Bytes;

use crate::blocks;
use crate::records::{Flaw, valid_record};

/// The most that is written between two syncs, unless one entry alone is larger.
pub(crate) const BATCH_BYTES_MAX: usize = 1 << 20;

/// Whether the bytes from a flaw at `at` to the end of the data are the rest of a write that was not synced.
pub(crate) fn is_torn(at: u64, flaw: &Flaw, rest: &Bytes) -> bool {
    let valid_after = (1..rest.len()).any(|start| valid_record(&rest.slice(start..)).is_some());
    !valid_after || (rest.len() as u64 <= BATCH_BYTES_MAX as u64 + flaw.bytes && misses_a_block(at, flaw, rest))
}

/// Whether a block that the bad record lies in is zeros as far as it belongs to this write.
fn misses_a_block(at: u64, flaw: &Flaw, rest: &Bytes) -> bool {
    let end = at + flaw.bytes.min(rest.len() as u64);
    let first = at / BLOCK_BYTES * BLOCK_BYTES;
    (first..end).step_by(BLOCK_BYTES as usize).any(|block| {
        let (from, to) = ((block.max(at) - at) as usize, (block + BLOCK_BYTES - at) as usize);
        to <= rest.len() && to - from >= EVIDENCE_BYTES_MIN && rest[from..to].iter().all(|byte| *byte == 0)
    })
}

/// What file systems write at once.
const BLOCK_BYTES: u64 = blocks::BLOCK_BYTES as u64;

/// Fewer zeros than this at the end of a block prove nothing: every record starts with four.
const EVIDENCE_BYTES_MIN: usize = 5;
