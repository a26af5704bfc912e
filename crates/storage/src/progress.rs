//! The file `progress`: how far the log is known to be durable, and how far it is known to be committed.
//!
//! It is overwritten after each durable write of the log, in the page cache, so nobody waits for it. When the process
//! ends, however it ends, the file is exact. After a power failure it may be older than the log by what was written
//! since the file itself was last synced, at most [`SYNC_EVERY_BYTES`]. It may lag, but it never claims more than is
//! true: a truncation, which makes the log shorter, first clears it durably.
//!
//! Start-up uses it twice. What lies before the durable end cannot be a torn write, so damage there is corruption
//! (`tail`). And what is committed is never truncated, so it goes into the state as it is read (`history`).
//!
//! Apache ZooKeeper does not know this file and leaves it alone. After Apache has written to the directory, the log
//! has a newer file than the one named here, and the durable end no longer matters.

use pole_zab::Zxid;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::names::{self, Name};
use crate::volume::{Output, Volume};
use crate::{Damage, FileError};

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The first transaction of the newest log file, after which that file is named.
    pub(crate) log: Zxid,
    /// That file is durable up to this byte.
    pub(crate) end: u64,
    /// The last transaction before that byte.
    pub(crate) last: Zxid,
    /// Everything up to this transaction is committed.
    pub(crate) committed: Zxid,
}

impl Mark {
    /// What the file in this directory says. None if there is none, or if it was torn by a power failure.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>, FileError> {
        let path = dir.join(NAME);
        match fs::read(&path) {
            Ok(bytes) => Ok(std::str::from_utf8(&bytes).ok().and_then(Self::parse)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(FileError::during("read", &path)(error)),
        }
    }

    /// The durable end of this log file; 0 if the mark is about another one.
    pub(crate) fn durable_end(&self, first: Zxid) -> u64 {
        if first == self.log { self.end } else { 0 }
    }

    /// A log whose newest file is older than the one named here has lost that file. This does not matter if a
    /// snapshot holds all of its transactions.
    pub(crate) fn check_present(&self, log_dir: &Path, newest: Option<Zxid>, snapshot: Zxid) -> Result<(), Damage> {
        if newest.is_some_and(|newest| newest >= self.log) || self.last <= snapshot {
            return Ok(());
        }
        let expected = format!("transactions up to {}, which {NAME} says are durable", self.last);
        Err(Damage { path: log_dir.join(names::log(self.log)), offset: 0, expected, got: "no such file".into() })
    }

    fn text(&self) -> String {
        let Self { log, end, last, committed } = self;
        let text = format!("{} end={end} last={:x} committed={:x}", names::log(*log), last.0, committed.0);
        let checksum = simd_adler32::adler32(&text.as_bytes());
        // Padded to one length, so that a shorter text replaces all of a longer one.
        format!("{:<width$}\n", format!("{text} adler={checksum:x}"), width = TEXT_BYTES - 1)
    }

    fn parse(text: &str) -> Option<Self> {
        let (content, checksum) = text.trim_end().rsplit_once(" adler=")?;
        if u32::from_str_radix(checksum, 16).ok()? != simd_adler32::adler32(&content.as_bytes()) {
            return None;
        }
        let mut parts = content.split(' ');
        let Name::Log(log) = Name::parse(parts.next()?) else { return None };
        let end = parts.next()?.strip_prefix("end=")?.parse().ok()?;
        let mut zxid = |key| u64::from_str_radix(parts.next()?.strip_prefix(key)?, 16).ok().map(Zxid);
        Some(Self { log, end, last: zxid("last=")?, committed: zxid("committed=")? })
    }
}

/// The file while the log is written.
#[derive(Debug)]
pub(crate) struct Progress {
    volume: Volume,
    dir: PathBuf,
    output: Option<Output>,
    /// Bytes of log since the file was last synced.
    unsynced_bytes: u64,
}

impl Progress {
    pub(crate) fn new(volume: Volume, dir: PathBuf) -> Self {
        Self { volume, dir, output: None, unsynced_bytes: 0 }
    }

    /// So many bytes of log were written and are durable, and this is true now.
    pub(crate) fn advance(&mut self, mark: &Mark, bytes: u64) -> Result<(), FileError> {
        self.unsynced_bytes += bytes;
        let sync = self.unsynced_bytes >= SYNC_EVERY_BYTES;
        let output = self.open()?;
        output.overwrite(mark.text().as_bytes())?;
        if sync {
            output.sync()?;
            self.unsynced_bytes = 0;
        }
        Ok(())
    }

    /// The log is about to become shorter: from here on the file says nothing, durably.
    pub(crate) fn clear(&mut self) -> Result<(), FileError> {
        let output = self.open()?;
        output.overwrite(&[b' '; TEXT_BYTES])?;
        output.sync()
    }

    fn open(&mut self) -> Result<&Output, FileError> {
        if self.output.is_none() {
            let path = self.dir.join(NAME);
            let exists = fs::exists(&path).map_err(FileError::during("look for", &path))?;
            self.output = Some(if exists { self.volume.modify(&path)? } else { self.create(&path)? });
        }
        Ok(self.output.as_ref().expect("it was opened above"))
    }

    fn create(&self, path: &Path) -> Result<Output, FileError> {
        let output = self.volume.create(path)?;
        self.volume.sync_dir(&self.dir)?;
        Ok(output)
    }
}

/// How much log may be written between two syncs of the file. This bounds how much log a start after a power failure
/// holds in memory because it does not know that it is committed. Small enough for that, and large enough that a sync
/// more does not count beside writing as much log.
const SYNC_EVERY_BYTES: u64 = 16 << 20;

/// More than the longest text. All of it lies in one sector, which a disk writes as a whole.
const TEXT_BYTES: usize = 160;

pub(crate) const NAME: &str = "progress";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let mark = Mark { log: Zxid(1 << 32 | 1), end: 4096, last: Zxid(1 << 32 | 9), committed: Zxid(1 << 32 | 7) };
        let longest = Mark { log: Zxid(u64::MAX), end: u64::MAX, last: Zxid(u64::MAX), committed: Zxid(u64::MAX) };
        for mark in [mark, longest] {
            assert_eq!((mark.text().len(), Mark::parse(&mark.text())), (TEXT_BYTES, Some(mark)));
        }
    }

    #[test]
    fn a_mark_that_was_torn_or_cleared_says_nothing() {
        let text = Mark { log: Zxid(1), end: 4096, last: Zxid(9), committed: Zxid(7) }.text();
        for at in 0..text.trim_end().len() {
            let mut torn = text.clone().into_bytes();
            torn[at] ^= 1;
            assert_eq!(std::str::from_utf8(&torn).ok().and_then(Mark::parse), None, "byte {at}");
            assert_eq!(Mark::parse(&text[..at]), None, "cut at {at}");
        }
        assert_eq!(Mark::parse(&" ".repeat(TEXT_BYTES)), None);
    }
}
