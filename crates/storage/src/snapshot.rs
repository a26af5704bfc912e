//! Snapshot files: a state under the name of its last transaction.
//!
//! The file is a header, the state, and a seal: the Adler-32 of everything before it, and the string `/`. Since 3.6
//! Apache adds a digest of the tree and a second seal, and since 3.9 the last transaction and a third one. All forms are
//! read here; the first, which every release reads, is written.
//!
//! Invariant: a file gets its final name only when it is complete and durable.

use bytes::Bytes;
use pole_jute::{FileHeader, Record, SNAPSHOT_MAGIC, VERSION};
use pole_types::Zxid;
use pole_zab::Body;
use simd_adler32::Adler32;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::{Range, RangeInclusive};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::volume::{Output, Volume};
use crate::{FileError, OpenError, names};

/// Writes a snapshot under its temporary name and makes it durable. `should_continue` is called before each piece; if
/// it returns false, the file is removed and `None` is returned.
pub(crate) fn prepare(
    volume: &Volume,
    dir: &Path,
    zxid: Zxid,
    body: &Body,
    should_continue: &dyn Fn() -> bool,
) -> Result<Option<PathBuf>, FileError> {
    let path = dir.join(names::temporary(&names::snapshot(zxid)));
    let mut sink = Sink::begin(volume, &path)?;
    let mut stopped = false;
    body.write(&mut |piece| {
        stopped = stopped || !should_continue();
        if !stopped {
            sink.put(piece);
        }
    });
    if stopped {
        volume.remove(&path)?;
        return Ok(None);
    }
    sink.seal();
    match sink.finish() {
        Ok(()) => Ok(Some(path)),
        Err(error) => {
            // The file is useless. A failure to remove it adds nothing to the first error.
            let _ = volume.remove(&path);
            Err(error)
        }
    }
}

/// Gives a prepared snapshot its final name, durably.
pub(crate) fn publish(volume: &Volume, dir: &Path, zxid: Zxid) -> Result<(), FileError> {
    let name = names::snapshot(zxid);
    volume.rename(&dir.join(names::temporary(&name)), &dir.join(name))?;
    volume.sync_dir(dir)
}

/// A snapshot that is received in parts, under its temporary name.
pub(crate) struct Receiving {
    zxid: Zxid,
    /// The number of bytes of the state received.
    offset: usize,
    sink: Sink,
}

impl Receiving {
    pub(crate) fn begin(volume: &Volume, dir: &Path, zxid: Zxid) -> Result<Self, FileError> {
        let path = dir.join(names::temporary(&names::snapshot(zxid)));
        Ok(Self { zxid, offset: 0, sink: Sink::begin(volume, &path)? })
    }

    /// Whether the next part of this snapshot begins at this offset.
    pub(crate) fn continues(&self, zxid: Zxid, offset: usize) -> bool {
        (self.zxid, self.offset) == (zxid, offset)
    }

    pub(crate) fn put(&mut self, part: &[u8]) -> Result<(), FileError> {
        self.sink.put(part);
        self.offset += part.len();
        self.sink.failed.take().map_or(Ok(()), Err)
    }

    /// Completes the file and makes it durable.
    pub(crate) fn finish(mut self) -> Result<(), FileError> {
        self.sink.seal();
        self.sink.finish()
    }
}

/// Buffers large writes to a file and computes its checksum.
struct Sink {
    output: Output,
    buffer: Vec<u8>,
    at: u64,
    /// How far the file is durable.
    synced: u64,
    checksum: Adler32,
    /// The first error, because a state cannot be stopped while it writes itself.
    failed: Option<FileError>,
}

impl Sink {
    fn begin(volume: &Volume, path: &Path) -> Result<Self, FileError> {
        let output = volume.create(path)?;
        let buffer = Vec::with_capacity(BUFFER_BYTES);
        let mut sink = Self { output, buffer, at: 0, synced: 0, checksum: Adler32::new(), failed: None };
        sink.put(&FileHeader { magic: SNAPSHOT_MAGIC, version: VERSION, dbid: -1 }.encode());
        Ok(sink)
    }

    fn put(&mut self, piece: &[u8]) {
        self.checksum.write(piece);
        for part in piece.chunks(BUFFER_BYTES) {
            if self.buffer.len() + part.len() > BUFFER_BYTES {
                self.write();
            }
            self.buffer.extend_from_slice(part);
        }
    }

    fn seal(&mut self) {
        let checksum = i64::from(self.checksum.finish()).to_be_bytes();
        self.put(&checksum);
        self.put(&SEAL);
    }

