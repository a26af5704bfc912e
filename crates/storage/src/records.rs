//! The records of one log file: written to a buffer, read back one by one.
//!
//! A record is a checksum (8 bytes), a length (4 bytes), the transaction, and the letter B. The last one is followed by
//! zeros: space that was preallocated.
//!
//! Memory is allocated a window at a time, and entries share their window. What `zab` drops is therefore freed along
//! with the next few entries and not with a whole file.

use bytes::Bytes;
use pole_jute::{FileHeader, LOG_MAGIC, Record, TxnHeader, VERSION};
use pole_types::{Cxid, SessionId, Zxid};
use pole_zab::{Entry, Origin};
use rustix::fs::SeekFrom;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::{Damage, FileError};

/// The header of a log file whose first transaction follows `previous`.
///
/// Apache writes a number there that is always 0 and is never read. Pole writes the transaction that precedes the file,
/// so that a missing file is detected even where a new epoch begins.
pub(crate) fn file_header(previous: Zxid) -> Bytes {
    FileHeader { magic: LOG_MAGIC, version: VERSION, dbid: (previous.0 | PREVIOUS_FLAG).cast_signed() }.encode()
}

/// Appends the record of a transaction. Returns false if the bytes are not the transaction `zxid`.
pub(crate) fn put(buffer: &mut Vec<u8>, zxid: Zxid, body: &[u8]) -> bool {
    let Some(length) = i32::try_from(body.len()).ok().filter(|_| zxid_of(body) == Some(zxid)) else { return false };
    buffer.extend_from_slice(&i64::from(simd_adler32::adler32(&body)).to_be_bytes());
    buffer.extend_from_slice(&length.to_be_bytes());
    buffer.extend_from_slice(body);
    buffer.push(RECORD_END);
    true
}

/// The next item in a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Entry(Entry),
    /// Only zeros follow, or nothing.
    End,
    /// An invalid record follows.
    Flaw(Flaw),
}

/// Why a record is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub(crate) expected: String,
    pub(crate) got: String,
    /// The size that the record claims, or the size of its header if the length is invalid.
    pub(crate) bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Records {
    file: File,
    path: PathBuf,
    file_len: u64,
    /// The offset at which the trailing zeros begin.
    data_end: u64,
    /// The offset of the next record.
    at: u64,
    window: Bytes,
    /// The offset of the window.
    window_at: u64,
    /// Set if the file header is invalid.
    header_flaw: Option<Flaw>,
    /// The transaction before the first one, if the file header names it.
    previous: Option<Zxid>,
    /// The version in the file header.
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
            header_flaw: None,
            previous: None,
            version: VERSION,
        };
        records.read_header()?;
        Ok(records)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn version(&self) -> i32 {
        self.version
    }

    /// The transaction before the first one; `None` if the file header does not name it, as in files of Apache.
    pub(crate) fn previous(&self) -> Option<Zxid> {
        self.previous
    }

    /// The offset at which the last record read, or the file header, ends.
    pub(crate) fn position(&self) -> u64 {
        self.at
    }

    /// The offset at which the trailing zeros begin.
    pub(crate) fn data_end(&self) -> u64 {
        self.data_end
    }

    pub(crate) fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Returns everything from here to the trailing zeros, up to `bytes_max`, without moving.
    pub(crate) fn rest(&self, bytes_max: usize) -> Result<Bytes, FileError> {
        let bytes = (self.data_end - self.at).min(bytes_max as u64) as usize;
        let mut rest = vec![0; bytes];
        self.file.read_exact_at(&mut rest, self.at).map_err(FileError::during("read", &self.path))?;
        Ok(rest.into())
    }

    /// Whether the bytes from here to the trailing zeros are a valid record except for its length field.
    pub(crate) fn is_whole_but_for_length(&self, rest: &Bytes) -> bool {
        let is_all = rest.len() as u64 == self.data_end - self.at;
        is_all
            && self.header_flaw.is_none()
            && rest.len() > RECORD_HEADER_BYTES + TxnHeader::BYTES_MIN
            && parse(rest).is_ok()
    }

    /// Converts a flaw at the current position into an error.
    pub(crate) fn damage(&self, flaw: Flaw) -> Damage {
        Damage { path: self.path.clone(), offset: self.at, expected: flaw.expected, got: flaw.got }
    }

    pub(crate) fn next(&mut self) -> Result<Next, FileError> {
        if let Some(flaw) = &self.header_flaw {
            return Ok(Next::Flaw(flaw.clone()));
        }
        if self.at >= self.data_end {
            return Ok(Next::End);
        }
        let Some(header) = self.peek(RECORD_HEADER_BYTES)? else {
            return Ok(Next::Flaw(self.too_short(RECORD_HEADER_BYTES)));
        };
        let length = i32::from_be_bytes(header[8..].try_into().expect("four bytes"));
        let Some(length) = usize::try_from(length).ok().filter(|l| *l >= TxnHeader::BYTES_MIN) else {
            let expected = format!("the length of a transaction, at least {}", TxnHeader::BYTES_MIN);
            return Ok(Next::Flaw(Flaw { expected, got: length.to_string(), bytes: RECORD_HEADER_BYTES as u64 }));
        };
        let bytes = RECORD_HEADER_BYTES + length + 1;
        match self.peek(bytes)? {
            None => Ok(Next::Flaw(self.too_short(bytes))),
            Some(record) => Ok(self.accept(&record)),
        }
    }

    fn accept(&mut self, record: &Bytes) -> Next {
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
            self.previous = (number & PREVIOUS_FLAG != 0).then_some(Zxid(number & !PREVIOUS_FLAG));
            // The number is 0 in a file of Apache, and trailing zeros do not count as data.
            self.data_end = self.data_end.max(length as u64);
            self.at = length as u64;
        } else {
            let got = format!("{:02x?}", &got[..length]);
            let flaw = Flaw { expected: format!("the header {:02x?}", &expected[..8]), got, bytes: 16 };
            self.header_flaw = Some(flaw);
        }
        Ok(())
    }

    /// Returns the next `bytes` bytes without moving, if there are that many.
    fn peek(&mut self, bytes: usize) -> Result<Option<Bytes>, FileError> {
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

    fn too_short(&self, bytes: usize) -> Flaw {
        let got = format!("{} before the end", self.data_end - self.at);
        Flaw { expected: format!("a record of {bytes} bytes"), got, bytes: bytes as u64 }
    }
}

