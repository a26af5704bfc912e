//! A lock file in each directory, held while the disk is open, so that only one server uses it at a time.
//!
//! The lock file of `dataDir` also contains two records, because a data directory has no other permanent file that is
//! specific to Pole: how far the log is durable and committed (`progress`), and which session ids are reserved
//! ([`crate::Disk::reserve_sessions`]). Each record is overwritten in place and is in its own block, so that writing
//! one cannot damage the other. A missing or damaged record provides no information and is no reason to refuse the
//! directory.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

use crate::volume::{Output, Volume};
use crate::{FileError, OpenError};

/// The locks. They are released on drop, or when the process ends for any reason.
#[derive(Debug)]
pub(crate) struct Locks {
    /// That of `dataDir` first.
    files: Vec<Arc<Output>>,
}

impl Locks {
    /// Locks `dir`, and `log_dir` if it is another directory.
    pub(crate) fn take(volume: &Volume, dir: &Path, log_dir: Option<&Path>) -> Result<Self, OpenError> {
        let files = [dir].into_iter().chain(log_dir).map(|dir| lock(volume, &dir.join(NAME)).map(Arc::new));
        Ok(Self { files: files.collect::<Result<_, _>>()? })
    }

    /// How far the log is durable and committed.
    pub(crate) fn progress(&self) -> LockRecord<4> {
        LockRecord { file: self.files[0].clone(), magic: PROGRESS, offset: 0 }
    }

    /// The first session number that is not reserved.
    pub(crate) fn sessions(&self) -> LockRecord<1> {
        LockRecord { file: self.files[0].clone(), magic: *b"SES1", offset: 4096 }
    }
}

fn lock(volume: &Volume, path: &Path) -> Result<Output, OpenError> {
    let file = volume.open_or_create(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.into() }),
        Err(TryLockError::Error(error)) => Err(FileError::during("lock", path)(error).into()),
    }
}

/// Locks a directory against a server that starts, without changing it, and returns the content of its lock file: empty if
/// there is none. The lock is held as long as the file.
pub(crate) fn inspect(dir: &Path) -> Result<(Option<File>, Vec<u8>), OpenError> {
    let path = dir.join(NAME);
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((None, Vec::new())),
        Err(error) => return Err(FileError::during("open", &path)(error).into()),
    };
    match file.try_lock_shared() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(OpenError::InUse { path }),
        Err(TryLockError::Error(error)) => return Err(FileError::during("lock", &path)(error).into()),
    }
    let mut content = Vec::new();
    file.by_ref().take(4096).read_to_end(&mut content).map_err(FileError::during("read", &path))?;
    Ok((Some(file), content))
}

/// The record about the log in the content of a lock file.
pub(crate) fn progress_in(content: &[u8]) -> Option<[u64; 4]> {
    decode(PROGRESS, content.get(..record_bytes(4))?)
}

/// A record in the lock file: magic, numbers, and the Adler-32 of both, big-endian. It is smaller than a sector, which a
/// disk writes as a whole.
#[derive(Clone, Debug)]
pub(crate) struct LockRecord<const N: usize> {
    file: Arc<Output>,
    magic: [u8; 4],
    offset: u64,
}

impl<const N: usize> LockRecord<N> {
    /// Returns `None` if the record was never written, was cleared, or is damaged.
    pub(crate) fn read(&self) -> Result<Option<[u64; N]>, FileError> {
        let mut bytes = vec![0; Self::BYTES];
        let found = self.file.read_at(&mut bytes, self.offset)?;
        Ok(self.decode(&bytes[..found]))
    }

    /// Writes the record to the page cache; durable after [`Self::sync`].
    pub(crate) fn write(&self, numbers: [u64; N]) -> Result<(), FileError> {
        self.file.overwrite(&self.encode(numbers), self.offset)
    }

    /// Clears the record; durable after [`Self::sync`].
    pub(crate) fn clear(&self) -> Result<(), FileError> {
        self.file.overwrite(&vec![0; Self::BYTES], self.offset)
    }

    pub(crate) fn sync(&self) -> Result<(), FileError> {
        self.file.sync()
    }

    fn encode(&self, numbers: [u64; N]) -> Vec<u8> {
        encode(self.magic, numbers)
    }

    fn decode(&self, bytes: &[u8]) -> Option<[u64; N]> {
        decode(self.magic, bytes)
    }

    const BYTES: usize = record_bytes(N);
}

fn encode<const N: usize>(magic: [u8; 4], numbers: [u64; N]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(record_bytes(N));
    bytes.extend(magic);
    numbers.iter().for_each(|number| bytes.extend(number.to_be_bytes()));
    bytes.extend(simd_adler32::adler32(&bytes.as_slice()).to_be_bytes());
    bytes
}

fn decode<const N: usize>(magic: [u8; 4], bytes: &[u8]) -> Option<[u64; N]> {
    let (words, _) = bytes.get(4..)?.as_chunks::<8>();
    let mut numbers = [0; N];
    for (number, word) in numbers.iter_mut().zip(words) {
        *number = u64::from_be_bytes(*word);
    }
    (bytes == encode(magic, numbers)).then_some(numbers)
}

/// The size of a record with that many numbers: magic, numbers, checksum.
const fn record_bytes(numbers: usize) -> usize {
    4 + 8 * numbers + 4
}

const PROGRESS: [u8; 4] = *b"PRG1";
const NAME: &str = "lock";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::Scratch;

    #[test]
    fn records_round_trip() {
        let scratch = Scratch::new();
        let locks = Locks::take(&Volume::default(), &scratch.0, None).unwrap();
        assert_eq!((locks.progress().read().unwrap(), locks.sessions().read().unwrap()), (None, None));
        locks.sessions().write([u64::MAX]).unwrap();
        assert_eq!((locks.progress().read().unwrap(), locks.sessions().read().unwrap()), (None, Some([u64::MAX])));
        locks.progress().write([1, 2, 3, u64::MAX]).unwrap();
        assert_eq!(locks.progress().read().unwrap(), Some([1, 2, 3, u64::MAX]));
        locks.progress().clear().unwrap();
        assert_eq!((locks.progress().read().unwrap(), locks.sessions().read().unwrap()), (None, Some([u64::MAX])));
    }

    #[test]
    fn a_damaged_record_is_ignored() {
        let scratch = Scratch::new();
        let record = Locks::take(&Volume::default(), &scratch.0, None).unwrap().progress();
        let bytes = record.encode([1, 4096, 9, 7]);
        assert_eq!(record.decode(&bytes), Some([1, 4096, 9, 7]));
        for at in 0..bytes.len() {
            assert_eq!(record.decode(&bytes[..at]), None, "cut at {at}");
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert_eq!(record.decode(&damaged), None, "byte {at} bit {bit}");
            }
        }
    }
}
