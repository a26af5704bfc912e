//! The records of one log file: written to a buffer, read back one by one.
//!
//! In: a file. Out: its entries, then that it ends or what is wrong.
//! A record is a checksum (8 bytes), a length (4), the transaction, and the letter B. What follows the last one is
//! zeros: room made in advance.
//! Holds: memory is taken a window at a time, and entries share their window: what `zab` lets go of is freed with the
//! next few entries, not with a whole file.

use bytes::Bytes;
use pole_jute::{FileHeader, LOG_MAGIC, Record, TxnHeader, VERSION};
use pole_zab::{Cxid, Entry, Origin, SessionId, Zxid};
use rustix::fs::SeekFrom;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::{Damage, FileError};

/// The first bytes of a log file whose first transaction comes after `previous`.
///
/// Apache writes a number there that is always 0 and that nobody reads. We write which transaction comes before the
/// file, so that a missing file shows also where a new epoch begins.
pub(crate) fn file_header(previous: Zxid) -> Bytes {
    FileHeader { magic: LOG_MAGIC, version: VERSION, dbid: (previous.0 | PREVIOUS).cast_signed() }.encode()
}

/// Appends the record of a transaction. False if the bytes are not that of `zxid`.
pub(crate) fn put(buffer: &mut Vec<u8>, zxid: Zxid, body: &[u8]) -> bool {
    let Some(length) = i32::try_from(body.len()).ok().filter(|_| zxid_of(body) == Some(zxid)) else { return false };
    buffer.extend_from_slice(&i64::from(simd_adler32::adler32(&body)).to_be_bytes());
    buffer.extend_from_slice(&length.to_be_bytes());
    buffer.extend_from_slice(body);
    buffer.push(MARK);
    true
}

/// What comes next in a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Entry(Entry),
    /// Nothing but zeros, if anything, follows.
    End,
    /// Something follows that is no record.
    Flaw(Flaw),
}

/// Why bytes are no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub(crate) expected: String,
    pub(crate) got: String,
    /// How many bytes the record claims; the part that says so, if that is no length.
    pub(crate) bytes: u64,
}

/// A log file, read from its start.
#[derive(Debug)]
pub(crate) struct Records {
    file: File,
    path: PathBuf,
    file_len: u64,
    /// Where the zeros at the end begin.
    data_end: u64,
    /// Where the next record starts.
    at: u64,
    window: Bytes,
    /// Where the window starts.
    window_at: u64,
    /// The header is no header.
    header: Option<Flaw>,
    /// The transaction before the first one, if the header says so.
    previous: Option<Zxid>,
    /// The version that it names.
    version: i32,
}