/// Parses a complete record, including its length field.
fn parse(record: &Bytes) -> Result<Entry, Flaw> {
    let bytes = record.len() as u64;
    let flaw = |expected: String, got: String| Flaw { expected, got, bytes };
    let body = record.slice(RECORD_HEADER_BYTES..record.len() - 1);
    let checksum = i64::from_be_bytes(record[..8].try_into().expect("eight bytes"));
    let computed = i64::from(simd_adler32::adler32(&&body[..]));
    if checksum != computed {
        return Err(flaw(format!("the checksum {computed:#x}"), format!("{checksum:#x}")));
    }
    if record[record.len() - 1] != RECORD_END {
        return Err(flaw("a record that ends in B".into(), format!("{:#x}", record[record.len() - 1])));
    }
    let long = |at: usize| i64::from_be_bytes(body[at..at + 8].try_into().expect("the header is there"));
    let cxid = i32::from_be_bytes(body[8..12].try_into().expect("the header is there"));
    let origin = Origin { session: SessionId(long(0)), cxid: Cxid(cxid) };
    Ok(Entry { zxid: Zxid(long(ZXID_AT).cast_unsigned()), origin, body })
}

/// The size of the valid record at the start of `bytes`, if there is one.
pub(crate) fn valid_record(bytes: &Bytes) -> Option<usize> {
    // A 32-bit checksum in a 64-bit field: most invalid data fails here.
    if bytes.get(..4)? != [0; 4] {
        return None;
    }
    let length = i32::from_be_bytes(bytes.get(8..RECORD_HEADER_BYTES)?.try_into().ok()?);
    let length = usize::try_from(length).ok().filter(|l| *l >= TxnHeader::BYTES_MIN)?;
    let whole = RECORD_HEADER_BYTES.checked_add(length)?.checked_add(1).filter(|whole| *whole <= bytes.len())?;
    (bytes[whole - 1] == RECORD_END && parse(&bytes.slice(..whole)).is_ok()).then_some(whole)
}

/// The zxid in the header of a transaction.
fn zxid_of(body: &[u8]) -> Option<Zxid> {
    let header = body.get(..TxnHeader::BYTES_MIN)?;
    Some(Zxid(u64::from_be_bytes(header[ZXID_AT..ZXID_AT + 8].try_into().ok()?)))
}

/// The offset after the last byte that is not zero. Unused preallocated space is skipped and not read.
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

/// The parts of a file that are not holes; the whole file if the file system does not support the query.
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

/// Marks the number in a file header as the preceding transaction. No epoch is that large.
const PREVIOUS_FLAG: u64 = 1 << 63;

/// Checksum and length.
const RECORD_HEADER_BYTES: usize = 12;

/// The last byte of a record.
const RECORD_END: u8 = b'B';

/// The offset of the zxid in the header of a transaction.
const ZXID_AT: usize = 12;

/// How much is read at a time: large enough to make the cost of system calls negligible, small enough to be freed
/// early.
const WINDOW_BYTES: usize = 1 << 20;
