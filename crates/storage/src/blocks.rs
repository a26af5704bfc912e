//! Bytes that wait to be written past the page cache, which wants whole blocks from an address that is a multiple of one.
//!
//! In: bytes, appended. Out: whole blocks, the last one filled up with zeros.
//! Why past it: a small write that somebody waits for is then one order to the disk where the disk can write durably, and
//! where it cannot the way is still shorter by a fifth.
//! Holds: what was written is written again only as the beginning of a block that was not full, byte for byte the same.

use crate::tail::BATCH_BYTES_MAX;

/// What file systems write at once, and what every disk takes.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// The end of a file: the last block of it that was written if it is not full, and what is to come.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// Room in front up to a multiple of a block, then the bytes.
    bytes: Vec<u8>,
    front: usize,
    /// How many of the bytes were written before.
    written: usize,
}

impl Blocks {
    /// Where to append.
    pub(crate) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// How many bytes wait.
    pub(crate) fn waiting(&self) -> usize {
        self.bytes.len() - self.front - self.written
    }

    /// What is to be written, and how far before the first byte that waits it begins.
    pub(crate) fn whole(&mut self) -> (&[u8], usize) {
        self.bytes.resize(self.front + (self.bytes.len() - self.front).next_multiple_of(BLOCK_BYTES), 0);
        self.align();
        (&self.bytes[self.front..], self.written)
    }

    /// All but `padding` bytes at the end are in the file. Blocks that are full will not be written again.
    pub(crate) fn wrote(&mut self, padding: usize) {
        self.bytes.truncate(self.bytes.len() - padding);
        let open = (self.bytes.len() - self.front) % BLOCK_BYTES;
        let from = self.bytes.len() - open;
        self.bytes.copy_within(from.., self.front);
        self.bytes.truncate(self.front + open);
        self.bytes.shrink_to(ROOM_BYTES_MAX);
        self.written = open;
    }

    /// Another file.
    pub(crate) fn clear(&mut self) {
        self.bytes.truncate(self.front);
        self.written = 0;
    }

    /// The bytes have moved if the vector has grown or shrunk.
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

/// The room that is kept: for a batch, and an entry that was too much for it.
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
                prop_assert_eq!(blocks.waiting(), size);
                let offset = all.len();
                all.extend_from_slice(&bytes);
                let (whole, before) = blocks.whole();
                prop_assert!(whole.as_ptr().align_offset(BLOCK_BYTES) == 0 && whole.len() % BLOCK_BYTES == 0);
                prop_assert!((offset - before) % BLOCK_BYTES == 0 && before < BLOCK_BYTES);
                file.truncate(offset - before);
                file.extend_from_slice(whole);
                let padding = whole.len() - before - size;
                blocks.wrote(padding);
                prop_assert_eq!(&file[..all.len()], &all[..]);
                prop_assert!(file[all.len()..].iter().all(|byte| *byte == 0));
            }
        }
    }
}
