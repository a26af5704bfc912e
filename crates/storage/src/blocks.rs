//! A buffer for direct I/O, which requires whole blocks at aligned addresses.
//!
//! Bytes are appended; whole blocks are written, the last one padded with zeros. A small synchronous write is then a
//! single command if the disk supports durable writes. Otherwise it still takes about a fifth less time than through
//! the page cache.
//!
//! Invariant: written bytes are written again only as the beginning of a block that was not full, and unchanged.

use crate::tail::BATCH_BYTES_MAX;

/// The block size of file systems, accepted by every disk.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// The end of a file: the last written block if it is not full, and the bytes to be written.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// Space at the front for alignment to a block, then the bytes.
    bytes: Vec<u8>,
    front: usize,
    /// The number of bytes that were written before.
    written: usize,
}

impl Blocks {
    /// The buffer, to append to.
    pub(crate) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The number of bytes to be written.
    pub(crate) fn pending(&self) -> usize {
        self.bytes.len() - self.front - self.written
    }

    /// The blocks to be written, and how far they begin before the first pending byte.
    pub(crate) fn whole(&mut self) -> (&[u8], usize) {
        self.bytes.resize(self.front + (self.bytes.len() - self.front).next_multiple_of(BLOCK_BYTES), 0);
        self.align();
        (&self.bytes[self.front..], self.written)
    }

    /// Records that all but the `padding` bytes at the end are in the file. Full blocks will not be written again.
    pub(crate) fn mark_written(&mut self, padding: usize) {
        self.bytes.truncate(self.bytes.len() - padding);
        let open = (self.bytes.len() - self.front) % BLOCK_BYTES;
        let from = self.bytes.len() - open;
        self.bytes.copy_within(from.., self.front);
        self.bytes.truncate(self.front + open);
        self.bytes.shrink_to(ROOM_BYTES_MAX);
        self.written = open;
    }

    /// Starts over with another file.
    pub(crate) fn clear(&mut self) {
        self.bytes.truncate(self.front);
        self.written = 0;
    }

    /// Restores the alignment after the vector was reallocated.
    fn align(&mut self) {
        let off = self.bytes[self.front..].as_ptr().align_offset(BLOCK_BYTES);
        if off == 0 {
            return;
        }
        let (old, len) = (self.front, self.bytes.len() - self.front);
        self.bytes.reserve_exact(BLOCK_BYTES + len / 2);
        self.front = self.bytes.as_ptr().align_offset(BLOCK_BYTES);
        self.bytes.resize(self.front.max(old) + len, 0);
        self.bytes.copy_within(old..old + len, self.front);
        self.bytes.truncate(self.front + len);
    }
}

/// The capacity that is kept: for a batch, and an entry that exceeded it.
const ROOM_BYTES_MAX: usize = 2 * BATCH_BYTES_MAX + BLOCK_BYTES;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn blocks_written_one_after_another_hold_what_was_appended(sizes in prop::collection::vec(0_usize..20_000, 1..40)) {
            let (mut blocks, mut file, mut all) = (Blocks::default(), Vec::new(), Vec::new());
            for (at, size) in sizes.into_iter().enumerate() {
                let bytes = vec![at as u8 + 1; size];
                blocks.end().extend_from_slice(&bytes);
                prop_assert_eq!(blocks.pending(), size);
                let offset = all.len();
                all.extend_from_slice(&bytes);
                let (whole, before) = blocks.whole();
                prop_assert!(whole.as_ptr().align_offset(BLOCK_BYTES) == 0 && whole.len() % BLOCK_BYTES == 0);
                prop_assert!((offset - before) % BLOCK_BYTES == 0 && before < BLOCK_BYTES);
                file.truncate(offset - before);
                file.extend_from_slice(whole);
                let padding = whole.len() - before - size;
                blocks.mark_written(padding);
                prop_assert_eq!(&file[..all.len()], &all[..]);
                prop_assert!(file[all.len()..].iter().all(|byte| *byte == 0));
            }
        }
    }
}
