//! The disk settings, with the names of `zoo.cfg`.

use bytes::Bytes;
use std::path::PathBuf;
use std::time::Duration;

/// The location of the files and how they are kept.
#[derive(Clone, Debug)]
pub struct Config {
    /// `dataDir`: the snapshots and epochs are in its `version-2`.
    pub data_dir: PathBuf,
    /// `dataLogDir`: the log is in its `version-2`. The same as `data_dir` unless the log has its own disk.
    pub data_log_dir: PathBuf,
    /// `preAllocSize`: how much space a log file gets at a time at most, so that an append seldom changes its size. A small
    /// file gets as much as it has, and at least 1 MiB.
    pub preallocate_bytes: u64,
    /// `txnLogSizeLimitInKb`, in bytes: a log file that exceeds this is not continued.
    pub log_bytes_max: Option<u64>,
    /// `forceSync`: if false, an append is reported before it is durable, and a power failure loses acknowledged
    /// transactions.
    pub sync: bool,
    /// `autopurge.snapRetainCount`: the number of valid snapshots to keep. At least one is always kept.
    pub snap_retain_count: usize,
    /// `autopurge.purgeInterval`: old files are removed after a checkpoint, but not more often than this. `None`:
    /// never.
    pub purge_interval: Option<Duration>,
    /// How much committed log is kept in memory at start, in bytes, for followers that are a little behind.
    pub retain_bytes: usize,
    /// Whether this server is the only voter: then everything in its log is committed.
    pub alone: bool,
    /// `snapshot.trust.empty`: accept a log without any snapshot as the whole history. Otherwise it is refused, because
    /// the snapshot that it continued must be lost.
    pub trust_empty: bool,
    /// The encoded state of a server without history. It is written as `snapshot.0` before the first log file, because
    /// Apache and Pole refuse a directory that has a log and no snapshot. `None` only together with `trust_empty`.
    pub blank: Option<Bytes>,
    /// Whether the directory may be one that follows another ensemble ([`crate::mark_following`]). Otherwise such a
    /// directory is refused.
    pub following: bool,
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
            following: false,
        }
    }
}
