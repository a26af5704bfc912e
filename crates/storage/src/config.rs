//! What an operator can set about the disk, with the names of `zoo.cfg` beside it.

use bytes::Bytes;
use std::path::PathBuf;
use std::time::Duration;

/// Where the files are and how they are kept.
#[derive(Clone, Debug)]
pub struct Config {
    /// `dataDir`: snapshots and epochs, in its `version-2`.
    pub data_dir: PathBuf,
    /// `dataLogDir`: the log, in its `version-2`. The same as `data_dir` unless a disk of its own is given to it.
    pub data_log_dir: PathBuf,
    /// `preAllocSize`: how much room a log file gets at a time, so that an append seldom changes its size.
    pub preallocate_bytes: u64,
    /// `txnLogSizeLimitInKb`, in bytes: a log file that has grown beyond is not continued.
    pub log_bytes_max: Option<u64>,
    /// `forceSync`: without it an append is reported before it is durable, and a power failure loses what was
    /// acknowledged.
    pub sync: bool,
    /// `autopurge.snapRetainCount`: valid snapshots that stay. At least one always does.
    pub snap_retain_count: usize,
    /// `autopurge.purgeInterval`: old files go after a checkpoint, but not more often than this. None: they stay.
    pub purge_interval: Option<Duration>,
    /// How much committed log is kept in memory at start, for followers that are a little behind.
    pub retain_bytes: usize,
    /// This server is the only voter: everything in its log is committed.
    pub alone: bool,
    /// `snapshot.trust.empty`: a log without any snapshot is read as the whole history. Otherwise it is refused, because
    /// the snapshot that it continued is lost.
    pub trust_empty: bool,
    /// The state of a server without history. Written as `snapshot.0` before the first log file, because a directory
    /// that has a log and no snapshot is refused, by Apache and by us. None only together with `trust_empty`.
    pub blank: Option<Bytes>,
}

impl Config {
    /// One directory for everything, with Apache's defaults.
    #[must_use]
    pub fn in_dir(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Self {
            data_log_dir: dir.clone(),
            data_dir: dir,
            preallocate_bytes: 64 << 20,
            log_bytes_max: None,
            sync: true,
            snap_retain_count: 3,
            purge_interval: None,
            retain_bytes: 256 << 20,
            alone: false,
            trust_empty: false,
            blank: Some(Bytes::new()),
        }
    }
}