impl Records {
    pub(crate) fn open(path: &Path) -> Result<Self, FileError> {
        let file = File::open(path).map_err(FileError::during("open", path))?;
        let file_len = file.metadata().map_err(FileError::during("read", path))?.len();
        let data_end = data_end(&file, file_len).map_err(FileError::during("read", path))?;
        let mut records = Self {
            file,
            path: path.to_owned(),
            file_len,
            data_end,
            at: 0,
            window: Bytes::new(),
            window_at: 0,
            header: None,
            previous: None,
            version: VERSION,
        };
        records.read_header()?;
        Ok(records)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The version of the format that the file claims.
    pub(crate) fn version(&self) -> i32 {
        self.version
    }

    /// The transaction before the first one; none if the header does not say, as in files of Apache.
    pub(crate) fn previous(&self) -> Option<Zxid> {
        self.previous
    }

    /// Where the last record that was read ends, or the header.
    pub(crate) fn position(&self) -> u64 {
        self.at
    }

    /// Where the zeros at the end begin.
    pub(crate) fn data_end(&self) -> u64 {
        self.data_end
    }

    /// How long the file is.
    pub(crate) fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Everything from here to the zeros, but not more than `bytes_max`, without moving.
    pub(crate) fn rest(&self, bytes_max: usize) -> Result<Bytes, FileError> {
        let bytes = (self.data_end - self.at).min(bytes_max as u64) as usize;
        let mut rest = vec![0; bytes];
        self.file.read_exact_at(&mut rest, self.at).map_err(FileError::during("read", &self.path))?;
        Ok(rest.into())
    }

    /// Whether the bytes from here to the zeros are a record, except for what it says about its length.
    pub(crate) fn is_whole_but_for_length(&self, rest: &Bytes) -> bool {
        let is_all = rest.len() as u64 == self.data_end - self.at;
        is_all && self.header.is_none() && rest.len() > FRONT + TxnHeader::BYTES_MIN && parse(rest).is_ok()
    }

    /// The flaw, as what a reader of this file is told.
    pub(crate) fn damage(&self, flaw: Flaw) -> Damage {
        Damage { path: self.path.clone(), offset: self.at, expected: flaw.expected, got: flaw.got }
    }

    pub(crate) fn next(&mut self) -> Result<Next, FileError> {
        if let Some(flaw) = &self.header {
            return Ok(Next::Flaw(flaw.clone()));
        }
        if self.at >= self.data_end {
            return Ok(Next::End);
        }
        let Some(front) = self.look(FRONT)? else { return Ok(Next::Flaw(self.short(FRONT))) };
        let length = i32::from_be_bytes(front[8..].try_into().expect("four bytes"));
        let Some(length) = usize::try_from(length).ok().filter(|l| *l >= TxnHeader::BYTES_MIN) else {
            let expected = format!("the length of a transaction, at least {}", TxnHeader::BYTES_MIN);
            return Ok(Next::Flaw(Flaw { expected, got: length.to_string(), bytes: FRONT as u64 }));
        };
        let bytes = FRONT + length + 1;
        match self.look(bytes)? {
            None => Ok(Next::Flaw(self.short(bytes))),
            Some(record) => Ok(self.take(&record)),
        }
    }

    fn take(&mut self, record: &Bytes) -> Next {
        match parse(record) {
            Ok(entry) => {
                self.at += record.len() as u64;
                Next::Entry(entry)
            }
            Err(flaw) => Next::Flaw(flaw),
        }
    }

    fn read_header(&mut self) -> Result<(), FileError> {
        if self.data_end == 0 {
            return Ok(());
        }
        let expected = file_header(Zxid::ZERO);
        let mut got = vec![0; expected.len()];
        let length = self.file_len.min(got.len() as u64) as usize;
        self.file.read_exact_at(&mut got[..length], 0).map_err(FileError::during("read", &self.path))?;
        if got[..4] == expected[..4] && self.data_end >= 8 {
            self.version = i32::from_be_bytes(got[4..8].try_into().expect("four bytes"));
        }
        if got[..8] == expected[..8] && length == expected.len() {
            let number = u64::from_be_bytes(got[8..].try_into().expect("eight bytes"));
            self.previous = (number & PREVIOUS != 0).then_some(Zxid(number & !PREVIOUS));
            // The number is 0 in a file of Apache, and zeros do not count as data.
            self.data_end = self.data_end.max(length as u64);
            self.at = length as u64;
        } else {
            let got = format!("{:02x?}", &got[..length]);
            let flaw = Flaw { expected: format!("the header {:02x?}", &expected[..8]), got, bytes: 16 };
            self.header = Some(flaw);
        }
        Ok(())
    }

    /// So many bytes from here, if they are there.
    fn look(&mut self, bytes: usize) -> Result<Option<Bytes>, FileError> {
        if bytes as u64 > self.data_end - self.at {
            return Ok(None);
        }
        let start = (self.at - self.window_at) as usize;
        if start + bytes > self.window.len() {
            let size = (bytes.max(WINDOW_BYTES) as u64).min(self.data_end - self.at) as usize;
            let mut window = vec![0; size];
            self.file.read_exact_at(&mut window, self.at).map_err(FileError::during("read", &self.path))?;
            (self.window, self.window_at) = (window.into(), self.at);
            return Ok(Some(self.window.slice(..bytes)));
        }
        Ok(Some(self.window.slice(start..start + bytes)))
    }

    fn short(&self, bytes: usize) -> Flaw {
        let got = format!("{} before the end", self.data_end - self.at);
        Flaw { expected: format!("a record of {bytes} bytes"), got, bytes: bytes as u64 }
    }
}

/// A record that is there in full, length included.
fn parse(record: &Bytes) -> Result<Entry, Flaw> {
    let bytes = record.len() as u64;
    let flaw = |expected: String, got: String| Flaw { expected, got, bytes };
    let body = record.slice(FRONT..record.len() - 1);
    let checksum = i64::from_be_bytes(record[..8].try_into().expect("eight bytes"));
    let computed = i64::from(simd_adler32::adler32(&&body[..]));
    if checksum != computed {
        return Err(flaw(format!("the checksum {computed:#x}"), format!("{checksum:#x}")));
    }
    if record[record.len() - 1] != MARK {
        return Err(flaw("a record that ends in B".into(), format!("{:#x}", record[record.len() - 1])));
    }
    let long = |at: usize| i64::from_be_bytes(body[at..at + 8].try_into().expect("the header is there"));
    let cxid = i32::from_be_bytes(body[8..12].try_into().expect("the header is there"));
    let origin = Origin { session: SessionId(long(0)), cxid: Cxid(cxid) };
    Ok(Entry { zxid: Zxid(long(ZXID_AT).cast_unsigned()), origin, body })
}

/// How many bytes a valid record at the start of `bytes` has.
pub(crate) fn valid_record(bytes: &Bytes) -> Option<usize> {
    // A checksum of 32 bits in a field of 64: most of what is no record ends here.
    if bytes.get(..4)? != [0; 4] {
        return None;
    }
    let length = i32::from_be_bytes(bytes.get(8..FRONT)?.try_into().ok()?);
    let length = usize::try_from(length).ok().filter(|l| *l >= TxnHeader::BYTES_MIN)?;
    let whole = FRONT.checked_add(length)?.checked_add(1).filter(|whole| *whole <= bytes.len())?;
    (bytes[whole - 1] == MARK && parse(&bytes.slice(..whole)).is_ok()).then_some(whole)
}

/// The zxid that the bytes of a transaction name.
fn zxid_of(body: &[u8]) -> Option<Zxid> {
    let header = body.get(..TxnHeader::BYTES_MIN)?;
    Some(Zxid(u64::from_be_bytes(header[ZXID_AT..ZXID_AT + 8].try_into().ok()?)))
}

/// Where the last byte is that is not zero, plus one. Room that was made and never used is skipped, not read.
fn data_end(file: &File, length: u64) -> std::io::Result<u64> {
    let mut buffer = vec![0; 64 << 10];
    for (start, end) in extents(file, length).into_iter().rev() {
        let mut end = end;
        while end > start {
            let size = (end - start).min(buffer.len() as u64);
            let piece = &mut buffer[..size as usize];
            file.read_exact_at(piece, end - size)?;
            if let Some(last) = piece.iter().rposition(|byte| *byte != 0) {
                return Ok(end - size + last as u64 + 1);
            }
            end -= size;
        }
    }
    Ok(0)
}

/// The parts of a file that are more than holes; all of it where the file system does not tell.
fn extents(file: &File, length: u64) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < length {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(rustix::io::Errno::NXIO) => return found,
            Err(_) => return vec![(0, length)],
        };
        let Ok(end) = rustix::fs::seek(file, SeekFrom::Hole(start)) else { return vec![(0, length)] };
        if end <= start {
            return vec![(0, length)];
        }
        found.push((start, end.min(length)));
        at = end;
    }
    found
}

/// Marks that the number in a header is the transaction before the file. No epoch is that large.
const PREVIOUS: u64 = 1 << 63;

/// Checksum and length.
const FRONT: usize = 12;

/// What ends a record.
const MARK: u8 = b'B';

/// Where a transaction's header has its zxid.
const ZXID_AT: usize = 12;

/// How much is read at a time: large enough that the call does not matter, small enough to be let go of early.
const WINDOW_BYTES: usize = 1 << 20;
