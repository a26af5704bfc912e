//! The names of the files in `version-2`, and listing them.

use pole_types::Zxid;
use std::fs;
use std::path::{Path, PathBuf};

use crate::FileError;

/// The directory below `dataDir` and `dataLogDir`, named after the version of the format.
pub(crate) const DIRECTORY: &str = "version-2";

/// The suffix of a file that does not have its final name yet.
pub(crate) const TEMPORARY: &str = "tmp";

/// A log file, by its first zxid.
pub(crate) fn log(first: Zxid) -> String {
    format!("log.{:x}", first.0)
}

/// A snapshot, by its last zxid.
pub(crate) fn snapshot(zxid: Zxid) -> String {
    format!("snapshot.{:x}", zxid.0)
}

/// The temporary name of a file.
pub(crate) fn temporary(name: &str) -> String {
    format!("{name}.{TEMPORARY}")
}

/// A parsed file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// A log file, by its first zxid.
    Log(Zxid),
    /// A snapshot, by its last zxid.
    Snapshot(Zxid),
    /// A snapshot compressed by Apache, by its last zxid.
    Compressed(Zxid),
    /// A file that never got its final name.
    Temporary,
    /// Any other file.
    Other,
}

impl Name {
    pub(crate) fn parse(name: &str) -> Self {
        let mut parts = name.split('.');
        let (kind, number, suffix, more) = (parts.next(), parts.next(), parts.next(), parts.next());
        let zxid = number.and_then(|hex| u64::from_str_radix(hex, 16).ok()).map(Zxid);
        match (kind, zxid, suffix, more) {
            (Some("log"), Some(zxid), None, None) => Self::Log(zxid),
            (Some("snapshot"), Some(zxid), None, None) => Self::Snapshot(zxid),
            (Some("snapshot"), Some(zxid), Some("gz" | "snappy"), None) => Self::Compressed(zxid),
            (Some("snapshot"), Some(_), Some(TEMPORARY), None) => Self::Temporary,
            (Some("currentEpoch" | "acceptedEpoch" | "intent"), None, None, None) if number == Some(TEMPORARY) => {
                Self::Temporary
            }
            _ => Self::Other,
        }
    }
}

/// The files in a directory.
pub(crate) fn list(dir: &Path) -> Result<Vec<(Name, PathBuf)>, FileError> {
    let failed = || FileError::during("list", dir);
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        found.push((entry.file_name().to_str().map_or(Name::Other, Name::parse), entry.path()));
    }
    Ok(found)
}

/// The files of the log, oldest first.
pub(crate) fn logs(dir: &Path) -> Result<Vec<(Zxid, PathBuf)>, FileError> {
    numbered(dir, |name| if let Name::Log(first) = name { Some(first) } else { None })
}

/// The snapshots that are not compressed, oldest first.
pub(crate) fn snapshots(dir: &Path) -> Result<Vec<(Zxid, PathBuf)>, FileError> {
    numbered(dir, |name| if let Name::Snapshot(zxid) = name { Some(zxid) } else { None })
}

fn numbered(dir: &Path, pick: impl Fn(Name) -> Option<Zxid>) -> Result<Vec<(Zxid, PathBuf)>, FileError> {
    let picked = list(dir)?.into_iter().filter_map(|(name, path)| Some((pick(name)?, path)));
    let mut found: Vec<_> = picked.collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        let zxid = Zxid(0x5_0000_001f);
        assert_eq!(Name::parse(&log(zxid)), Name::Log(zxid));
        assert_eq!(Name::parse(&snapshot(zxid)), Name::Snapshot(zxid));
        assert_eq!(Name::parse(&temporary(&snapshot(zxid))), Name::Temporary);
        assert_eq!(log(zxid), "log.50000001f");
    }

    #[test]
    fn other_files_are_ignored() {
        for name in ["myid", "log", "log.", "log.xyz", "log.1.bak", "snapshot.1.gz.tmp", "updatingEpoch", "log.1.tmp"] {
            assert_eq!(Name::parse(name), Name::Other, "{name}");
        }
        assert_eq!(Name::parse("snapshot.1f.snappy"), Name::Compressed(Zxid(0x1f)));
    }
}
