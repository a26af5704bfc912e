//! Temporary directories for tests, and their content.

use bytes::Bytes;
use pole_jute::{Record, TxnHeader};
use pole_storage::{Config, Disk, OpenError, Recovered, Repair, open};
use pole_types::{Cxid, Epoch, SessionId, Zxid};
use pole_zab::{DiskOp, Entry, Epochs, Origin, Snapshot, Ticket};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A temporary directory, removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A directory with a copy of files written by Apache.
    pub(crate) fn of_fixture(name: &str) -> Self {
        let scratch = Self::new();
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name).join("version-2");
        fs::create_dir_all(scratch.files()).unwrap();
        for file in fs::read_dir(from).unwrap().map(Result::unwrap) {
            fs::copy(file.path(), scratch.files().join(file.file_name())).unwrap();
        }
        scratch
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The directory with the files.
    pub(crate) fn files(&self) -> PathBuf {
        self.0.join("version-2")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.files().join(name)
    }

    /// The names of the files, but for `lock`.
    pub(crate) fn names(&self) -> Vec<String> {
        self.contents().into_keys().collect()
    }

    /// The files, but for `lock`.
    pub(crate) fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let files = fs::read_dir(self.files()).unwrap().map(Result::unwrap);
        let named = files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap()));
        named.filter(|(name, _)| name != "lock").collect()
    }

    pub(crate) fn config(&self) -> Config {
        Config { preallocate_bytes: 4096, blank: None, trust_empty: true, ..Config::in_dir(&self.0) }
    }

    pub(crate) fn open(&self) -> (Disk, Recovered, Vec<Repair>) {
        self.try_open().unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn try_open(&self) -> Result<(Disk, Recovered, Vec<Repair>), OpenError> {
        open(self.config())
    }

    /// Opens the directory, performs the operations and closes it.
    pub(crate) fn write(&self, ops: Vec<DiskOp>) {
        let (mut disk, _, _) = self.open();
        perform(&mut disk, ops);
        disk.finish_checkpoints();
    }

    /// Simulates the worst effect of a power failure on the progress record: it did not reach the disk.
    pub(crate) fn forget_progress(&self) {
        fs::remove_file(self.file("lock")).unwrap();
    }

    /// The zxids of the entries found.
    pub(crate) fn found(&self) -> Vec<Zxid> {
        zxids(&self.open().1)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn perform(disk: &mut Disk, ops: Vec<DiskOp>) {
    let mut ops: Vec<_> = (1..).map(Ticket).zip(ops).collect();
    let last = ops.last().map(|(ticket, _)| *ticket);
    assert_eq!(disk.perform(&mut ops).unwrap_or_else(|error| panic!("{error}")), last);
}

pub(crate) fn zxids(recovered: &Recovered) -> Vec<Zxid> {
    recovered.entries.iter().map(|entry| entry.zxid).collect()
}

pub(crate) fn zxid(epoch: u32, counter: u32) -> Zxid {
    Zxid::new(Epoch(epoch), counter)
}

/// Entries of an epoch, each with `bytes` bytes after the header.
pub(crate) fn append(epoch: u32, counters: std::ops::RangeInclusive<u32>, bytes: usize) -> DiskOp {
    DiskOp::Append(counters.map(|counter| entry(zxid(epoch, counter), bytes)).collect())
}

pub(crate) fn entry(zxid: Zxid, bytes: usize) -> Entry {
    let header = TxnHeader { client_id: 0x77, cxid: zxid.counter() as i32, zxid: zxid.0 as i64, time: 1, op: -1 };
    let mut body = header.encode().to_vec();
    body.extend((0..bytes).map(|at| at as u8 | 1));
    let origin = Origin { session: SessionId(0x77), cxid: Cxid(zxid.counter() as i32) };
    Entry { zxid, origin, body: body.into() }
}

/// A leader's snapshot, in one part.
pub(crate) fn receive(zxid: Zxid, body: &'static [u8]) -> DiskOp {
    DiskOp::Receive { zxid, offset: 0, body: Bytes::from_static(body) }
}

pub(crate) fn snapshot(zxid: Zxid, body: &'static [u8]) -> Snapshot {
    Snapshot { zxid, epochs: Epochs::starting_at(zxid), body: Bytes::from_static(body).into() }
}