    fn write(&mut self) {
        if self.failed.is_none() {
            self.failed = self.output.write_at(&self.buffer, self.at).err();
        }
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        if self.failed.is_none() && self.at - self.synced >= SYNC_EVERY_BYTES {
            self.failed = self.output.sync().err();
            self.synced = self.at;
        }
    }

    fn finish(mut self) -> Result<(), FileError> {
        self.write();
        self.failed.map_or(Ok(()), Err)?;
        self.output.sync()
    }
}

/// Why a snapshot cannot be used.
#[derive(Debug)]
pub(crate) struct Flaw {
    pub(crate) offset: u64,
    pub(crate) expected: String,
    pub(crate) got: String,
}

/// Checks a snapshot completely. Returns the range of its state in the file.
///
/// The file is read in pieces, because a snapshot is as large as the tree. [`pieces`] reads the state again.
pub(crate) fn check(path: &Path) -> Result<Result<Range<u64>, Flaw>, OpenError> {
    let failed = || FileError::during("read", path);
    let mut file = File::open(path).map_err(failed())?;
    let length = file.metadata().map_err(failed())?.len();
    if length < (HEADER_BYTES + SEAL_BYTES) as u64 {
        let expected = format!("at least {} bytes", HEADER_BYTES + SEAL_BYTES);
        return Ok(Err(Flaw { offset: 0, expected, got: length.to_string() }));
    }
    let mut header = [0; HEADER_BYTES];
    file.read_exact(&mut header).map_err(failed())?;
    let FileHeader { magic, version, .. } =
        FileHeader::decode(Bytes::copy_from_slice(&header)).expect("its bytes are there");
    if magic != SNAPSHOT_MAGIC {
        let (expected, got) = (format!("{SNAPSHOT_MAGIC:#x}"), format!("{magic:#x}"));
        return Ok(Err(Flaw { offset: 0, expected, got }));
    }
    if version != VERSION {
        return Err(OpenError::Version { path: path.into(), expected: VERSION, got: version.into() });
    }
    let mut checksum = Adler32::new();
    checksum.write(&header);
    // The end may contain a digest between two seals. Everything before it is read in pieces.
    let begin = length.saturating_sub(TAIL_BYTES_MAX).max(HEADER_BYTES as u64);
    for piece in lengths(HEADER_BYTES as u64..begin) {
        let mut bytes = vec![0; piece];
        file.read_exact(&mut bytes).map_err(failed())?;
        checksum.write(&bytes);
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed())?;
    let end = Tail { begin, bytes, checksum }.unseal();
    Ok(end.map(|(end, _)| HEADER_BYTES as u64..end))
}

/// The state of a checked snapshot, in pieces.
pub(crate) fn pieces(
    path: &Path,
    state: Range<u64>,
) -> Result<impl Iterator<Item = Result<Bytes, FileError>>, FileError> {
    let mut file = File::open(path).map_err(FileError::during("read", path))?;
    file.seek(SeekFrom::Start(state.start)).map_err(FileError::during("read", path))?;
    let path = path.to_owned();
    Ok(lengths(state).map(move |length| {
        let mut bytes = vec![0; length];
        file.read_exact(&mut bytes).map_err(FileError::during("read", &path))?;
        Ok(bytes.into())
    }))
}

/// The lengths of the pieces of a range.
fn lengths(range: Range<u64>) -> impl Iterator<Item = usize> {
    let starts = range.clone().step_by(BUFFER_BYTES);
    starts.map(move |start| (range.end - start).min(BUFFER_BYTES as u64) as usize)
}

/// The end of a snapshot, with all possible seals.
pub(crate) struct Tail {
    /// Its offset in the file.
    pub(crate) begin: u64,
    pub(crate) bytes: Vec<u8>,
    /// The checksum of everything before it.
    pub(crate) checksum: Adler32,
}

impl Tail {
    /// The offset at which the state ends, and its last transaction if the file names it. Every seal must be valid.
    pub(crate) fn unseal(&self) -> Result<(u64, Option<Zxid>), Flaw> {
        let Some(mut end) = self.bytes.len().checked_sub(SEAL_BYTES) else {
            let expected = format!("at least {SEAL_BYTES} bytes");
            return Err(Flaw { offset: self.begin, expected, got: self.bytes.len().to_string() });
        };
        self.check_seal(end)?;
        let mut last = None;
        if let Some(before) = self.seal_before(end, ZXID_BYTES..=ZXID_BYTES) {
            let zxid = self.bytes[end - ZXID_BYTES..end].try_into().expect("eight bytes");
            (end, last) = (before, Some(Zxid(u64::from_be_bytes(zxid))));
        }
        // The length of a digest depends on its version.
        end = self.seal_before(end, DIGEST_BYTES).unwrap_or(end);
        Ok((self.begin + end as u64, last))
    }

