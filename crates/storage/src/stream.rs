//! Snapshots as streams of bytes, for backups.
//!
//! A backup is a snapshot file in the form of Apache 3.9: it names its last transaction, so that it can be restored from
//! any file name, also by Apache's `restore` command. Older releases read it too, and ignore what they do not know. The
//! digest of Apache's tree is written as absent: its releases then compare none.

use bytes::Bytes;
use pole_jute::{FileHeader, Record, SNAPSHOT_MAGIC, VERSION};
use pole_types::Zxid;
use simd_adler32::Adler32;

use crate::snapshot::{Flaw, HEADER_BYTES, SEAL, TAIL_BYTES_MAX, Tail};

/// Writes a snapshot to `sink`, in pieces. `state` writes the state at `zxid` to the sink that it gets.
pub fn export_snapshot(zxid: Zxid, state: impl FnOnce(&mut dyn FnMut(&[u8])), sink: &mut dyn FnMut(&[u8])) {
    let mut out = Sealing { checksum: Adler32::new(), sink };
    out.put(&FileHeader { magic: SNAPSHOT_MAGIC, version: VERSION, dbid: -1 }.encode());
    state(&mut |piece| out.put(piece));
    out.seal();
    out.put(&[&0_i64.to_be_bytes()[..], &DIGEST_VERSION.to_be_bytes(), &0_i64.to_be_bytes()].concat());
    out.seal();
    out.put(&zxid.0.to_be_bytes());
    out.seal();
}

/// The version of the digest of Apache 3.9. With the transaction 0 it stands for no digest.
const DIGEST_VERSION: i32 = 2;

struct Sealing<'a> {
    checksum: Adler32,
    sink: &'a mut dyn FnMut(&[u8]),
}

impl Sealing<'_> {
    fn put(&mut self, piece: &[u8]) {
        self.checksum.write(piece);
        (self.sink)(piece);
    }

    fn seal(&mut self) {
        let checksum = i64::from(self.checksum.finish()).to_be_bytes();
        self.put(&[&checksum[..], &SEAL].concat());
    }
}

/// Bytes that are no snapshot, or not all of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a whole snapshot: at byte {offset} expected {expected}, got {got}; send a file that `pole backup` or ZooKeeper wrote"
)]
pub struct NoSnapshot {
    /// The offset in the stream.
    pub offset: u64,
    pub expected: String,
    pub got: String,
}

impl From<Flaw> for NoSnapshot {
    fn from(Flaw { offset, expected, got }: Flaw) -> Self {
        Self { offset, expected, got }
    }
}

/// Reads a snapshot that arrives in arbitrary pieces. Returns its state, piece by piece, and checks its seals at the end:
/// what was returned before counts only if the end is valid.
pub struct SnapshotImport {
    /// Bytes that may belong to the seals, and their offset.
    held: Vec<u8>,
    begin: u64,
    checksum: Adler32,
}

impl SnapshotImport {
    #[must_use]
    pub fn new() -> Self {
        Self { held: Vec::new(), begin: 0, checksum: Adler32::new() }
    }

    /// Takes the next piece, and returns the next part of the state.
    ///
    /// # Errors
    /// If the stream does not begin like a snapshot.
    pub fn feed(&mut self, piece: &[u8]) -> Result<Bytes, NoSnapshot> {
        self.held.extend_from_slice(piece);
        if self.begin == 0 && self.held.len() >= HEADER_BYTES {
            self.check_header()?;
            self.take(HEADER_BYTES);
        }
        let ready = self.held.len().saturating_sub(TAIL_BYTES_MAX as usize);
        Ok(if self.begin == 0 { Bytes::new() } else { self.take(ready) })
    }

    /// Returns the last part of the state, and the last transaction if the snapshot names it.
    ///
    /// # Errors
    /// If the seals do not match the content.
    pub fn finish(self) -> Result<(Bytes, Option<Zxid>), NoSnapshot> {
        if self.begin == 0 {
            let (expected, got) = (format!("at least {HEADER_BYTES} bytes"), self.held.len().to_string());
            return Err(NoSnapshot { offset: 0, expected, got });
        }
        let tail = Tail { begin: self.begin, bytes: self.held, checksum: self.checksum };
        let (end, last) = tail.unseal()?;
        let mut state = tail.bytes;
        state.truncate((end - tail.begin) as usize);
        Ok((state.into(), last))
    }

    fn take(&mut self, bytes: usize) -> Bytes {
        let taken: Bytes = self.held.drain(..bytes).collect();
        self.checksum.write(&taken);
        self.begin += bytes as u64;
        taken
    }

    fn check_header(&self) -> Result<(), NoSnapshot> {
        let expected = [&SNAPSHOT_MAGIC.to_be_bytes()[..], &VERSION.to_be_bytes()].concat();
        let got = &self.held[..expected.len()];
        if got == expected {
            return Ok(());
        }
        let (expected, got) = (format!("the header {expected:02x?}"), format!("{got:02x?}"));
        Err(NoSnapshot { offset: 0, expected, got })
    }
}

impl Default for SnapshotImport {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for SnapshotImport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotImport").field("at", &(self.begin + self.held.len() as u64)).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::Scratch;

    fn exported(state: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        export_snapshot(Zxid(0x2_0000_0007), |sink| state.chunks(7).for_each(sink), &mut |piece| file.extend(piece));
        file
    }

    fn imported(file: &[u8], piece: usize) -> Result<(Vec<u8>, Option<Zxid>), NoSnapshot> {
        let mut import = SnapshotImport::new();
        let mut state = Vec::new();
        for piece in file.chunks(piece) {
            state.extend(import.feed(piece)?);
        }
        let (rest, last) = import.finish()?;
        state.extend(rest);
        Ok((state, last))
    }

    #[test]
    fn what_is_exported_is_imported_in_pieces_of_any_size() {
        for length in [0, 1, 5, 100, 1000] {
            let state: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let file = exported(&state);
            for piece in [1, 2, 13, 100, 5000] {
                assert_eq!(
                    imported(&file, piece),
                    Ok((state.clone(), Some(Zxid(0x2_0000_0007)))),
                    "{length} by {piece}"
                );
            }
        }
    }

    #[test]
    fn no_part_of_it_and_no_changed_byte_is_accepted() {
        let file = exported(b"a state of some length");
        for end in 0..file.len() {
            // Cut at a seal it is a snapshot of an older release, which has no more than that.
            let expected = imported(&file[..end], 10).map(|(state, _)| state);
            assert!(expected.is_err() || expected.as_deref() == Ok(b"a state of some length"), "cut at {end}");
        }
        // The last number of the file header means nothing to Apache.
        for at in (0..8).chain(16..file.len()) {
            let mut changed = file.clone();
            changed[at] ^= 1;
            assert!(imported(&changed, 10).is_err(), "byte {at}");
        }
    }

    #[test]
    fn the_file_is_one_that_start_up_reads() {
        let scratch = Scratch::new();
        let path = scratch.0.join("snapshot.200000007");
        std::fs::write(&path, exported(b"a state")).unwrap();
        let state = crate::snapshot::check(&path).unwrap().unwrap();
        assert_eq!(state, 16..16 + 7);
    }
}
