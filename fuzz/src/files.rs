//! Targets `log-file` and `snapshot-file`: a data directory with one file, as a server finds it at its start.
//!
//! Property: opening the directory repairs or refuses it, and a repaired directory opens again with the same result.
//!
//! Checksums are computed by the target unless the first byte is odd, because no mutation would guess them.

use std::fs;
use std::path::{Path, PathBuf};

use pole_jute::{FileHeader, LOG_MAGIC, Record, SNAPSHOT_MAGIC, VERSION};
use pole_storage::{Config, Recovered, open};

use crate::machine::steps;

/// One log file: the input itself, or one built from a sequence of records.
pub(crate) fn log(input: &[u8]) {
    let Some((&selector, rest)) = input.split_first() else { return };
    if selector & 1 == 1 {
        return start("log.1", rest);
    }
    let mut file = FileHeader { magic: LOG_MAGIC, version: VERSION, dbid: 0 }.encode().to_vec();
    for (damage, body) in steps(rest) {
        let length = i32::try_from(body.len()).expect("two bytes say the length");
        file.extend(i64::from(simd_adler32::adler32(&&body[..])).to_be_bytes());
        file.extend(length.to_be_bytes());
        file.extend(&body);
        // The end-of-record mark, or a damaged one.
        file.push(b'B' ^ (damage & 1));
    }
    file.extend(vec![0; usize::from(selector)]);
    start("log.1", &file);
}

/// One snapshot: the input itself, or the input with header and checksum.
pub(crate) fn snapshot(input: &[u8]) {
    let Some((&selector, rest)) = input.split_first() else { return };
    if selector & 1 == 1 {
        return start("snapshot.1", rest);
    }
    let mut file = FileHeader { magic: SNAPSHOT_MAGIC, version: VERSION, dbid: -1 }.encode().to_vec();
    file.extend(rest);
    file.extend(i64::from(simd_adler32::adler32(&&file[..])).to_be_bytes());
    file.extend(b"\0\0\0\x01/");
    start("snapshot.1", &file);
}

/// Opens a directory with only this file, twice.
fn start(name: &str, content: &[u8]) {
    let dir = directory(name);
    let files = dir.join("version-2");
    let _ = fs::remove_dir_all(&files);
    fs::create_dir_all(&files).expect("a directory for the file");
    fs::write(files.join(name), content).expect("the file is written");
    let Some(first) = try_open(&dir) else { return };
    let second = try_open(&dir).expect("a repaired directory opens");
    assert_eq!(first, second, "the repair changes the result");
}

fn try_open(dir: &Path) -> Option<Recovered> {
    match open(Config::in_dir(dir)) {
        Ok((_, recovered, repairs)) => {
            repairs.iter().for_each(|repair| drop(repair.to_string()));
            Some(recovered)
        }
        Err(refused) => {
            drop(refused.to_string());
            None
        }
    }
}

/// One directory for each file name and process, because targets run side by side; in memory if possible, because
/// thousands of files are created per second.
fn directory(name: &str) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    place.join(format!("pole-fuzz-{}-{name}", std::process::id()))
}