    /// The valid seal before the one at `end`, with a number of bytes between them that lies in the range.
    fn seal_before(&self, end: usize, mut bytes: RangeInclusive<usize>) -> Option<usize> {
        bytes.find_map(|bytes| end.checked_sub(bytes + SEAL_BYTES).filter(|at| self.check_seal(*at).is_ok()))
    }

    fn check_seal(&self, at: usize) -> Result<(), Flaw> {
        let flaw =
            |at: usize, expected: String, got: String| Err(Flaw { offset: self.begin + at as u64, expected, got });
        let (checksum, mark) = (&self.bytes[at..at + 8], &self.bytes[at + 8..at + SEAL_BYTES]);
        if mark != SEAL {
            return flaw(at + 8, format!("the seal {SEAL:02x?}"), format!("{mark:02x?}"));
        }
        let got = i64::from_be_bytes(checksum.try_into().expect("eight bytes"));
        let mut computed = self.checksum.clone();
        computed.write(&self.bytes[..at]);
        let computed = i64::from(computed.finish());
        if got != computed {
            return flaw(at, format!("the checksum {computed:#x}"), format!("{got:#x}"));
        }
        Ok(())
    }
}

/// Starts to read a snapshot of our own, which has one seal. Returns the length of its state, the checksum of its
/// header, and the expected checksum of header and state. The file is positioned after the header.
pub(crate) fn begin(file: &mut File) -> io::Result<(u64, Adler32, i64)> {
    let length = file.metadata()?.len();
    let state = length.checked_sub((HEADER_BYTES + SEAL_BYTES) as u64);
    let state = state.ok_or_else(|| io::Error::other(format!("{length} bytes are no snapshot")))?;
    let mut seal = [0; SEAL_BYTES];
    file.read_exact_at(&mut seal, length - SEAL_BYTES as u64)?;
    let mut header = [0; HEADER_BYTES];
    file.read_exact(&mut header)?;
    if seal[8..] != SEAL || header[..4] != SNAPSHOT_MAGIC.to_be_bytes() {
        return Err(io::Error::other("it does not begin and end as a snapshot does"));
    }
    let mut checksum = Adler32::new();
    checksum.write(&header);
    Ok((state, checksum, i64::from_be_bytes(*seal.first_chunk().expect("eight bytes"))))
}

/// Whether a file begins and ends like a snapshot. This is cheap, and sufficient to recognise one that a crash cut
/// short.
pub(crate) fn looks_whole(path: &Path) -> Result<bool, FileError> {
    let failed = || FileError::during("read", path);
    let file = File::open(path).map_err(failed())?;
    let length = file.metadata().map_err(failed())?.len();
    if length < (HEADER_BYTES + SEAL_BYTES) as u64 {
        return Ok(false);
    }
    let (mut magic, mut mark) = ([0; 4], [0; SEAL.len()]);
    file.read_exact_at(&mut magic, 0).map_err(failed())?;
    file.read_exact_at(&mut mark, length - SEAL.len() as u64).map_err(failed())?;
    Ok(magic == SNAPSHOT_MAGIC.to_be_bytes() && mark == SEAL)
}

/// The string at the end of a seal.
pub(crate) const SEAL: [u8; 5] = [0, 0, 0, 1, b'/'];

const SEAL_BYTES: usize = 8 + SEAL.len();

pub(crate) const HEADER_BYTES: usize = FileHeader::BYTES_MIN;

/// A zxid, a version, and a number or a string of up to 16 digits.
const DIGEST_BYTES: RangeInclusive<usize> = 16..=32;

/// The last transaction.
const ZXID_BYTES: usize = 8;

/// Three seals, the longest digest and the last transaction.
pub(crate) const TAIL_BYTES_MAX: u64 = (3 * SEAL_BYTES + *DIGEST_BYTES.end() + ZXID_BYTES) as u64;

/// A large file is synced in steps while it is written. Otherwise the sync of the log would wait for the disk to write
/// the whole snapshot.
const SYNC_EVERY_BYTES: u64 = 8 << 20;

/// Large enough to make the cost of system calls negligible.
const BUFFER_BYTES: usize = 256 << 10;
